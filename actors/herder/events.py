"""The events that a herder handles. Every event carries the time, so that the core needs no clock."""

from __future__ import annotations

from dataclasses import dataclass

from actors.herder.effects import TimerKey
from actors.messages.correlation_ids import OpId, RequestId
from actors.messages.events import (
    ConfigChanged,
    ConfigOpDone,
    ConnectorStateReported,
    CoordinatorLost,
    InstanceRecovered,
    InstanceStalled,
    Joined,
    JoinPreparing,
    StatusesFlushed,
    StatusesRead,
    TaskConfigsGenerated,
    TaskReconfigurationRequested,
    TaskStateReported,
)
from actors.messages.requests import Request
from storage.config.state import ClusterConfigState
from storage.status.state import StatusState


@dataclass(frozen=True, slots=True)
class Loaded:
    """The stores have read their topics for the first time."""

    snapshot: ClusterConfigState


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request. `wait_ms`: how long it may wait for the group to become stable; None: without a limit."""

    request_id: RequestId
    request: Request
    wait_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Validated:
    """The plugin's validation of a PutConnector or of a merged patch has finished. `error`: why it failed."""

    request_id: RequestId
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TaskConfigsPublished:
    """The leader has accepted the task configs that were sent to it, or sending them failed."""

    op: OpId
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ProducersFenced:
    """The producers of former tasks are fenced, or fencing failed (KIP-618)."""

    op: OpId
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer set by SetTimer is due."""

    key: TimerKey


@dataclass(frozen=True, slots=True)
class Suspended:
    """The process or the herder was suspended for longer than the group's session timeout."""

    for_ms: int


@dataclass(frozen=True, slots=True)
class HaltRequested:
    """The worker is to shut down."""

    reason: str


Payload = (
    Loaded | RequestReceived | Validated | TaskConfigsPublished | ProducersFenced
    | TimerFired | Suspended | HaltRequested | ConfigChanged
    | ConfigOpDone | StatusesFlushed | StatusesRead | JoinPreparing | Joined | CoordinatorLost | ConnectorStateReported
    | TaskStateReported | InstanceStalled | InstanceRecovered | TaskConfigsGenerated | TaskReconfigurationRequested
)


@dataclass(frozen=True, slots=True)
class Event:
    """A payload with the time (ms since the epoch), the statuses at that time, and the event's id (Joined#17)."""

    payload: Payload
    now_ms: int
    statuses: StatusState
    cause: str
