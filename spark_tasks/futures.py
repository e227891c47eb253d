"""Combines and completes concurrent.futures.Future without blocking a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def complete(future: Future[Any], value: Any) -> None:
    """Sets a result unless the future is already done or cancelled."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(value)


def fail(future: Future[Any], error: BaseException) -> None:
    """Sets an error unless the future is already done or cancelled."""
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)


def error_of(future: Future[Any]) -> Exception | None:
    """Returns the error of a completed future (CancelledError if it was cancelled), or None."""
    if future.cancelled():
        return CancelledError()
    error = future.exception()
    if error is None or isinstance(error, Exception):
        return error
    raise error  # KeyboardInterrupt or SystemExit: the process is ending


def ended(future: Future[Any], timeout_s: float) -> bool:
    """Waits for a future. Returns whether it is done. (Its `result` cannot tell a timeout from a TimeoutError of a
    plugin.)
    """
    return future.done() or bool(wait([future], timeout_s).done)


def gather(futures: Sequence[Future[T]]) -> Future[list[T]]:
    """Returns a future that completes when all `futures` have: with their results in order, or with the error of the
    first of them that failed.
    """
    together: Future[list[T]] = Future()
    lock = threading.Lock()
    pending = len(futures)

    def on_one_done(_: Future[T]) -> None:
        nonlocal pending
        with lock:
            pending -= 1
            if pending:
                return
        finish()

    def finish() -> None:
        errors = [error for future in futures if (error := error_of(future)) is not None]
        if errors:
            fail(together, errors[0])
        else:
            complete(together, [future.result() for future in futures])

    if not futures:
        finish()
    for future in futures:
        future.add_done_callback(on_one_done)
    return together


def then(first: Future[T], next_step: Callable[[T], Future[R]]) -> Future[R]:
    """Returns a future for `next_step(result of first)`. It fails if `first`, `next_step` or its future fails."""
    outcome: Future[R] = Future()

    def on_second_done(second: Future[R]) -> None:
        error = error_of(second)
        if error is not None:
            fail(outcome, error)
        else:
            complete(outcome, second.result())

    def on_first_done(done: Future[T]) -> None:
        error = error_of(done)
        if error is not None:
            fail(outcome, error)
            return
        try:
            second = next_step(done.result())
        except Exception as defect:  # noqa: BLE001  (Future logs errors of callbacks; `outcome` would never complete)
            fail(outcome, defect)
            return
        second.add_done_callback(on_second_done)

    first.add_done_callback(on_first_done)
    return outcome


def done(value: T) -> Future[T]:
    """Returns a future that is complete, with `value` as its result."""
    future: Future[T] = Future()
    future.set_result(value)
    return future


def failed(error: BaseException) -> Future[Any]:
    """Returns a future that is complete, with this error."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def running() -> Future[Any]:
    """Returns a future whose work has begun, so that it cannot be cancelled."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future
