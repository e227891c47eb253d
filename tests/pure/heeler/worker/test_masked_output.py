"""A worker's output contains no secrets."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from actors.herder.events import Event
from actors.herder.story import Story
from actors.instances.task import trace_of
from actors.messages.correlation_ids import Epoch
from actors.messages.events import TaskStateReported
from heeler.worker.masked_output import MaskedStream, MaskingFilter, mask_output
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


def test_a_record_without_a_value_is_left_alone(written: io.StringIO) -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s of %s", (1, 2), None)
    assert MaskingFilter().filter(record)
    assert (record.msg, record.args, record.exc_text) == ("%s of %s", (1, 2), None)
    assert written.getvalue() == ""


class Broken:
    """An argument without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("arguments", [("%d rows", "x"), ("%s %s", 1), ("%s", Broken())])
def test_a_line_that_cannot_be_formatted_does_not_fail_the_code_that_logs_it(
    arguments: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", MaskedStream(err))
    handler, logger = logging.StreamHandler(out), logging.Logger("apart from pytest's handlers")  # noqa: LOG001
    handler.addFilter(MaskingFilter())
    logger.addHandler(handler)
    logger.warning(*arguments, exc_info=failed())
    logger.warning("next")
    assert out.getvalue() == "next\n"
    assert "--- Logging error ---" in err.getvalue()
    assert "s3cr3t" not in err.getvalue()


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
