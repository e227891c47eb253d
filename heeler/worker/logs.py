"""The worker's log: Kafka Connect's line layout with the connector and task that a line is about (KIP-449)."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

from heeler.worker.masked_output import MaskingFilter
from spark_tasks.errors import ConfigError
from spark_tasks.process.log_lines import LineFormatter
from storage.ids import ConnectorTaskId, ItemId

TRACE = 5
OFF = logging.CRITICAL + 10
LEVELS = {
    "ALL": 1, "TRACE": TRACE, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
    "ERROR": logging.ERROR, "FATAL": logging.CRITICAL, "OFF": OFF,
}
"""Kafka Connect's level names, the ones that REST takes and shows."""
QUIET = ("kafka", "py4j", "pyspark", "numba", "werkzeug", "cheroot", "urllib3")
"""Libraries whose INFO says nothing about connectors: WARN unless the configuration says another level."""
SILENT = ("kafka.cluster", "kafka.coordinator.assignors")
"""Loggers whose warnings are harmless: of a topic that has just been created, or will be; it is asked for again."""
_EVENT_LOOP = "kafka.net.selector"
"""Warns of each of its own steps that takes a tenth of a second, as all do at a start and on a busy machine."""
_NAMES = {number: name for name, number in LEVELS.items()}
TEXT, JSON = "text", "json"
_context: ContextVar[tuple[str, int | None]] = ContextVar("connector_context", default=("", None))


@contextmanager
def log_context(connector: str, task: int | None = None) -> Iterator[None]:
    """Lines that this thread writes meanwhile begin with `[name|worker]` or `[name|task-0]`."""
    token = _context.set((connector, task))
    try:
        yield
    finally:
        _context.reset(token)


def subject(record: logging.LogRecord) -> tuple[str, int | None]:
    """Connector and task that a line is about: whom this thread works for, or `about` of the record's `extra`."""
    about: ItemId | None = getattr(record, "about", None)
    if isinstance(about, ConnectorTaskId):
        return about.connector, about.task
    return (about, None) if about is not None else _context.get()


def _prefix() -> str:
    connector, task = _context.get()
    return f"[{connector}|{'worker' if task is None else f'task-{task}'}] " if connector else ""


class ConnectFormatter(LineFormatter):
    """`[time] LEVEL [name|task-0] message (logger:line)`."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(connect_level)s %(connect_context)s%(message)s (%(name)s:%(lineno)d)")

    def format(self, record: logging.LogRecord) -> str:
        """Uses the thread's context, or the one that the record already carries (`extra`)."""
        record.connect_level = level_name(record.levelno)
        if not hasattr(record, "connect_context"):
            record.connect_context = _prefix()
        return super().format(record)


class JsonFormatter(LineFormatter):
    """One JSON object a line: time, level, logger, line, thread, message, and where they are there connector, task and
    trace. Nothing in a message can end its line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """ASCII only."""
        connector, task = subject(record)
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else None)
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": level_name(record.levelno), "logger": record.name, "line": record.lineno,
            "thread": record.threadName, "connector": connector or None, "task": task,
            "message": record.getMessage(), "trace": trace,
            "stack": getattr(record, "below", None) or record.stack_info,
        }
        return json.dumps({key: value for key, value in told.items() if value is not None})


def level_name(number: int) -> str:
    """Kafka Connect's name of a level: the nearest one below where Python has a number of its own."""
    return _NAMES.get(number) or _NAMES[max((n for n in _NAMES if n <= number), default=TRACE)]


def parse_level(text: str, key: str = "level") -> int:
    """A level by its name in any case; Python's WARNING and CRITICAL count too. Raises ConfigError."""
    name = {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(text.strip().upper(), text.strip().upper())
    if name not in LEVELS:
        raise ConfigError(f"Invalid value {text} for configuration {key}: must be one of {', '.join(LEVELS)}")
    return LEVELS[name]


def set_up_logging(root: str = "INFO", levels: Mapping[str, str] | None = None, stream: IO[str] | None = None, *,
                   form: str = TEXT) -> None:
    """Send all loggers' lines to `stream` (standard output) at these levels; `form`: text or json. May be called again.

    An uncaught error of a thread is logged too. Raises ConfigError for a level that there is not.
    """
    parsed = {name: parse_level(text, f"heeler.log.level.{name}") for name, text in (levels or {}).items()}
    top = logging.getLogger()
    top.setLevel(parse_level(root, "heeler.log.level"))
    logging.addLevelName(TRACE, "TRACE")
    for old in [h for h in top.handlers if getattr(h, "of_the_worker", False)]:
        top.removeHandler(old)
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.of_the_worker = True  # type: ignore[attr-defined]
    handler.setFormatter(JsonFormatter() if form == JSON else ConnectFormatter())
    handler.addFilter(MaskingFilter())
    top.addHandler(handler)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, top.level))
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger(_EVENT_LOOP).addFilter(_no_slow_step)
    logging.getLogger().addFilter(_no_retry_of_py4j)
    for name, number in parsed.items():
        logging.getLogger(name).setLevel(number)
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_uncaught


def _no_slow_step(record: logging.LogRecord) -> bool:
    """A slow step is told at DEBUG alone."""
    told = logging.getLogger(_EVENT_LOOP).isEnabledFor(logging.DEBUG)
    return told or "blocking the event loop" not in str(record.msg)


def _no_retry_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J tells the root logger, not its own, when it sends a command to Spark's JVM once more."""
    return record.levelno > logging.INFO or record.module != "java_gateway"


def _log_uncaught(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None and not isinstance(caught.exc_value, SystemExit):
        name = caught.thread.name if caught.thread else "a thread"
        logging.getLogger(__name__).error("Uncaught error in %s", name, exc_info=caught.exc_value)
