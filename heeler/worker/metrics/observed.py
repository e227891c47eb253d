"""Derives metrics from the herder's states: starts, restarts and their causes, rebalances. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.herder.standing import Phase
from actors.herder.state import HerderState, Slot, connector_of, is_task
from spark_tasks.metrics.windows import Window
from storage.ids import ConnectorName, ItemId, State, TargetState

_REBALANCING = (Phase.JOINING, Phase.REVOKING, Phase.SYNCING)


@dataclass(slots=True)
class Starts:
    """The starts of connectors, or of tasks."""

    attempts: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(slots=True)
class Rounds:
    """The rebalances of this worker. Times are in seconds of the clock given to `follow`."""

    count: int = 0
    seconds: float = 0.0
    begun: float | None = None
    ended: float | None = None
    lately: Window = field(default_factory=Window)  # their lengths
    often: Window = field(default_factory=Window)  # ones


class Observed:
    """Follows the herder's states. Only the herder's thread writes; any thread may read."""

    def __init__(self) -> None:
        self.connector_starts = Starts()
        self.task_starts = Starts()
        self.rounds = Rounds()
        self.restarts: dict[ItemId, dict[str, int]] = {}  # by cause
        self.slots: Mapping[ItemId, Slot] = {}
        self.generation = -1
        self.protocol = ""
        self.leader = ""
        self.assigned_connectors = self.assigned_tasks = 0
        self.connectors = self.tasks = 0

    def follow(self, state: HerderState, now: float) -> bool:
        """Take the next state; returns whether the instances that run here have changed."""
        self._rebalance(state.phase, now)
        self.generation = state.generation
        self.protocol = state.membership.protocol.value if state.membership is not None else ""
        self.leader = state.leader_url or ""
        self.assigned_connectors = len(state.allocation.connectors)
        self.assigned_tasks = len(state.allocation.tasks)
        if state.slots is self.slots:
            return False
        before, self.slots = self.slots, state.slots
        for item, slot in state.slots.items():
            old = before.get(item)
            if old is not slot:
                self._compare(item, old, slot)
        self.tasks = sum(map(is_task, state.slots))
        self.connectors = len(state.slots) - self.tasks
        for item in [item for item in self.restarts if item not in state.slots and _over(state, connector_of(item))]:
            del self.restarts[item]
        return True

    def _rebalance(self, phase: Phase, now: float) -> None:
        rounds = self.rounds
        if phase in _REBALANCING and rounds.begun is None:
            rounds.begun = now
        elif phase is Phase.RESOLVED and rounds.begun is not None:
            length, rounds.begun, rounds.ended = now - rounds.begun, None, now
            rounds.count += 1
            rounds.seconds += length
            rounds.lately.add(length, now)
            rounds.often.add(1, now)

    def _compare(self, item: ItemId, old: Slot | None, new: Slot) -> None:
        starts = self.task_starts if is_task(item) else self.connector_starts
        fresh = old is None or old.epoch != new.epoch
        if fresh:
            starts.attempts += 1
            cause = cause_of(old)
            known = self.restarts.get(item)
            if known is None:
                self.restarts[item] = {}
            else:
                known[cause] = known.get(cause, 0) + 1
        if new.state is not None and (fresh or (old is not None and old.state is None)):
            if new.state is State.FAILED:
                starts.failed += 1
            else:
                starts.succeeded += 1


def _over(state: HerderState, connector: ConnectorName) -> bool:
    """Forget a connector that was deleted or stopped by its user: its next start is not a restart."""
    return state.store.target_state(connector) in (None, TargetState.STOPPED)


def cause_of(before: Slot | None) -> str:
    """Why an instance is started again: failure or stall (errors.restart.policy), request (of a user),
    config (a new configuration), or rebalance (it was stopped meanwhile, here or elsewhere).
    """
    if before is None or not before.start_again:
        return "rebalance"
    if before.healing and not before.waiting:
        return before.healing
    return "request" if before.restarting or before.waiting else "config"
