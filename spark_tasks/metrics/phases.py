"""Measures the time of each phase of a batch, and marks errors with their phase. Costs a microsecond per phase.

The thread that runs a split has a stopwatch; its code contains `with phase("decode"):`. Only the innermost of nested
phases counts, so that all phases add up to the total time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Literal, TypeVar

T = TypeVar("T")
Phase = Literal["plan", "wait", "read", "fetch", "decode", "convert", "transform", "write", "commit"]
_END: Final = object()
_STAGE: Final = "_heeler_stage"


class Stopwatch:
    """The seconds spent in each phase."""

    __slots__ = ("_since", "_stack", "seconds")

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stack: list[str] = []
        self._since = 0.0

    def enter(self, name: str) -> None:
        """Begins a phase, and suspends the enclosing one."""
        now = perf_counter()
        self._count(now)
        self._stack.append(name)

    def leave(self) -> None:
        """Ends the phase, and resumes the enclosing one."""
        self._count(perf_counter())
        self._stack.pop()

    def _count(self, now: float) -> None:
        if self._stack:
            name = self._stack[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


class _Local(threading.local):
    watch: Stopwatch | None = None


_local = _Local()


class phase:  # noqa: N801 - used as a function: with phase("decode"):
    """A context manager that counts its block as a phase of this thread's stopwatch, if there is one. Marks errors with
    the phase.
    """

    __slots__ = ("_name", "_watch")

    def __init__(self, name: Phase) -> None:
        self._name = name

    def __enter__(self) -> None:
        watch = self._watch = _local.watch
        if watch is not None:
            watch.enter(self._name)

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.leave()
        if error is not None:
            mark(error, self._name)


class measured:  # noqa: N801 - as phase
    """A context manager that gives this thread a new stopwatch, which it returns."""

    __slots__ = ("_before", "_watch")

    def __enter__(self) -> Stopwatch:
        self._before, self._watch = _local.watch, Stopwatch()
        _local.watch = self._watch
        return self._watch

    def __exit__(self, *_: object) -> None:
        _local.watch = self._before


def each(name: Phase, items: Iterable[T]) -> Iterator[T]:
    """Yields the items. The time to get each one counts for the phase."""
    iterator = iter(items)
    while True:
        with phase(name):
            item: Any = next(iterator, _END)
        if item is _END:
            return
        yield item


def mark(error: BaseException, stage: str) -> None:
    """Marks an error with its stage, unless it or one of its causes has a mark."""
    if stage and not stage_of(error):
        vars(error)[_STAGE] = stage  # not with setattr, which a plugin's class may override


def stage_of(error: BaseException) -> str:
    """Returns the stage of an error or of one of its causes, or "" if there is no mark."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return ""
        stage = vars(seen).get(_STAGE, "")
        if isinstance(stage, str) and stage:
            return stage
        seen = seen.__cause__
    return ""
