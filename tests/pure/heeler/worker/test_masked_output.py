"""A worker's output contains no secrets."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from actors.herder.events import Event
from actors.herder.story import Story
from actors.instances.task import trace_of
from actors.messages.correlation_ids import Epoch
from actors.messages.events import TaskStateReported
from heeler.worker.logs import ConnectFormatter, JsonFormatter, log_context
from heeler.worker.masked_output import MaskedStream, MaskingFilter, mask_output
from heeler.worker.recent_logs import RecentLogs
from spark_tasks.config.definition import ConfigDef, ConfigKey, Type
from spark_tasks.config.masking import MASK, Secrets, hide_passwords, process_secrets
from spark_tasks.errors import ConnectError
from storage.ids import ConnectorName, ConnectorTaskId, State

SECRET = "s3cr3t\nof-two-lines"  # noqa: S105 - a test's


@pytest.fixture(autouse=True)
def knowing() -> Iterator[None]:
    process_secrets().add("c", [SECRET])
    yield
    process_secrets.cache_clear()


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a logger writes whose handler has the filter."""
    stream, logger = io.StringIO(), logging.getLogger("masked")
    handler = logging.StreamHandler(stream)
    handler.addFilter(MaskingFilter())
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    yield stream
    logger.removeHandler(handler)
    logger.propagate = True


def log_in(password: str) -> None:
    try:
        raise ValueError(password)  # noqa: TRY301 - for an error with a cause
    except ValueError as error:
        raise ConnectError(f"no login: {error!r}") from error


def failed() -> Exception:
    with pytest.raises(ConnectError) as caught:
        log_in(SECRET)
    return caught.value


def test_secrets_are_masked_in_log_lines(written: io.StringIO) -> None:
    logger = logging.getLogger("masked")
    logger.warning("%s and %d %r", SECRET, 7, {"a": SECRET})
    logger.error("failed", exc_info=failed())
    logger.error("where", stack_info=True)
    text = written.getvalue()
    assert text.startswith(f"WARNING {MASK} and 7 {{'a': '{MASK}'}}\nERROR failed\nTraceback")
    assert f"ConnectError: no login: ValueError('{MASK}')" in text
    assert "s3cr3t" not in text
    assert "of-two-lines" not in text


class Broken:
    """An argument without a text."""

    def __str__(self) -> str:
        raise RuntimeError(f"no text {SECRET}")


@pytest.mark.parametrize(("arguments", "line"), [
    (("%d rows", "x"), "%d rows (the arguments of this line cannot be shown: TypeError: %d format"),
    (("%s %s", 1), "%s %s (the arguments of this line cannot be shown: TypeError: not enough arguments"),
    (("%s", Broken()), f"%s (the arguments of this line cannot be shown: RuntimeError: no text {MASK})\n"),
    ((Broken(),), f"Broken (the arguments of this line cannot be shown: RuntimeError: no text {MASK})\n"),
])  # fmt: skip
def test_a_line_that_cannot_be_formatted_is_written_with_the_reason(
    arguments: tuple[Any, ...], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", MaskedStream(err))
    handler, logger = logging.StreamHandler(out), logging.Logger("apart from pytest's handlers")  # noqa: LOG001
    handler.addFilter(MaskingFilter())
    logger.addHandler(handler)
    logger.warning(*arguments, exc_info=failed())
    logger.warning("next")
    assert out.getvalue().startswith(line)
    assert "\nspark_tasks.errors.ConnectError: no login" in out.getvalue()
    assert out.getvalue().endswith("\nnext\n")
    assert "s3cr3t" not in out.getvalue()
    assert err.getvalue() == ""


class CountedError(Exception):
    """An argument, or an error, that notes for each call of its `str` whether this thread holds a lock of the log."""

    def __init__(self, handlers: list[logging.Handler]) -> None:
        self.locks: list[Any] = [handler.lock for handler in handlers]
        self.held: list[bool] = []

    def __str__(self) -> str:
        self.held += [any(lock._is_owned() for lock in self.locks)]  # noqa: SLF001 - nothing else tells
        return "counted"


@pytest.mark.parametrize("formatter", [ConnectFormatter(), JsonFormatter()])
def test_code_of_plugins_does_not_run_while_the_log_is_locked(formatter: logging.Formatter) -> None:
    """It may wait for a thread that is logging."""
    written, recent, logger = io.StringIO(), RecentLogs(), logging.Logger("apart from pytest's handlers")  # noqa: LOG001
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    handler.addFilter(MaskingFilter())
    logger.handlers = [handler, recent]
    argument, error = CountedError(logger.handlers), CountedError(logger.handlers)
    with log_context("c"):
        logger.error("hello %s", argument, exc_info=error)
    assert (argument.held, error.held) == ([False], [False])
    for text in (written.getvalue(), *recent.lines("c")):
        assert "hello counted" in text
        assert "CountedError: counted" in text


def test_secrets_are_masked_in_the_trace_of_a_status() -> None:
    trace = trace_of(failed())
    assert trace.startswith(f"spark_tasks.errors.ConnectError: no login: ValueError('{MASK}')\nTraceback")
    assert "s3cr3t" not in trace


def test_a_herders_story_is_masked_before_it_is_shortened() -> None:
    story, bare, task = Story(mask=process_secrets().mask), Story(), ConnectorTaskId(ConnectorName("c"), 0)
    for length in range(100, 260):
        report = TaskStateReported(task, Epoch(1), State.FAILED, "x" * length + SECRET)
        for each in (story, bare):
            each.add(Event(report, 5, {}, "cause"), ())
    assert "s3cr..." in bare.text(task.connector), "somewhere it is cut in the middle"
    reported = story.text(task.connector)
    assert "TaskStateReported" in reported
    assert "s3" not in reported


def test_secrets_are_masked_in_the_output_of_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    mask_output()
    print("login", SECRET, 1)  # noqa: T201 - as a plugin does
    sys.stderr.writelines([f"<{SECRET}>", "x"])
    assert not sys.stdout.isatty()
    assert (out.getvalue(), err.getvalue()) == (f"login {MASK} 1\n", f"<{MASK}>x")


def test_write_returns_the_length_of_the_original_text() -> None:
    assert MaskedStream(io.StringIO()).write(SECRET) == len(SECRET)


def test_passwords_of_a_connector_are_recognized_by_name_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Secrets()
    monkeypatch.setattr("spark_tasks.config.masking.process_secrets", lambda: secrets)

    class Plugin:
        config_def = ConfigDef(ConfigKey("pin", Type.PASSWORD), ConfigKey("place", Type.STRING))

    hide_passwords("c", {"pin": "12345678", "place": "anywhere", "producer.override.ssl.key.password": "overridden"},
                   Plugin)
    hide_passwords("d", {"pin": "87654321"}, object)
    assert secrets.mask("12345678 anywhere overridden 87654321") == f"{MASK} anywhere {MASK} 87654321"
