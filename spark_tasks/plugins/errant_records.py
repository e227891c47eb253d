"""How a sink's writer reports a record that the external system refuses (KIP-610)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class ErrantRecordReporter(Protocol):
    """Takes reports during one call of `write`."""

    def report(self, error: Exception, *, offset: int | None = None, row: int | None = None) -> None:
        """Report that a record is not written because of `error`; the writer goes on without it. The record is given by
        its Kafka `offset` (a call of `write` is for one topic partition) or by its `row`, counted from 0 over all rows
        of the call. With errors.tolerance=all the record is skipped, logged and sent to the dead letter queue as
        configured, once the call has succeeded. With none this raises ToleranceExceededError, which the writer must
        not catch: the task fails.
        """


_current: ContextVar[ErrantRecordReporter | None] = ContextVar("errant_record_reporter", default=None)


def errant_record_reporter() -> ErrantRecordReporter:
    """The reporter for the `write` that runs in this thread. Raises RuntimeError outside of one."""
    found = _current.get()
    if found is None:
        raise RuntimeError("errant_record_reporter() works only in a sink's write(), in the thread that calls it")
    return found


class reporting_to:  # noqa: N801 - a context manager, used like a function; a generator's takes three times as long
    """Inside this block `errant_record_reporter` returns this reporter."""

    def __init__(self, reporter: ErrantRecordReporter) -> None:
        self._reporter = reporter

    def __enter__(self) -> None:
        self._token = _current.set(self._reporter)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
