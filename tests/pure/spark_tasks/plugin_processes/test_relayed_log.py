from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from heeler.worker.logs import subject
from spark_tasks.plugin_processes.relayed_log import RelayHandler, current_levels, log_here, set_levels

NAME = "plugin.of.a.test"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


def relayed(logger: logging.Logger, *arguments: Any, **more: Any) -> Any:
    """What the handler sends for a line, as it arrives."""
    sent: list[bytes] = []
    handler = RelayHandler(lambda kind, value: sent.append(pickle.dumps((kind, value))))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning(*arguments, **more)
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    kind, value = pickle.loads(sent[0])
    assert kind == "log"
    return value


class Shown:
    def __str__(self) -> str:
        return "shown"


def test_a_line_is_logged_here_with_its_time_its_trace_and_whom_it_is_about(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    fields = relayed(logger, "%s and %d", Shown(), 7, exc_info=ValueError("in the plugin"))
    log_here({**fields, "created": 1.5}, ("c", 3))
    [record] = caplog.records
    assert (record.getMessage(), record.created, record.name, record.levelno) == (
        "shown and 7", 1.5, NAME, logging.WARNING)
    assert "ValueError: in the plugin" in str(record.exc_text)
    assert subject(record) == ("c", 3)


def test_a_line_that_the_levels_here_exclude_is_not_logged(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    fields = relayed(logger, "a line")
    logger.setLevel(logging.ERROR)
    log_here(fields, "c")
    assert caplog.records == []


def test_levels_are_those_of_the_other_process(logger: logging.Logger) -> None:
    before = current_levels()
    other = logging.getLogger(f"{NAME}.other")
    other.setLevel(logging.ERROR)
    try:
        set_levels({**before, NAME: logging.DEBUG})
        assert (logger.level, other.level) == (logging.DEBUG, logging.NOTSET)
        assert current_levels() == {**before, NAME: logging.DEBUG}
    finally:
        set_levels(before)


def test_a_warning_that_cannot_be_sent_is_written_to_standard_error(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_kind: str, _value: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(sys.stderr))
    logger.addHandler(handler := RelayHandler(closed))
    try:
        logger.warning("the worker has ended")
    finally:
        logger.removeHandler(handler)
    assert "the worker has ended" in capsys.readouterr().err
