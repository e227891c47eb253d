"""Which idle process a split gets, and which one makes room when there may be no more; pure.

A process that a connector's plugins have set up (set_up.py) is *bound* to this connector: others get no splits there,
and it does not count as available to them; the other processes are *shared*. Connectors that bind processes could
occupy all of them, so when there may be no more,
- an idle bound one is ended for a connector that waits, but only after a while: with more such connectors than
  processes, each split would otherwise end a process and start another one,
- a connector that has a bound process leaves the last shared ones to others, since they would be bound as well.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from spark_tasks.spark.residents.fairness import Demand

# How long a process is bound before it makes room for a connector that has none, or for one that could use more. A
# process starts in milliseconds on a quiet machine, but a plugin's imports may take a second.
KEEP_S = 3.0
KEEP_LONGER_S = 30.0


class Candidate(Protocol):
    """A process. `connector`: that of the last split that it has begun, "" if there was none. `bound_at`: since when it
    is bound to it, in seconds of a clock; 0.0: it is not.
    """

    connector: str
    bound_at: float


P = TypeVar("P", bound=Candidate)


def best_for(connector: str, idle: Sequence[P]) -> P | None:
    """The process for a split: one whose last split was this connector's, if possible one that is bound to it, else a
    new one, else the one that has been idle for longest. None if all are bound to others. `idle`: those that became
    idle last are last.
    """
    own = [one for one in idle if one.connector == connector]
    if own:
        return next((one for one in reversed(own) if one.bound_at), own[-1])
    shared = [one for one in idle if not one.bound_at]
    return next((one for one in shared if not one.connector), shared[0] if shared else None)


class Choice(Generic[P]):
    """The processes of a pool at one time. `idle`: those that have been idle for longest are first; it may change
    between calls. `coming`: how many are about to join; `soon`: whether a shared one has run its split for less than
    KEEP_S, so that it will probably be idle soon; `binders`: the connectors with bound processes; `kept_back`: how many
    shared ones these leave to others, 0 if more may be started.
    """

    def __init__(
        self, idle: Sequence[P], coming: int, binders: Container[str], *, soon: bool, kept_back: int
    ) -> None:
        self._idle = idle
        self._coming = coming
        self._binders = binders
        self._soon = soon
        self._kept_back = kept_back

    def may_run(self) -> Callable[[str], bool]:
        """Tells of a connector whether a split of it may run in an idle process now. Processes are looked at once, not
        for each connector: thousands may wait.
        """
        own = {one.connector for one in self._idle if one.bound_at}
        shared = sum(1 for one in self._idle if not one.bound_at)
        if not shared:
            return own.__contains__
        return lambda connector: connector in own or self._left(shared + self._coming, connector) > 0

    def _left(self, shared: int, connector: str) -> int:
        return shared - (self._kept_back if connector in self._binders else 0)

    def to_evict(self, waiting: Iterable[Demand], now: float) -> list[P]:
        """The idle bound processes to end so that splits that wait get others in their place. To be called when no more
        may be started. A process that its own connector is about to use is kept for it if that connector comes first.
        """
        bound = [one for one in self._idle if one.bound_at]
        shared = self._coming + len(self._idle) - len(bound)
        soon = self._soon or shared > 0
        found: list[P] = []
        for demand in waiting:
            own = [one for one in bound if one.connector == demand.connector][-demand.splits:]
            bound = [one for one in bound if one not in own]
            lacking = demand.splits - len(own)
            taken = min(max(0, self._left(shared, demand.connector)), lacking)
            shared -= taken
            since = now - (KEEP_LONGER_S if demand.running or soon else KEEP_S)
            ended = [one for one in bound if one.connector != demand.connector and one.bound_at <= since]
            found += ended[:lacking - taken]
            bound = [one for one in bound if one not in found]
        return found


def to_retire(idle: Sequence[tuple[P, float]], spare: int, idle_s: float) -> list[P]:
    """The idle processes to end because nobody has used them for `idle_s`. One more than the spare ones stays, and so
    do `spare` that are not bound, as others would be started in their place. `idle`: with how long each has been idle,
    the longest first.
    """
    left, shared = len(idle), sum(1 for one, _ in idle if not one.bound_at)
    found: list[P] = []
    for one, seconds in idle:
        if left <= spare + 1 or seconds <= idle_s:
            break
        if one.bound_at or shared > spare:
            found.append(one)
            left -= 1
            shared -= not one.bound_at
    return found
