"""What the processes that a worker starts write: it comes through the worker, which masks secrets in it."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from typing import IO

from spark_tasks.config.masking import process_secrets
from spark_tasks.process.log_lines import LineFormatter

_LONGEST_LINE = 1 << 16
_LAYOUT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s:%(lineno)d)"


def pump(output: IO[bytes] | None, name: str) -> None:
    """Have a thread of that name pass on what comes, until its end."""
    assert output is not None  # noqa: S101 - a pipe was asked for
    threading.Thread(target=pass_on, args=(output,), name=name, daemon=True).start()


def pass_on(output: IO[bytes]) -> None:
    """Write what comes to standard error, without what the worker keeps to itself."""
    secrets = process_secrets()
    with output:
        while line := output.readline(_LONGEST_LINE):
            with suppress(OSError, ValueError):  # nobody reads it any more
                sys.stderr.write(secrets.mask(line.decode(errors="replace")))
                sys.stderr.flush()


def log_as_the_worker() -> None:
    """In a Python process that a worker has started: warnings look like the worker's own."""
    if logging.lastResort is not None:  # where nothing sets up logging, it writes warnings to standard error
        logging.lastResort.setFormatter(LineFormatter(_LAYOUT))
