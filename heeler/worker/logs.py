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
from typing import Any

from typing_extensions import override

from heeler.worker.masked_output import MaskingFilter
from spark_tasks.errors import ConfigError, shortened
from spark_tasks.kafka import log_filters
from spark_tasks.process.log_levels import LEVELS, TRACE, level_name, level_number
from spark_tasks.process.log_lines import JSON, MAX_TEXT, TEXT, LineFormatter, text_below

QUIET = ("kafka", "py4j", "pyspark", "numba", "werkzeug", "cheroot", "urllib3")
"""Libraries whose INFO lines do not concern connectors: they log at WARN, unless the configuration sets a level."""
_MAX_NAME = 1000
_context: ContextVar[tuple[str, int | None]] = ContextVar("connector_context", default=("", None))


@contextmanager
def log_context(connector: str, task: int | None = None) -> Iterator[None]:
    """Lines that this thread logs in this context begin with `[name|worker]` or `[name|task-0]`."""
    token = _context.set((connector, task))
    try:
        yield
    finally:
        _context.reset(token)


def subject(record: logging.LogRecord) -> tuple[str, int | None]:
    """The connector and task that a line is about: `heeler_about` in the record's `extra` (a connector's name, or a
    task's name of its connector and number), else the thread's context.
    """
    match getattr(record, "heeler_about", None):
        case (str(connector), int(task)):
            return connector, task
        case str(connector):
            return connector, None
        case _:
            return _context.get()


def _prefix(record: logging.LogRecord) -> str:
    connector, task = subject(record)
    name = shortened(connector, _MAX_NAME)
    return f"[{name}|{'worker' if task is None else f'task-{task}'}] " if connector else ""


class ConnectFormatter(LineFormatter):
    """`[time] LEVEL [name|task-0] message (logger:line)`."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(connect_level)s %(connect_context)s%(message)s (%(name)s:%(lineno)d)")

    @override
    def format(self, record: logging.LogRecord) -> str:
        """The line, with the connector and task that it is about."""
        record.connect_context = _prefix(record)
        return super().format(record)


class JsonFormatter(LineFormatter):
    """One JSON object per line: time, level, logger, line, thread, message and, if any, connector, task and trace. A
    message cannot break its line.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        """The line, in ASCII."""
        connector, task = subject(record)
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else None)
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": level_name(record.levelno), "logger": record.name, "line": record.lineno,
            "thread": record.threadName, "connector": connector or None, "task": task,
            "message": record.getMessage(), "trace": trace,
            "stack": text_below(record) or record.stack_info,
        }
        for key in ("message", "trace", "stack"):
            fields[key] = fields[key] and shortened(fields[key], MAX_TEXT)
        return json.dumps({key: value for key, value in fields.items() if value is not None})


def parse_level(text: str, key: str = "level") -> int:
    """The number of a level, by its name in any case; WARNING and CRITICAL are accepted too. `key`: for the message of
    the ConfigError that is raised for an unknown name.
    """
    number = level_number(text)
    if number is None:
        raise ConfigError(f"Invalid value {text} for configuration {key}: must be one of {', '.join(LEVELS)}")
    return number


def set_up_logging(root: str = "INFO", levels: Mapping[str, str] | None = None, *, form: str = TEXT) -> None:
    """Logs to standard output with these levels; `form`: text or json. May be called again.

    Uncaught errors of threads are logged too. Raises ConfigError for an unknown level.
    """
    parsed = {name: parse_level(text, f"heeler.log.level.{name}") for name, text in (levels or {}).items()}
    top = logging.getLogger()
    top.setLevel(parse_level(root, "heeler.log.level"))
    logging.addLevelName(TRACE, "TRACE")
    for old in [h for h in top.handlers if getattr(h, "of_the_worker", False)]:
        top.removeHandler(old)
    handler = logging.StreamHandler(sys.stdout)
    handler.of_the_worker = True  # type: ignore[attr-defined]
    handler.setFormatter(JsonFormatter() if form == JSON else ConnectFormatter())
    handler.addFilter(MaskingFilter())
    top.addHandler(handler)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, top.level))
    log_filters.install()
    logging.getLogger().addFilter(_no_retry_of_py4j)
    for name, number in parsed.items():
        logging.getLogger(name).setLevel(number)
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_uncaught


def log_as_configured(settings: Mapping[str, str]) -> None:
    """Logs in the format of the worker's settings, which have not been checked yet, at INFO."""
    set_up_logging(form=settings.get("heeler.log.format", TEXT))


def _no_retry_of_py4j(record: logging.LogRecord) -> bool:
    """Whether to log a line: not if it is Py4J's about a repeated command to Spark's JVM, for which it uses the root
    logger.
    """
    return record.levelno > logging.INFO or record.module != "java_gateway"


def _log_uncaught(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None and not isinstance(caught.exc_value, SystemExit):
        name = caught.thread.name if caught.thread else "a thread"
        logging.getLogger(__name__).error("Uncaught error in %s", name, exc_info=caught.exc_value)
