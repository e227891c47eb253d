"""Events that the actors below the herder send it, always with `tell`."""

from __future__ import annotations

from dataclasses import dataclass

from actors.assignment.protocol import Membership
from actors.messages.correlation_ids import Epoch, OpId
from storage.config.state import ClusterConfigState, ConfigChange
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, State


# ---------------------------------------------------------------- events: stores, member, plugins -> herder
@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The config store has applied new records; `snapshot` is the result."""

    snapshot: ClusterConfigState
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class ConfigOpDone:
    """A WriteConfig, ReadConfigToEnd or ClaimWritePrivileges ended; every ConfigChanged up to then was sent before."""

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
    """A rebalance is complete."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The group coordinator was unreachable for a heartbeat interval, or the session or poll timeout has passed."""

    reason: str


@dataclass(frozen=True, slots=True)
class ConnectorStateReported:
    """A connector instance reports its state. `stopped_for_good`: its actor has ended. `permanent`: a restart cannot
    fix its failure.
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
    """A task instance reports its state. `stopped_for_good` and `permanent`: as in ConnectorStateReported.

    `created`: its runner exists. In Kafka Connect, a task runs from then on, whatever happens when it starts.
    """

    task: ConnectorTaskId
    epoch: Epoch
    state: State
    trace: str | None = None
    version: str | None = None
    stopped_for_good: bool = False
    permanent: bool = False
    created: bool = False


@dataclass(frozen=True, slots=True)
class InstanceStalled:
    """A task instance has worked on the same batch, or a connector instance on the same call, for longer than it may
    (task.progress.timeout.ms). `what`: a description, then the stack where it hangs, with secrets masked. `for_ms`: how
    long it has worked on that. `hangs`: False if it only waits for other tasks, which a restart would not help.
    """

    item: ItemId
    epoch: Epoch
    what: str
    for_ms: int
    hangs: bool = True


@dataclass(frozen=True, slots=True)
class InstanceRecovered:
    """A stalled instance makes progress again."""

    item: ItemId
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
    """The connector reports that its task configs are out of date (ConnectorContext.requestTaskReconfiguration)."""

    connector: ConnectorName
    epoch: Epoch


# ---------------------------------------------------------------- any part of the worker -> herder
@dataclass(frozen=True, slots=True)
class Remark:
    """An event outside the herder, which only adds it to the story of a connector or task. `what`: a description,
    perhaps with a stack; secrets are masked when it is shown. `source`: where it comes from, such as "executors".
    """

    item: ItemId
    what: str
    source: str
