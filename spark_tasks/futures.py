"""Small tools for concurrent.futures.Future: the stores wait for nothing themselves."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def complete(future: Future[Any], value: Any) -> None:
    """Set a result, unless the future has been cancelled."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(value)


def fail(future: Future[Any], error: BaseException) -> None:
    """Set an error, unless the future has been cancelled."""
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)


def error_of(future: Future[Any]) -> Exception | None:
    """What a future that is done failed with; CancelledError counts."""
    if future.cancelled():
        return CancelledError()
    error = future.exception()
    if error is None or isinstance(error, Exception):
        return error
    raise error  # the process is being ended


def gather(futures: Sequence[Future[T]]) -> Future[list[T]]:
    """All results in order, or the first error, once all are done."""
    together: Future[list[T]] = Future()
    lock = threading.Lock()
    left = len(futures)

    def one_is_done(_: Future[T]) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
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
        future.add_done_callback(one_is_done)
    return together


def then(first: Future[T], next_step: Callable[[T], Future[R]]) -> Future[R]:
    """The future of `next_step`, which is called with the first one's result; errors of either come out."""
    outcome: Future[R] = Future()

    def second_is_done(second: Future[R]) -> None:
        error = error_of(second)
        if error is not None:
            fail(outcome, error)
        else:
            complete(outcome, second.result())

    def first_is_done(done: Future[T]) -> None:
        error = error_of(done)
        if error is not None:
            fail(outcome, error)
            return
        try:
            second = next_step(done.result())
        except Exception as defect:  # noqa: BLE001  (in a callback it would be swallowed, and the outcome never come)
            fail(outcome, defect)
            return
        second.add_done_callback(second_is_done)

    first.add_done_callback(first_is_done)
    return outcome


def done(value: T) -> Future[T]:
    """A future that has its result already."""
    future: Future[T] = Future()
    future.set_result(value)
    return future
