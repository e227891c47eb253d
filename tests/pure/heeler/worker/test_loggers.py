"""The worker's own loggers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from heeler.worker.loggers import LoggerLevel, WorkerLoggers
from rest.resources.loggers import LEVELS
from spark_tasks.process.log_levels import LONGEST_NAME

NAME = "heeler.test.loggers"


@pytest.fixture
def loggers() -> Iterator[WorkerLoggers]:
    below = logging.getLogger(f"{NAME}.below")
    yield WorkerLoggers()
    for logger in (below, logging.getLogger(NAME)):
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_every_level_that_rest_accepts_is_set_and_shown(loggers: WorkerLoggers, level: str) -> None:
    assert list(loggers.set_level(NAME, level)) == [NAME, f"{NAME}.below"]
    for name in (NAME, f"{NAME}.below"):
        shown = loggers.level(name)
        assert shown is not None
        assert (shown.level, shown.last_modified_ms is not None) == (level, True)
        assert loggers.levels()[name] == shown


def test_setting_the_same_level_does_not_change_the_time(loggers: WorkerLoggers) -> None:
    logging.getLogger(NAME).setLevel(logging.DEBUG)
    assert loggers.set_level(NAME, "DEBUG") == [f"{NAME}.below"], "only what changed is answered"
    assert loggers.level(NAME) == LoggerLevel("DEBUG", None)
    assert loggers.set_level(NAME, "DEBUG") == []


def test_an_invalid_level_in_the_config_topic_is_ignored(
    loggers: WorkerLoggers, caplog: pytest.LogCaptureFixture
) -> None:
    loggers.follow_cluster(NAME, "WARN")
    loggers.follow_cluster(NAME, "LOUD")
    assert "The level of logger heeler.test.loggers in the config topic is ignored: Invalid value LOUD" in caplog.text
    shown = loggers.level(NAME)
    assert shown is not None
    assert shown.level == "WARN"


def test_a_name_in_the_config_topic_that_is_too_long_is_ignored(
    loggers: WorkerLoggers, caplog: pytest.LogCaptureFixture
) -> None:
    """Python keeps each prefix of a name that ends before a dot: a name of 60,000 characters takes 2 GB."""
    followed: list[str] = []
    loggers.follower = lambda namespace, _level: followed.append(namespace)
    longest = f"{NAME}.below".ljust(LONGEST_NAME, "w")
    loggers.follow_cluster(longest, "WARN")
    loggers.follow_cluster(longest + "y" * 50_000, "WARN")
    assert followed == [longest]
    assert loggers.level(longest) is not None
    assert loggers.level(longest + "y" * 50_000) is None
    assert "is ignored: its name has 51,000 characters; at most 1,000 are allowed" in caplog.text
    assert len(caplog.text) < 2 * LONGEST_NAME
    logging.getLogger(longest).setLevel(logging.NOTSET)


def test_the_root_logger_may_be_named_in_any_case(loggers: WorkerLoggers, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = logging.Manager(logging.RootLogger(logging.INFO))
    below = alone.getLogger(NAME)
    monkeypatch.setattr(logging.Logger, "manager", alone)
    monkeypatch.setattr(logging, "getLogger", lambda name=None: alone.getLogger(name) if name else alone.root)
    assert loggers.set_level("ROOT", "WARN") == [NAME, "root"]
    assert (alone.root.level, below.level) == (logging.WARNING, logging.WARNING)
    shown = loggers.level("Root")
    assert shown is not None
    assert shown == loggers.level("root")


def test_a_changed_level_is_a_line_of_the_log(loggers: WorkerLoggers, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged before the change, which may be one to fewer lines."""
    own = logging.getLogger(WorkerLoggers.__module__)
    with caplog.at_level(logging.INFO, own.name):
        loggers.set_level(own.name, "ERROR")
        loggers.set_level(NAME, "DEBUG")
    assert caplog.messages == [f"Setting the level of logger {own.name}, and of those below it, to ERROR"]
