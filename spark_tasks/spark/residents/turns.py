"""Whose turn it is, by how much each has used; pure.

This is fair queueing. Each name has a virtual time in seconds, which grows with what it uses. The next turn goes to the
name whose turn would end first if it used as much as the last time. So names that always wait get equal shares (Demers,
Keshav, Shenker 1989), and one that needs little does not wait until each of the others has had its turn. Time in which
a name does not wait earns it nothing: when it begins to wait, its virtual time is at least that at which the last turn
began (Goyal, Vin, Cheng 1996).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Iterator

# A name that has used more than others, or whose turns are long, is not behind them by more than this; and one that was
# passed over is not ahead of them by more.
MOST_S = 3.0

Place = tuple[float, int, str]  # when the turn would end, a number by which equal ones are ordered, the name


class Turns:
    """The names that wait. `now`: the virtual time; `rounds`: how many turns each of them had on average, except for
    those that were left to others.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.rounds = 0.0
        self._places: list[Place] = []
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[str]:
        """The names, the next one first. The iteration has to end before a name is added or removed."""
        return (name for _, _, name in self._places)

    def add(self, name: str, time: float, usual: float) -> Place:
        """A name waits, with its virtual time and what it usually uses. Returns its place, for `remove`."""
        place = time + min(usual, MOST_S), next(self._numbers), name
        insort(self._places, place)
        return place

    def remove(self, place: Place) -> None:
        """A name no longer waits."""
        del self._places[bisect_left(self._places, place)]

    def taken(self, time: float, other: Turns) -> None:
        """It is the turn of a name that waits, with this virtual time. `other`: the lane beside it."""
        self.now = max(self.now, time)
        self.rounds += 1 / len(self._places)
        other.rounds = max(other.rounds, self.rounds - bool(other._places))

    def limited(self, time: float) -> float:
        """The virtual time of a name that has used something."""
        return min(time, self.now + MOST_S)

    def made_up(self, time: float) -> float:
        """The virtual time of a name that waits, but at most MOST_S behind `now`. Only a name that was passed over
        while others had turns can be further behind.
        """
        return max(time, self.now - MOST_S)
