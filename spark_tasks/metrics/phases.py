"""Measures the time of each phase of a batch and marks the phase of an error. Costs a microsecond per phase.

The thread that runs a split has a stopwatch; the code that it runs says `with phase("decode"):`. Of nested phases only
the innermost one counts, so that they add up to the total time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Literal, TypeVar

T = TypeVar("T")
Phase = Literal["plan", "wait", "read", "fetch", "decode", "convert", "transform", "write", "commit"]
PHASES: Final[tuple[Phase, ...]] = (
    "plan", "wait", "read", "fetch", "decode", "convert", "transform", "write", "commit",
)
_END: Final = object()
_STAGE: Final = "_heeler_stage"


class Stopwatch:
    """Seconds by phase."""

    __slots__ = ("_since", "_stack", "seconds")

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stack: list[str] = []
        self._since = 0.0

    def enter(self, name: str) -> None:
        """Begin a phase; the enclosing one is suspended."""
        now = perf_counter()
        self._count(now)
        self._stack.append(name)

    def leave(self) -> None:
        """End the phase; the enclosing one is resumed."""
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


class phase:  # noqa: N801 - reads as a word: with phase("decode"):
    """Counts its block as a phase of this thread's stopwatch, if it has one; marks errors with the phase."""

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
    """Gives this thread a stopwatch for the duration of the block."""

    __slots__ = ("_before", "_watch")

    def __enter__(self) -> Stopwatch:
        self._before, self._watch = _local.watch, Stopwatch()
        _local.watch = self._watch
        return self._watch

    def __exit__(self, *_: object) -> None:
        _local.watch = self._before


def each(name: Phase, items: Iterable[T]) -> Iterator[T]:
    """The items; the time that it takes to get each one counts for the phase."""
    iterator = iter(items)
    while True:
        with phase(name):
            item: Any = next(iterator, _END)
        if item is _END:
            return
        yield item


def mark(error: BaseException, stage: str) -> None:
    """Mark an error with its stage; the first mark counts."""
    if stage and not stage_of(error):
        vars(error)[_STAGE] = stage  # not with setattr, which a plugin's error may refuse


def stage_of(error: BaseException) -> str:
    """The stage of an error or of one of its causes; empty if there is no mark."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return ""
        stage = vars(seen).get(_STAGE, "")
        if isinstance(stage, str) and stage:
            return stage
        seen = seen.__cause__
    return ""
