"""Decides which split runs next; pure. Each task has a queue. Connectors take turns, and a connector's tasks do too.

No task or connector may use all executor processes: the number of its splits that run at a time is limited. Splits
above the limit wait, without delaying those of others.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


def connector_of(task: str) -> str:
    """The connector of a task by its id, "name-0"."""
    return task.rpartition("-")[0] or task


class Demand(NamedTuple):
    """A connector, how many of its splits may run now, and how many are running."""

    connector: str
    splits: int
    running: int


@dataclass(slots=True)
class _Connector(Generic[T]):
    running: int = 0
    tasks: OrderedDict[str, deque[T]] = field(default_factory=OrderedDict)  # that have waiting splits


class FairQueue(Generic[T]):
    """`take` returns the next split, which counts as running until `ended` is called."""

    def __init__(self, max_per_task: int, max_per_connector: int) -> None:
        self.max_per_task = max_per_task
        self.max_per_connector = max_per_connector
        self._connectors: OrderedDict[str, _Connector[T]] = OrderedDict()  # the next one is first
        self._running: Counter[str] = Counter()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, task: str, item: T) -> None:
        """Adds a split at the end of the task's queue."""
        connector = self._connectors.setdefault(connector_of(task), _Connector())
        connector.tasks.setdefault(task, deque()).append(item)
        self._length += 1

    def take(self, may: Callable[[str], bool] = lambda _connector: True) -> tuple[str, T] | None:
        """The next split and its task; None if no split may run. A connector for which `may` is false is passed over,
        and keeps its turn.
        """
        for name, connector in self._connectors.items():
            if not may(name) or (task := self._next_task(connector)) is None:
                continue
            waiting = connector.tasks[task]
            item = waiting.popleft()
            if waiting:
                connector.tasks.move_to_end(task)
            else:
                del connector.tasks[task]
            connector.running += 1
            self._connectors.move_to_end(name)
            self._running[task] += 1
            self._length -= 1
            return task, item
        return None

    def _next_task(self, connector: _Connector[T]) -> str | None:
        if connector.running >= self.max_per_connector:
            return None
        return next((task for task in connector.tasks if self._running[task] < self.max_per_task), None)

    def takeable(self, enough: int) -> int:
        """How many splits successive calls of `take` would return now, counted up to `enough`."""
        return sum(demand.splits for demand in self.in_turn(enough))

    def in_turn(self, enough: int) -> Iterator[Demand]:
        """The connectors whose splits successive calls of `take` would return now, the next one first, with up to
        `enough` splits in all.
        """
        for name, connector in self._connectors.items():
            if enough <= 0:
                return
            room = self.max_per_connector - connector.running
            each = (min(len(items), self.max_per_task - self._running[t]) for t, items in connector.tasks.items())
            count = min(room, sum(each), enough)
            if count > 0:
                enough -= count
                yield Demand(name, count, connector.running)

    def ended(self, task: str) -> None:
        """A split that `take` returned has ended."""
        self._running[task] -= 1
        if not self._running[task]:
            del self._running[task]
        name = connector_of(task)
        connector = self._connectors[name]
        connector.running -= 1
        self._forget(name)

    def put_back(self, task: str, item: T) -> None:
        """A split that `take` returned has not begun: it is the task's next one again."""
        connector = self._connectors[connector_of(task)]
        connector.tasks.setdefault(task, deque()).appendleft(item)
        self._length += 1
        self.ended(task)

    def remove(self, task: str, item: T) -> bool:
        """Removes a waiting split; False if it does not wait."""
        name = connector_of(task)
        connector = self._connectors.get(name)
        waiting = connector.tasks.get(task) if connector is not None else None
        if connector is None or waiting is None or item not in waiting:
            return False
        waiting.remove(item)
        if not waiting:
            del connector.tasks[task]
        self._length -= 1
        self._forget(name)
        return True

    def waiting(self, task: str) -> list[T]:
        """The waiting splits of a task, in order."""
        connector = self._connectors.get(connector_of(task))
        return list(connector.tasks.get(task, ())) if connector is not None else []

    def _forget(self, name: str) -> None:
        connector = self._connectors[name]
        if not connector.running and not connector.tasks:
            del self._connectors[name]
