"""How a sink's writer tells of a record that its target refuses (KIP-610)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class ErrantRecordReporter(Protocol):
    """For one call of `write`."""

    def report(self, error: Exception, *, offset: int | None = None, row: int | None = None) -> None:
        """The record is not written because of `error`, and the writer goes on without it. Which one: its Kafka
        `offset` (a call of `write` is for one topic partition), or `row`, counted from 0 over all that `write` was
        given. With errors.tolerance=all it is skipped, logged and sent to the dead letter queue as the connector's
        configuration says, once the call has ended well. With none it raises ToleranceExceededError, which the writer
        has to let through: the task fails.
        """


_current: ContextVar[ErrantRecordReporter | None] = ContextVar("errant_record_reporter", default=None)


def errant_record_reporter() -> ErrantRecordReporter:
    """The reporter of the `write` that runs in this thread. RuntimeError outside of one."""
    found = _current.get()
    if found is None:
        raise RuntimeError("errant_record_reporter() works only in a sink's write(), in the thread that calls it")
    return found


class reporting_to:  # noqa: N801 - a context manager, used like a function; a generator's takes three times as long
    """What runs in here reports to this one."""

    def __init__(self, reporter: ErrantRecordReporter) -> None:
        self._reporter = reporter

    def __enter__(self) -> None:
        self._token = _current.set(self._reporter)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
