"""Threads for work that may hang: in a plugin, another worker or Kafka. Unlike those of a ThreadPoolExecutor, they do
not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from spark_tasks.futures import failed

T = TypeVar("T")


class DaemonPool:
    """At most `max_threads` threads, which end when there is nothing to do. Thread-safe."""

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = 0
        self._closed = False

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Queues a call; after `close`, its future is cancelled at once. Raises RuntimeError if no thread starts."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                future.cancel()
                return future
            if self._threads < self._max_threads:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._threads += 1
            self._waiting.append((future, lambda: function(*arguments)))
        return future

    def try_submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Like `submit`, but if no thread starts, the future has the error: for callers that such an error must not
        end.
        """
        try:
            return self.submit(function, *arguments)
        except RuntimeError as error:
            return failed(error)

    def close(self) -> None:
        """Cancels calls that have not begun; does not wait for the others."""
        with self._lock:
            self._closed = True
            dropped, self._waiting = self._waiting, deque()
        for future, _ in dropped:
            future.cancel()

    def _work(self) -> None:
        while (work := self._next()) is not None:
            future, function = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - any error is passed on by the future
                future.set_exception(error)

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None
