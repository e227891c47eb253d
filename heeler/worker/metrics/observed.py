"""Derives metrics from the herder's states: starts, restarts and their causes, rebalances. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.herder.instance import Instance, RestartCause
from actors.herder.standing import Phase
from actors.herder.state import HerderState, connector_of, is_task
from spark_tasks.metrics.windows import Window
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ItemId, State, TargetState

CAUSES = ("failure", "stall", "request", "config", "rebalance")  # of a restart, see cause_of
_REBALANCING = (Phase.JOINING, Phase.REVOKING, Phase.SYNCING)


@dataclass(slots=True)
class Starts:
    """The starts of connectors, or of tasks."""

    attempts: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(slots=True)
class Rebalances:
    """The rebalances of this worker. Times are in seconds of the clock given to `follow`."""

    count: int = 0
    seconds: float = 0.0
    begun: float | None = None
    ended: float | None = None
    durations: Window = field(default_factory=Window)  # the durations of recent rebalances
    rate_window: Window = field(default_factory=Window)  # 1 for each recent rebalance


class Observed:
    """Follows the herder's states. Only the herder's thread writes; any thread may read."""

    def __init__(self) -> None:
        self.connector_starts = Starts()
        self.task_starts = Starts()
        self.rebalances = Rebalances()
        self.restarts: dict[ItemId, dict[str, int]] = {}  # by cause
        self.instances: Mapping[ItemId, Instance] = {}
        self.generation = -1
        self.protocol = ""
        self.leader = ""
        self.assigned_connectors = self.assigned_tasks = 0
        self._elsewhere: set[ItemId] = set()  # those of `restarts` that do not run here now
        self._store: ClusterConfigState | None = None

    @property
    def tasks(self) -> int:
        """The number of tasks that run here."""
        return sum(map(is_task, self.instances))

    @property
    def connectors(self) -> int:
        """The number of connectors that run here."""
        return len(self.instances) - self.tasks

    def follow(self, state: HerderState, now: float) -> None:
        """Takes the state after each step of the herder."""
        self._rebalance(state.phase, now)
        self.generation = state.generation
        self.protocol = state.membership.protocol.value if state.membership is not None else ""
        self.leader = state.leader_url or ""
        self.assigned_connectors = len(state.allocation.connectors)
        self.assigned_tasks = len(state.allocation.tasks)
        before, self.instances = self.instances, state.instances
        for item in state.changed:
            instance = state.instances.get(item)
            if instance is not None:
                self._elsewhere.discard(item)
                self._compare(item, before.get(item), instance)
            elif item in self.restarts:
                self._elsewhere.add(item)
        if state.changed or state.store is not self._store:
            self._store = state.store
            for item in [item for item in self._elsewhere if _over(state, connector_of(item))]:
                self._elsewhere.discard(item)
                del self.restarts[item]

    def _rebalance(self, phase: Phase, now: float) -> None:
        rebalances = self.rebalances
        if phase in _REBALANCING and rebalances.begun is None:
            rebalances.begun = now
        elif phase is Phase.RESOLVED and rebalances.begun is not None:
            length, rebalances.begun, rebalances.ended = now - rebalances.begun, None, now
            rebalances.count += 1
            rebalances.seconds += length
            rebalances.durations.add(length, now)
            rebalances.rate_window.add(1, now)

    def _compare(self, item: ItemId, old: Instance | None, new: Instance) -> None:
        starts = self.task_starts if is_task(item) else self.connector_starts
        fresh = old is None or old.epoch != new.epoch
        if fresh:
            starts.attempts += 1
            cause = "config" if old is None and new.restarted is RestartCause.REPLACEMENT else cause_of(old)
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
    """Whether a connector was deleted, or stopped by its user: its next start is not a restart."""
    return state.store.target_state(connector) in (None, TargetState.STOPPED)


def cause_of(before: Instance | None) -> str:
    """Why an instance is started again: failure or stall (errors.restart.policy), request (of a user),
    config (a new configuration), or rebalance (it was stopped meanwhile, here or elsewhere).
    """
    restart = before.stopping.restart if before is not None and before.stopping is not None else RestartCause.NONE
    if before is None or restart is RestartCause.NONE:
        return "rebalance"
    if before.waiting or restart in (RestartCause.RESTART, RestartCause.REQUESTED):
        return "request"
    return "config" if restart is RestartCause.REPLACEMENT else restart.value
