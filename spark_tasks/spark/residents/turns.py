"""Whose turn it is, by how much each has used; pure.

This is start-time fair queueing (Goyal, Vin and Cheng, 1996). Each name has a virtual time in seconds, which grows with
what it uses; among those that wait, the one with the earliest time is next. One that begins to wait does not get what
was left to others before: its time is at least that of the one whose turn was last.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Iterator

MOST_S = 10.0  # a name that has used more than others is not behind them by more than this

Place = tuple[float, int, str]  # the time, a number by which equal ones are ordered, the name


class Turns:
    """The names that wait. `now`: the virtual time. `rounds`: how many turns each of them had, on average, except for
    what was left to others.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.rounds = 0.0
        self._places: list[Place] = []
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[str]:
        """The names, the next one first. To be given up before a change."""
        return (name for _, _, name in self._places)

    def add(self, name: str, time: float) -> Place:
        """A name waits. Returns its place, for `remove`."""
        place = time, next(self._numbers), name
        insort(self._places, place)
        return place

    def remove(self, place: Place) -> None:
        """A name waits no more."""
        del self._places[bisect_left(self._places, place)]

    def taken(self, time: float, other: Turns) -> None:
        """It is the turn of a name with this time. `other`: those with whom these share what there is."""
        self.now = max(self.now, time)
        self.rounds += 1 / len(self._places)
        other.rounds = max(other.rounds, self.rounds - bool(other._places))

    def limited(self, time: float) -> float:
        """The time of a name that has used something."""
        return min(time, self.now + MOST_S)
