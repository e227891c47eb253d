"""What the actors below the herder tell it. Always a `tell`."""

from __future__ import annotations

from dataclasses import dataclass

from actors.assignment.protocol import Membership
from actors.messages.ids import Epoch, OpId
from storage.config.state import ClusterConfigState, ConfigChange
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, State


# ---------------------------------------------------------------- events: stores, member, plugins -> herder
@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The config store folded new records into a new snapshot."""

    snapshot: ClusterConfigState
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class ConfigOpDone:
    """A WriteConfig, ReadConfigToEnd or ClaimWritePrivileges ended; every ConfigChanged up to there came before."""

    op: OpId
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class StatusesFlushed:
    """FlushStatuses is done."""

    op: OpId


@dataclass(frozen=True, slots=True)
class StatusesRead:
    """ReadStatuses is done, or failed."""

    op: OpId
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class JoinPreparing:
    """The member is about to join or rejoin and waits for AllowJoin. `eager`: everything must be stopped first."""

    eager: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """A round is complete."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The group coordinator was unreachable for a heartbeat interval, or the session or poll time-out passed."""

    reason: str


@dataclass(frozen=True, slots=True)
class ConnectorStateReported:
    """A connector instance says what became of it. `stopped_for_good`: its actor has ended. `permanent`: of a failure,
    whether trying again cannot help.
    """

    connector: ConnectorName
    epoch: Epoch
    state: State
    trace: str | None = None
    version: str | None = None
    stopped_for_good: bool = False
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class TaskStateReported:
    """A task instance says what became of it. `stopped_for_good` and `permanent`: as ConnectorStateReported."""

    task: ConnectorTaskId
    epoch: Epoch
    state: State
    trace: str | None = None
    version: str | None = None
    stopped_for_good: bool = False
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class TaskStalled:
    """A task instance has worked on the same batch for longer than it may (task.progress.timeout.ms). `what`: that in
    words, then the stack of where it hangs, without what the worker keeps to itself. `hangs`: not so where it waits for
    others, which a restart would not help.
    """

    task: ConnectorTaskId
    epoch: Epoch
    what: str
    hangs: bool = True


@dataclass(frozen=True, slots=True)
class TaskRecovered:
    """A task instance that had stalled makes progress."""

    task: ConnectorTaskId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class TaskConfigsGenerated:
    """The answer to GenerateTaskConfigs: `configs` or an `error`."""

    connector: ConnectorName
    epoch: Epoch
    op: OpId
    configs: tuple[Config, ...] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TaskReconfigurationRequested:
    """The connector noticed that its task configs are out of date (ConnectorContext.requestTaskReconfiguration)."""

    connector: ConnectorName
    epoch: Epoch


# ---------------------------------------------------------------- anybody -> herder
@dataclass(frozen=True, slots=True)
class Remark:
    """Something happened to a connector or task that the herder has no part in: one more entry of its story, nothing
    else. `what`: plain words, perhaps with a stack; secrets are masked when it is told. `source`: who says so, such as
    "executors".
    """

    item: ItemId
    what: str
    source: str
