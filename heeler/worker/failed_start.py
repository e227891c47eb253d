"""Why a worker cannot start, or has failed, in its log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from spark_tasks.errors import ConnectError

_logger = logging.getLogger(__name__)


@contextmanager
def failures_logged() -> Iterator[None]:
    """Logs a ConnectError that ends the start, and raises it again."""
    try:
        yield
    except ConnectError as error:
        log_failure(error)
        raise


def log_failure(error: ConnectError, *, started: bool = False) -> None:
    """Logs why the worker cannot start, or fails after its start; a stack trace would not add anything."""
    line, _, below = str(error).partition("\n")
    if line.endswith(":") and "\n" not in below:
        line, below = f"{line} {below}", ""
    _logger.error("The worker %s: %s", "failed" if started else "cannot start", line, extra={"below": below})
