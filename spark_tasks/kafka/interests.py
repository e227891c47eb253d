"""Tracks, for the end watcher, which task reads which partitions and which partitions are polled together.

A broker's partitions are divided into shares, which are polled one after the other, if many tasks have groups. So a
task waits only for the records of its own share to be fetched and written, not for those of all others. The tasks of a
group (of a connector) are in one share, since they write what arrives together in one split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_tasks.kafka.cluster import Isolation, TopicPartition

MAX_SHARES: Final = 5
TASKS_OF_SHARE: Final = 50

Look = Callable[[list[Any]], float]
"""Takes items, and returns how many seconds such items have recently waited for others."""


@dataclass(frozen=True, slots=True)
class Interest:
    """A task's partitions and positions. When a position is no longer the end, `wake` is called, once; a `lasting`
    interest is passed to `look` after each response instead, as `item`. `group`: None for a task that has none.
    """

    positions: Mapping[TopicPartition, int]
    isolation: Isolation
    wake: Callable[[], None] = lambda: None
    look: Look | None = None
    item: Any = None
    group: Hashable = None

    @property
    def lasting(self) -> bool:
        """Whether the task stays armed."""
        return self.look is not None


class Interests:
    """The interests of tasks by key, the oldest first, and which of them are armed. Not thread-safe."""

    def __init__(self) -> None:
        self._of: dict[Hashable, Interest] = {}
        self._partitions: dict[Hashable, frozenset[TopicPartition]] = {}  # as they were when the interest was put
        self._readers: dict[TopicPartition, dict[Hashable, None]] = {}
        self._share_of: dict[Hashable, int] = {}  # by group, as long as there are several shares
        self.armed: set[Hashable] = set()

    def put(self, key: Hashable, interest: Interest) -> bool:
        """Sets the interest of a task, which keeps its group unless it has another one now. It is not armed. Returns
        whether its partitions or its group have changed.
        """
        before = self._of.get(key)
        if interest.group is None and before is not None:
            interest = replace(interest, group=before.group)
        partitions = frozenset(interest.positions)
        self.armed.discard(key)
        if before is not None and before.group == interest.group and self._partitions[key] == partitions:
            self._of[key] = interest
            return False
        self.remove(key)
        self._of[key], self._partitions[key] = interest, partitions
        for tp in partitions:
            self._readers.setdefault(tp, {})[key] = None
        return True

    def remove(self, key: Hashable) -> None:
        """Removes a task."""
        self.armed.discard(key)
        self._of.pop(key, None)
        for tp in self._partitions.pop(key, ()):
            readers = self._readers[tp]
            del readers[key]
            if not readers:
                del self._readers[tp]

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions of all tasks: a view."""
        return self._readers.keys()

    def armed_readers(self, partitions: Iterable[TopicPartition] | None) -> list[tuple[Hashable, Interest]]:
        """Returns the armed tasks that read one of these partitions; with None, all."""
        if partitions is None:
            return [(key, self._of[key]) for key in self.armed]
        keys = {key: None for tp in partitions for key in self._readers.get(tp, ()) if key in self.armed}
        return [(key, self._of[key]) for key in keys]

    def still_armed(self, readers: Iterable[tuple[Hashable, Interest]]) -> list[Interest]:
        """Returns those of these interests that are still armed, and disarms them unless they are lasting."""
        found = [(key, one) for key, one in readers if key in self.armed and self._of.get(key) is one]
        self.armed.difference_update(key for key, one in found if not one.lasting)
        return [one for _, one in found]

    def shares(self) -> tuple[int, dict[TopicPartition, int]]:
        """Returns the number of shares, and the share of each partition. With several, tasks without a group are in
        share 0, where nothing makes them wait. A group stays in its share as long as none is added, since a partition
        that moves is in no poll for a moment.
        """
        tasks = Counter(one.group for one in self._of.values() if one.group is not None)
        self._share_of = {group: share for group, share in self._share_of.items() if group in tasks}
        wanted = min(MAX_SHARES, len(tasks), tasks.total() // TASKS_OF_SHARE)
        if wanted > max(self._share_of.values(), default=0):
            self._share_of = {}  # a further share is filled from the others, a few times in a worker's life
        number = max(wanted, *self._share_of.values(), 1)
        if number == 1:
            return 1, dict.fromkeys(self._readers, 0)
        sizes = Counter(dict.fromkeys(range(1, number + 1), 0))
        for group, share in self._share_of.items():
            sizes[share] += tasks[group]
        for group in (one for one in tasks if one not in self._share_of):
            share = self._share_of[group] = min(sizes, key=sizes.__getitem__)
            sizes[share] += tasks[group]
        share_of: dict[TopicPartition, int] = {}
        for key, interest in self._of.items():
            for tp in self._partitions[key]:
                share_of.setdefault(tp, self._share_of.get(interest.group, 0))
        return number, share_of
