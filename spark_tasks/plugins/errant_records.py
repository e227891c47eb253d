"""Lets a sink's writer report records that the external system rejects (KIP-610)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class ErrantRecordReporter(Protocol):
    """Receives the reports of one call of `write`."""

    def report(self, error: Exception, *, offset: int | None = None, row: int | None = None) -> None:
        """Reports that a record was not written because of `error`. The writer continues without the record.

        Identify the record by its Kafka `offset` (a call of `write` has records of one topic partition) or by its
        `row`, counted from 0 over all rows of the call. With errors.tolerance=all, the record is skipped; when the call
        has succeeded, it is logged and sent to the dead letter queue as configured. With `none`, this raises
        ToleranceExceededError, which the writer must not catch, and the task fails.
        """


_current: ContextVar[ErrantRecordReporter | None] = ContextVar("errant_record_reporter", default=None)


def errant_record_reporter() -> ErrantRecordReporter:
    """Returns the reporter of the `write` that runs in this thread. Raises RuntimeError outside of a `write`."""
    reporter = _current.get()
    if reporter is None:
        raise RuntimeError("errant_record_reporter() works only in a sink's write(), in the thread that runs it")
    return reporter


class reporting_to:  # noqa: N801 - used as a function; @contextmanager would take three times as long
    """A context manager in whose block `errant_record_reporter` returns this reporter."""

    def __init__(self, reporter: ErrantRecordReporter) -> None:
        self._reporter = reporter

    def __enter__(self) -> None:
        self._token = _current.set(self._reporter)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
