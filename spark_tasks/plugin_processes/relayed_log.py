"""Log lines of a process that belongs to a connector or task: they become lines of the worker's log, with its levels
and its format.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from typing_extensions import override

from spark_tasks.errors import shortened
from spark_tasks.process.log_lines import MAX_TEXT, FormattingFilter

Levels = Mapping[str, int]
"""Levels by logger; "" is the root logger."""
_FIELDS: Final = ("name", "levelno", "levelname", "pathname", "filename", "module", "lineno", "funcName", "created",
                  "msecs", "relativeCreated", "thread", "threadName", "process", "processName")


def current_levels() -> Levels:
    """Returns the levels that are set in this process."""
    loggers = {name: logger.level for name, logger in logging.root.manager.loggerDict.items()
               if isinstance(logger, logging.Logger) and logger.level}
    return {"": logging.root.level, **loggers}


def set_levels(levels: Levels) -> None:
    """Sets these levels, and those of no other loggers."""
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and logger.level and name not in levels:
            logger.setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)


class RelayHandler(logging.Handler):
    """Sends the fields of each record. What cannot be sent is written to standard error, if it is a warning."""

    def __init__(self, send: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._send = send
        self.addFilter(FormattingFilter())

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Sends the record; never raises."""
        fields = {name: getattr(record, name) for name in _FIELDS}
        fields["msg"] = shortened(record.getMessage(), MAX_TEXT)
        fields["exc_text"] = record.exc_text and shortened(record.exc_text, MAX_TEXT)
        try:
            self._send("log", fields)
        except OSError:
            if logging.lastResort is not None and record.levelno >= logging.lastResort.level:
                logging.lastResort.handle(record)


def log_here(fields: Mapping[str, Any], about: object) -> None:
    """Logs a record of another process, about this connector or task, unless this process's levels exclude it."""
    record = logging.makeLogRecord({**{name: fields[name] for name in _FIELDS}, "msg": str(fields["msg"]),
                                    "exc_text": fields["exc_text"], "heeler_about": about})
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
