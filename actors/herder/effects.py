"""The effects of the herder's steps. A step's effects are carried out in order; an effect that can fail results in an
event (named in its docstring), never in an exception.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from actors.messages.commands import (
    AllowJoin,
    ClaimWritePrivileges,
    FlushStatuses,
    JoinGroup,
    LeaveGroup,
    PutStatus,
    ReadConfigToEnd,
    ReadStatuses,
    RequestRejoin,
    StartConnector,
    StartTask,
    WriteConfig,
)
from actors.messages.correlation_ids import Epoch, OpId, RequestId
from actors.messages.requests import Request
from storage.config.state import SessionKey
from storage.ids import Config, ConnectorName, ItemId, TargetState


class Timer(StrEnum):
    """The purposes of the herder's timers."""

    STOP = "stop"  # an instance has had task.shutdown.graceful.timeout.ms to stop
    JOIN = "join"  # the wait outside the group is over
    FAILED_REBALANCE = "failed rebalance"  # the leader has had time to begin another rebalance
    POSTPONED_REBALANCE = "postponed rebalance"  # a rebalance that was put off is due
    SCHEDULED_REBALANCE = "scheduled rebalance"  # the delay after a lost worker is over (KIP-415)
    CLAIM = "claim"  # try again to claim the right to write the config topic
    PURGE = "purge"  # remove obsolete statuses once more
    SESSION_KEY = "session key"  # a session key has expired, or could not be written
    STATUSES = "statuses"  # try again to read the status topic
    QUEUE = "queue"  # a queued request is due
    REQUEST_TIMEOUT = "request timeout"  # a request has waited for the group for as long as it may


TimerKey = tuple[Timer, str]  # the purpose, and for STOP the epoch: (Timer.STOP, "17"), (Timer.QUEUE, "")


@dataclass(frozen=True, slots=True)
class StartInstance:
    """Starts an actor for the item; results in ConnectorStateReported or TaskStateReported with this epoch."""

    item: ItemId
    epoch: Epoch
    command: StartConnector | StartTask


@dataclass(frozen=True, slots=True)
class StopInstance:
    """Stops gracefully; results in a report with `stopped_for_good`, at once if the actor is dead already."""

    item: ItemId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class AbandonInstance:
    """An instance did not stop within `after_ms`: logs where it hangs, cancels what it does and forgets it; its later
    reports are ignored.
    """

    item: ItemId
    epoch: Epoch
    after_ms: int


@dataclass(frozen=True, slots=True)
class ChangeInstance:
    """Sends an instance its new target state; results in a report."""

    item: ItemId
    epoch: Epoch
    state: TargetState


@dataclass(frozen=True, slots=True)
class AskTaskConfigs:
    """Has a running connector generate its task configs; results in TaskConfigsGenerated."""

    connector: ConnectorName
    epoch: Epoch
    op: OpId


@dataclass(frozen=True, slots=True)
class SendTaskConfigs:
    """POSTs task configs to the leader, signed if there is a key; results in TaskConfigsPublished."""

    op: OpId
    leader_url: str
    connector: ConnectorName
    configs: tuple[Config, ...]
    key: SessionKey | None


@dataclass(frozen=True, slots=True)
class FenceProducers:
    """Fences the transactional ids of a connector's former tasks; results in ProducersFenced."""

    op: OpId
    connector: ConnectorName
    config: Config
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Validate:
    """Runs the plugin's validation; results in Validated."""

    request_id: RequestId
    config: Config


@dataclass(frozen=True, slots=True)
class Delegate:
    """Passes a request to another actor, which answers it without the herder (validation, offsets, dead letters)."""

    request_id: RequestId
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers a request: with `error` if it is set, else with `value`."""

    request_id: RequestId
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class MakeSessionKey:
    """Generates a new session key and writes it; results in ConfigOpDone."""

    op: OpId


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Writes tombstones for the topic statuses of a deleted connector (KIP-558)."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class SetLoggerLevel:
    """Sets a logger's level on this worker, as requested for the whole cluster (KIP-976)."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Results in TimerFired at or after the time; replaces a timer with the same key."""

    key: TimerKey
    at_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Cancels a timer, if it exists."""

    key: TimerKey


@dataclass(frozen=True, slots=True)
class Log:
    """Logs a line for the operator; `level` is a level name of the logging module. `about`: the connector or task that
    the line is about. `logger`, `line`: the module and the line of the handler that logs it.
    """

    level: str
    message: str
    about: ItemId | None = None
    logger: str = field(default=__name__, compare=False, repr=False)
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EndWorker:
    """Everything is stopped; the worker may end."""


InstanceEffect = StartInstance | StopInstance | AbandonInstance | ChangeInstance | AskTaskConfigs
StoreEffect = WriteConfig | ReadConfigToEnd | ClaimWritePrivileges | PutStatus | FlushStatuses | ReadStatuses
MemberEffect = JoinGroup | AllowJoin | RequestRejoin | LeaveGroup
DelegatedEffect = (
    Delegate | Validate | SendTaskConfigs | FenceProducers | MakeSessionKey | ForgetTopics | SetLoggerLevel
)
OwnEffect = Reply | SetTimer | CancelTimer | Log | EndWorker
Effect = InstanceEffect | StoreEffect | MemberEffect | DelegatedEffect | OwnEffect
