"""Futures that end at once, late or never."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from spark_tasks.futures import complete, done, ended, fail, failed


def test_a_timeout_of_what_was_waited_for_is_an_end() -> None:
    assert not ended(Future(), 0)
    late = failed(TimeoutError("its own"))
    assert ended(late, 0)
    with pytest.raises(TimeoutError, match="its own"):
        late.result()


@pytest.mark.parametrize("first", [done(1), failed(ValueError("first"))])
def test_a_future_ends_once(first: Future[Any]) -> None:
    error = first.exception()
    complete(first, 2)
    fail(first, ValueError("second"))
    assert first.exception() is error


def test_a_cancelled_future_stays_cancelled() -> None:
    future: Future[Any] = Future()
    future.cancel()
    complete(future, 1)
    assert future.cancelled()
