"""Decides which split runs next; pure. Each task has a queue. Connectors take turns, and a connector's tasks do too.

A split cannot be interrupted. So that connectors with short splits do not wait for the long ones of others (ADR 0052),
- turns go by the CPU time that connectors have used (turns.py), and not by the number of their splits;
- connectors whose last splits were *brief* (they used little CPU time) have a lane of their own, with room for as many
  running splits as that of the others: a brief split does not wait until a long one ends;
- connectors whose last splits *lingered* (they held their process for long, whether they used the CPU or not; they may
  hang) have to leave the last processes to others.

A new connector counts as neither brief nor prompt (not lingering) until one of its splits has been; after a split that
was not, three in succession have to be. So a connector whose splits become long delays brief ones only with those that
it has begun by then, and only until these are found to be long (`look`).

No task or connector may use all executor processes: the number of its splits that run at a time is limited. Splits
above the limit wait, without delaying those of others.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from spark_tasks.spark.residents.turns import Place, Turns

T = TypeVar("T")

BRIEF_S = 0.25  # of CPU time; heeler's own splits with many records take longer, those of tasks that keep up do not
LINGERING_S = 1.0
TO_SHOW = 1  # so many splits show that a new connector is brief, or does not linger
TO_SHOW_AGAIN = 3
_BEGUN_S = 0.005  # what a split is taken to use until it has ended


def connector_of(task: str) -> str:
    """The connector of a task by its id, "name-0"."""
    return task.rpartition("-")[0] or task


def subject_of(task: str) -> tuple[str, int] | str:
    """`heeler_about` in the `extra` of a log line about a task, by its id: its connector and number; or only the
    connector, if its process is not that of a task ("name-connector").
    """
    connector, _, rest = task.rpartition("-")
    if connector and rest.isdecimal():
        return connector, int(rest)
    return connector if connector and rest == "connector" else task


class Running(Protocol):
    """A split that `take` has returned. `brief`: whether it counts as one of those that use the CPU briefly; `lingers`:
    whether it was found to hold its process for long.
    """

    brief: bool
    lingers: bool

    @property
    def task(self) -> str:
        """Whose it is."""


class Room(NamedTuple):
    """How many more splits of each lane may begin to run: of brief connectors, and of the others."""

    brief: int
    others: int

    @classmethod
    def beside(cls, counted: Sequence[Running], most: int) -> Room:
        """The room that is left if these use the CPU, and at most so many of each lane may."""
        brief = sum(split.brief for split in counted)
        return cls(most - brief, most - (len(counted) - brief))


ENOUGH = Room(1 << 30, 1 << 30)


class Use(NamedTuple):
    """What a split has used: seconds of CPU time, and seconds for which it held its process."""

    cpu_s: float
    held_s: float


class Taken(NamedTuple, Generic[T]):
    """A split that may run. `brief`: its connector's lane."""

    task: str
    item: T
    brief: bool


class Limits(NamedTuple):
    """How many splits of a task, of a connector, and of all connectors that linger may run at the same time."""

    per_task: int
    per_connector: int
    lingering: int = 1 << 30


class Demand(NamedTuple):
    """A connector, how many of its splits may run now, and how many are running."""

    connector: str
    splits: int
    running: int


@dataclass(slots=True)
class _Connector(Generic[T]):
    """`brief`: its lane. `time`, `usual_s`: its virtual time in this lane, and what its last split has used (turns.py);
    `place`: its place there, None if nothing of it waits. `until_brief`, `until_prompt`: how many more splits have to
    show that it is brief, and that it does not linger; `lingering`: how many were found to, and still run. `released`:
    it is forgotten when it has no splits.
    """

    time: float
    usual_s: float = 0.0
    brief: bool = False
    place: Place | None = None
    running: int = 0
    until_brief: int = TO_SHOW
    until_prompt: int = TO_SHOW
    lingering: int = 0
    released: bool = False
    tasks: OrderedDict[str, deque[T]] = field(default_factory=OrderedDict)  # that have waiting splits

    @property
    def lingers(self) -> bool:
        """Whether it has to leave the last processes to others."""
        return self.lingering > 0 or self.until_prompt > 0

    def judge(self, use: Use) -> None:
        """One of its splits has ended."""
        self.usual_s = use.cpu_s
        self.until_brief = max(0, self.until_brief - 1) if use.cpu_s <= BRIEF_S else TO_SHOW_AGAIN
        self.until_prompt = max(0, self.until_prompt - 1) if use.held_s <= LINGERING_S else TO_SHOW_AGAIN


class FairQueue(Generic[T]):
    """`take` returns the next split, which counts as running until `ended` is called. `limits` may change."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._connectors: dict[str, _Connector[T]] = {}
        self._brief, self._others = Turns(), Turns()
        self._running: Counter[str] = Counter()  # by task
        self._total = 0  # of them
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, task: str, item: T) -> None:
        """Adds a split at the end of the task's queue."""
        name = connector_of(task)
        connector = self._connectors.get(name)
        if connector is None:
            connector = self._connectors[name] = _Connector(self._others.now)
        connector.released = False
        connector.tasks.setdefault(task, deque()).append(item)
        self._length += 1
        if connector.place is None:
            connector.time = max(connector.time, self._lane(connector).now)
            self._place(name, connector)

    def take(self, room: Room = ENOUGH, may: Callable[[str], bool] = lambda _connector: True) -> Taken[T] | None:
        """The next split; None if no split may run. A connector for which `may` is false is passed over, and keeps its
        turn.
        """
        lingering = self.room_to_linger()
        for brief, lane in self._lanes(room):
            for name in lane:
                connector = self._connectors[name]
                if connector.lingers and lingering <= 0:
                    continue
                if may(name) and (task := self._next_task(connector)) is not None:
                    lane.taken(connector.time, self._others if brief else self._brief)
                    return Taken(task, self._begin(name, connector, task), brief)
        return None

    def _begin(self, name: str, connector: _Connector[T], task: str) -> T:
        waiting = connector.tasks[task]
        item = waiting.popleft()
        if waiting:
            connector.tasks.move_to_end(task)
        else:
            del connector.tasks[task]
        connector.running += 1
        self._running[task] += 1
        self._total += 1
        self._length -= 1
        connector.time += _BEGUN_S
        self._place(name, connector)
        return item

    def _next_task(self, connector: _Connector[T]) -> str | None:
        if connector.running >= self.limits.per_connector:
            return None
        return next((task for task in connector.tasks if self._running[task] < self.limits.per_task), None)

    def takeable(self, room: Room = ENOUGH) -> int:
        """How many splits successive calls of `take` would return now."""
        return sum(demand.splits for demand in self.in_turn(room))

    def in_turn(self, room: Room = ENOUGH) -> Iterator[Demand]:
        """The connectors whose splits successive calls of `take` would return now, the next one of each lane first."""
        lingering = self.room_to_linger()
        for brief, lane in self._lanes(room):
            enough = room.brief if brief else room.others
            for name in lane:
                if enough <= 0:
                    break
                connector = self._connectors[name]
                most = min(enough, self.limits.per_connector - connector.running)
                if connector.lingers:
                    most = min(most, lingering)
                each = (min(len(items), self.limits.per_task - self._running[task])
                        for task, items in connector.tasks.items())
                count = min(most, sum(each))
                if count > 0:
                    enough -= count
                    lingering -= count if connector.lingers else 0
                    yield Demand(name, count, connector.running)

    def room_to_linger(self) -> int:
        """How many more splits of connectors that linger may run. Only looks closely if that might be none."""
        if self._total < self.limits.lingering:
            return self.limits.lingering - self._total
        linger = (n for task, n in self._running.items() if self._connectors[connector_of(task)].lingers)
        return self.limits.lingering - sum(linger)

    def ended(self, task: str, use: Use | None = None, *, lingered: bool = False) -> None:
        """A split that `take` returned has ended. `use`: None if it has not begun. `lingered`: it was found to hold
        its process for long, see `look`.
        """
        self._running[task] -= 1
        self._total -= 1
        if not self._running[task]:
            del self._running[task]
        name = connector_of(task)
        connector = self._connectors[name]
        connector.running -= 1
        connector.lingering -= lingered
        if use is not None:
            connector.time = self._lane(connector).limited(connector.time + use.cpu_s - _BEGUN_S)
            connector.judge(use)
        self._place(name, connector)
        self._forget(name)

    def look(self, split: Running, used: Use) -> None:
        """A split that runs has used this until now. It may be long, or hold its process for long, and never end."""
        name = connector_of(split.task)
        connector = self._connectors[name]
        if used.cpu_s > BRIEF_S:
            split.brief = False
            connector.until_brief = TO_SHOW_AGAIN
            if connector.brief:
                self._place(name, connector)
        if not split.lingers and used.held_s > LINGERING_S:
            split.brief, split.lingers = False, True
            connector.lingering += 1
            connector.until_prompt = TO_SHOW_AGAIN

    def put_back(self, task: str, item: T, *, lingered: bool = False) -> None:
        """A split that `take` returned has not begun: it is the task's next one again. `lingered`: as in `ended`."""
        connector = self._connectors[connector_of(task)]
        connector.tasks.setdefault(task, deque()).appendleft(item)
        self._length += 1
        self.ended(task, lingered=lingered)

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
        self._place(name, connector)
        self._forget(name)
        return True

    def waiting(self, task: str) -> list[T]:
        """The waiting splits of a task, in order."""
        connector = self._connectors.get(connector_of(task))
        return list(connector.tasks.get(task, ())) if connector is not None else []

    def release(self, name: str) -> None:
        """Forgets what is known of a connector when none of its splits runs or waits."""
        if (connector := self._connectors.get(name)) is not None:
            connector.released = True
            self._forget(name)

    def _forget(self, name: str) -> None:
        connector = self._connectors[name]
        if connector.released and not connector.running and not connector.tasks:
            del self._connectors[name]

    def _lanes(self, room: Room) -> Iterator[tuple[bool, Turns]]:
        """Those with room. The one whose connectors had fewer turns is first, since there may be few processes."""
        brief_first = self._brief.rounds <= self._others.rounds
        for brief in (brief_first, not brief_first):
            if (room.brief if brief else room.others) > 0:
                yield brief, self._brief if brief else self._others

    def _lane(self, connector: _Connector[T]) -> Turns:
        return self._brief if connector.brief else self._others

    def _place(self, name: str, connector: _Connector[T]) -> None:
        """Puts a connector where it belongs, if anything of it waits."""
        lane = self._lane(connector)
        if connector.place is not None:
            lane.remove(connector.place)
            connector.place = None
        if connector.brief != (not connector.until_brief):
            connector.brief = not connector.brief
            ahead, lane = connector.time - lane.now, self._lane(connector)
            connector.time = lane.now + ahead
        if connector.tasks:
            connector.time = lane.made_up(connector.time)
            connector.place = lane.add(name, connector.time, connector.usual_s)
