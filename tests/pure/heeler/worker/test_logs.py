"""The worker's log lines."""

from __future__ import annotations

import inspect
import io
import json
import logging
import re
import threading
import unicodedata
from contextlib import redirect_stdout

import kafka.net.selector
import py4j.java_gateway
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heeler.worker import recent_logs
from heeler.worker.logs import JsonFormatter, log_context, parse_level, set_up_logging
from heeler.worker.recent_logs import RecentLogs
from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConfigError
from spark_tasks.process.log_lines import escaped
from storage.ids import ConnectorName, ConnectorTaskId


@pytest.fixture
def lines():
    """Logging into a buffer; everything that set_up_logging touches is put back afterwards."""
    root, hook = logging.getLogger(), threading.excepthook
    handlers, level = list(root.handlers), root.level
    known = {n: x.level for n, x in root.manager.loggerDict.items() if isinstance(x, logging.Logger)}
    stream = io.StringIO()

    def log(**kw):
        with redirect_stdout(stream):
            set_up_logging(**kw)
        return lambda: stream.getvalue().splitlines()

    yield log
    root.handlers[:], threading.excepthook = handlers, hook
    root.setLevel(level)  # which also makes loggers forget what is enabled
    for name, logger in root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and logger.level != known.get(name, logging.NOTSET):
            logger.setLevel(known.get(name, logging.NOTSET))
    logging.captureWarnings(capture=False)


def test_a_line_has_kafka_connects_layout(lines):
    written = lines()
    with log_context("c", 0):
        logging.getLogger("actors.instances.task").warning("hello %s", "you")
    logging.getLogger("actors.instances.task").critical("outside")
    first, second = written()
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] WARN \[c\|task-0\] hello you \(actors\.instances\.task:\d+\)", first
    )
    assert "FATAL outside (" in second


@pytest.mark.parametrize(("about", "prefix"), [
    (ConnectorName("a-1"), "[a-1|worker] "), (ConnectorTaskId(ConnectorName("a-1"), 2), "[a-1|task-2] "),
    (("a", 0), "[a|task-0] "), (None, "[c|task-0] "),
])
def test_a_line_may_say_what_it_is_about(lines, about, prefix):
    """So one search finds all lines about a connector, whoever logs them."""
    written = lines()
    with log_context("c", 0):
        logging.getLogger("actors.herder.work").info("Started", extra={"heeler_about": about})
    [line] = written()
    assert f"INFO {prefix}Started (" in line


def test_a_long_name_is_shortened_in_a_line(lines):
    written = lines()
    logging.getLogger("x").info("Left out", extra={"heeler_about": ConnectorName("n" * 100_000)})
    [line] = written()
    assert len(line) < 2000
    assert "characters omitted" in line


def test_threads_do_not_share_a_context(lines):
    written = lines()

    def actor():
        with log_context("other"):
            logging.getLogger("x").info("in thread")

    with log_context("c"):
        thread = threading.Thread(target=actor)
        thread.start()
        thread.join()
        logging.getLogger("x").info("in main")
    assert [re.search(r"\[(\w+)\|worker\]", line)[1] for line in written()] == ["other", "c"]


def test_levels_by_logger_and_quiet_libraries(lines):
    written = lines(root="warn", levels={"storage": "DEBUG", "kafka.net": "INFO"})
    for name in ("storage.log.topic_log", "actors.instances.task", "kafka.client", "kafka.net", "py4j"):
        logging.getLogger(name).info("from %s", name)
    assert [line.split()[4] for line in written()] == ["storage.log.topic_log", "kafka.net"]


def test_slow_steps_of_kafka_pythons_loop_are_logged_only_at_debug(lines):
    """It warns of each that takes a tenth of a second, as they do wherever a machine is busy."""
    words = "blocking the event loop"
    assert f"'{words} " in inspect.getsource(kafka.net.selector)
    loop = logging.getLogger("kafka.net.selector")
    written = lines()
    loop.warning("Task %s is %s -- likely a tight sync loop", 1, words)  # the words are in an argument
    loop.warning(f"Task is {words} -- likely a tight sync loop")
    loop.warning("something else")
    assert len(written()) == 2
    written = lines(levels={"kafka.net.selector": "DEBUG"})
    loop.warning(f"Task is {words} -- likely a tight sync loop")
    assert words in written()[-1]


def test_py4js_messages_to_the_root_logger_are_logged_only_if_they_are_errors(lines):
    written = lines()
    source = inspect.getsource(py4j.java_gateway)
    assert 'logging.info("Exception while sending command."' in source
    code = compile("import logging\nlogging.info('again')\nlogging.error('lost')", py4j.java_gateway.__file__, "exec")
    exec(code, {})  # noqa: S102 - lines as that file's
    logging.info("of somebody else")  # noqa: LOG015
    assert [line.split("] ")[1].split()[1] for line in written()] == ["lost", "of"]


def test_setting_up_again_does_not_double_lines(lines):
    lines()
    written = lines()
    logging.getLogger("x").info("once")
    assert len(written()) == 1


def test_an_uncaught_error_of_a_thread_is_logged(lines):
    written = lines()
    thread = threading.Thread(target=lambda: 1 / 0, name="reader")
    thread.start()
    thread.join()
    assert "ERROR Uncaught error in reader" in written()[0]
    assert written()[1] == "    Traceback (most recent call last):"
    assert written()[-1] == "    ZeroDivisionError: division by zero"


FORGED = "[2026-01-01 00:00:00,000] ERROR forged (x:1)"
GENUINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (INFO|ERROR) .+ \(\w+:\d+\)")


@pytest.mark.parametrize("obeyed", [
    "\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[2K\x1b[1A", "\x9b2K", "\x07", "\b",
    "\x7f", "\u202e", "\u2066", "\u200f", "\u061c", "\0"])
def test_foreign_text_forges_no_line_and_cannot_control_a_terminal(lines, obeyed):
    written = lines()
    text = f"name{obeyed}{FORGED}"
    with log_context(text, 0):
        logging.getLogger("x").info("Connector %s", text)

    def fail():
        cause = ValueError(text)
        cause.add_note(text)
        raise RuntimeError(f"two{obeyed}{FORGED}") from cause

    try:
        fail()
    except RuntimeError as error:
        logging.getLogger("x").error("Failed: %s", error, exc_info=error, stack_info=True)  # noqa: TRY400
    about, failed, *trace = written()
    assert GENUINE.fullmatch(about)
    assert GENUINE.fullmatch(failed)
    assert about.count(obeyed.encode("unicode_escape").decode()) == 2
    assert all(line.startswith("    ") or not line for line in trace)
    assert "    Traceback (most recent call last):" in trace, "over several lines as ever"
    assert not any(set(line) & {*obeyed} - {*"[2K1A"} for line in (about, failed, *trace))


@pytest.mark.parametrize("form", ["text", "json"])
def test_text_below_a_line_has_its_own_lines(lines, form):
    written = lines(form=form)
    stack = 'Its process is here:\n  File "a.py"\x1b[2K'
    extra = {"heeler_about": None, "below": stack}
    logging.getLogger("actors.herder.work").warning("hangs [InstanceStalled#1]", extra=extra)
    if form == "json":
        [line] = map(json.loads, written())
        assert (line["message"], line["stack"]) == ("hangs [InstanceStalled#1]", stack)
    else:
        line, *below = written()
        assert "hangs [InstanceStalled#1] (actors.herder.work:" in line
        assert below == ["    Its process is here:", '      File "a.py"\\x1b[2K']


@given(st.text(st.characters(exclude_categories=())))  # with halves of characters
def test_any_text_becomes_one_printable_line(text):
    shown = escaped(text)
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(c) for c in shown if c != "\t"} & {"Cc", "Cs", "Zl", "Zp"}
    assert not {unicodedata.bidirectional(c) for c in shown} & {
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B"}
    if not text.isascii() and text.isalnum():
        assert shown == text


def test_levels_are_parsed_in_any_case():
    assert (parse_level("warning"), parse_level("Off")) == (logging.WARNING, 60)
    with pytest.raises(ConfigError, match=r"LOUD.*heeler\.log\.level.*OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE"):
        set_up_logging("LOUD")


@given(st.text())
def test_json_lines_contain_the_message(text):
    record = logging.LogRecord("a.b", logging.WARNING, "file", 7, "%s", (text,), None)
    with log_context("c", 1):
        line = JsonFormatter().format(record)
    assert line.isascii()
    assert "\n" not in line
    fields = json.loads(line)
    assert fields["message"] == text
    assert [fields[key] for key in ("level", "logger", "line", "connector", "task")] == ["WARN", "a.b", 7, "c", 1]
    assert fields["time"].endswith("+00:00")


def test_json_lines_have_the_trace_without_secrets(lines):
    written = lines(form="json")
    process_secrets().add("c", ["open-sesame"])
    error = ValueError("open-sesame")
    logging.getLogger("x").error("it failed with open-sesame", exc_info=error)
    (line,) = map(json.loads, written())
    assert line["message"].startswith("it failed with ")
    assert "ValueError" in line["trace"]
    assert "open-sesame" not in str(line)
    assert "connector" not in line


@pytest.fixture
def recent(lines):
    lines()
    recent = RecentLogs()
    recent.install()
    return recent


@pytest.mark.parametrize("form", ["text", "json"])
def test_errors_that_quote_a_large_record_do_not_fill_the_log(lines, form):
    written = lines(form=form)
    error = ValueError("begin" + "x" * 3_000_000 + "end of trace")
    logging.getLogger("x").error("begin%send of message", "y" * 3_000_000, exc_info=error)
    text = "\n".join(written())
    assert len(text) < 500_000
    assert text.count("characters omitted") == 2
    assert "end of message" in text
    assert "end of trace" in text


def test_recent_lines_are_kept_by_connector(recent):
    logging.getLogger("x").info("about nothing")
    with log_context("a", 0):
        logging.getLogger("x").info("one")
    with log_context("b"):
        logging.getLogger("x").info("two\nlines")
    assert [line.split("] ", 1)[1].split(" (")[0] for line in recent.lines("a")] == ["INFO [a|task-0] one"]
    assert [line.split("] ", 1)[1].split(" (")[0] for line in recent.lines("b")] == ["INFO [b|worker] two\\nlines"]
    assert recent.lines("c") == []


def test_the_herders_lines_about_a_connector_are_among_its_own(recent):
    logging.getLogger("actors.herder.work").info("Started", extra={"heeler_about": ConnectorName("a")})
    with log_context("a", 0):
        logging.getLogger("x").info("one")
    task = ConnectorTaskId(ConnectorName("a"), 0)
    logging.getLogger("actors.herder.work").info("Restarting", extra={"heeler_about": task})
    logging.getLogger("actors.herder.work").info("nobody's", extra={"heeler_about": None})
    assert [line.split("INFO ")[1].split(" (")[0] for line in recent.lines("a")] == [
        "[a|worker] Started", "[a|task-0] one", "[a|task-0] Restarting"]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("extra", [
    {"about": {"a": 1}}, {"about": 5}, {"about": ("orders", 3)}, {"about": "orders"}, {"below": 5}, {"below": ["x"]},
])  # fmt: skip
def test_a_plugin_may_use_the_words_for_something_else(lines, form, extra):
    written, recent = lines(form=form), RecentLogs()
    recent.install()
    with log_context("c", 0):
        logging.getLogger("plugin").warning("hello", extra=extra)
    assert ["hello" in line for line in written()] == [True]
    assert ["[c|task-0] hello" in line for line in recent.lines("c")] == [True]


def test_json_lines_are_among_the_recent_lines(lines):
    written, recent = lines(form="json"), RecentLogs()
    recent.install()
    for about in (ConnectorName("a"), ConnectorTaskId(ConnectorName("a"), 0)):
        logging.getLogger("actors.herder.work").info("Started as %s", about, extra={"heeler_about": about})
    with log_context("a", 0):
        logging.getLogger("actors.instances.task").error("failed", exc_info=ValueError("x"))
    reported = [json.loads(line)["message"] for line in written()]
    assert [line.split("] ")[2].split("\n")[0].rpartition(" (")[0] for line in recent.lines("a")] == reported
    assert reported == ["Started as a", "Started as a-0", "failed"]


def test_json_lines_name_connector_and_task(lines):
    written = lines(form="json")
    logging.getLogger("x").info("restarting", extra={"heeler_about": ConnectorTaskId(ConnectorName("a"), 1)})
    (line,) = map(json.loads, written())
    assert (line["connector"], line["task"]) == ("a", 1)


def test_recent_lines_are_bounded_and_masked(recent, monkeypatch):
    monkeypatch.setattr(recent_logs, "CONNECTORS", 2)
    for connector in ("a", "b", "c"):
        with log_context(connector):
            for number in range(recent_logs.LINES + 5):
                logging.getLogger("x").info("%d the-late-secret %s", number, "x" * 20_000 if number == 50 else "")
    assert recent.lines("a") == []
    assert len(recent.lines("c")) == recent_logs.LINES
    assert max(map(len, recent.lines("c"))) <= recent_logs.LONGEST + 1
    assert "the-late-secret" in recent.lines("c")[-1]
    process_secrets().add("c", ["the-late-secret"])
    assert "the-late-secret" not in "".join(recent.lines("c"))


def test_long_traces_in_recent_lines_are_bounded_together(recent):
    with log_context("a"):
        for number in range(recent_logs.LINES):
            logging.getLogger("x").info("%d %s", number, "x" * 9000)
    kept = recent.lines("a")
    assert recent_logs.CHARACTERS - 10_000 < sum(map(len, kept)) <= recent_logs.CHARACTERS
    assert f" {recent_logs.LINES - 1} xxx" in kept[-1]


def test_a_message_that_cannot_be_formatted_is_logged_anyway(recent, monkeypatch):
    class Bad:
        def __str__(self) -> str:
            raise ValueError("no text")

    monkeypatch.setattr(logging, "raiseExceptions", False)
    record = logging.LogRecord("x", logging.INFO, "file", 1, "%s", (Bad(),), None)
    with log_context("a"):
        recent.emit(record)
        logging.getLogger("x").info("goes on")
    assert len(recent.lines("a")) == 1
