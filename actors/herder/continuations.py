"""What the herder does when an op, a call of another actor, has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.herder.fencing_state import Fenced, FencingChecked, FencingRead, FencingRecorded, RestartRead, StartVerified
from actors.herder.own_requests import Reconfigure
from actors.messages.commands import ConfigWrite
from actors.messages.correlation_ids import RequestId
from actors.messages.requests import AlterOffsets


@dataclass(frozen=True, slots=True)
class AnswerWith:
    """Answers a request with `value`, or with the op's error."""

    request_id: RequestId | None
    value: Any = None


@dataclass(frozen=True, slots=True)
class WriteNext:
    """Writes once more, then answers."""

    request_id: RequestId
    write: ConfigWrite
    value: Any = None


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """The config topic was read before offsets are altered."""

    request_id: RequestId
    request: AlterOffsets


@dataclass(frozen=True, slots=True)
class PublishedTasks:
    """A connector's new task configs were written or sent to the leader, or neither succeeded."""

    reconfigure: Reconfigure


@dataclass(frozen=True, slots=True)
class GeneratedTasks:
    """A connector was asked for its task configs."""

    reconfigure: Reconfigure


@dataclass(frozen=True, slots=True)
class ResolveAssignment:
    """The config topic was read for the assignment of a generation; `then_rejoin`: the rebalance itself had failed."""

    then_rejoin: bool
    generation: int


@dataclass(frozen=True, slots=True)
class JoinAgain:
    """The config topic was read after a backoff outside the group."""


@dataclass(frozen=True, slots=True)
class Released:
    """The statuses of released work are flushed."""


@dataclass(frozen=True, slots=True)
class HaltFlushed:
    """The last statuses are flushed; leaves the group."""


@dataclass(frozen=True, slots=True)
class StatusesCaughtUp:
    """The statuses that others wrote while this process was suspended have been read."""


@dataclass(frozen=True, slots=True)
class KeyWritten:
    """A session key was written."""


@dataclass(frozen=True, slots=True)
class PrivilegesClaimed:
    """The leader may write the config topic."""


Continuation = (
    AnswerWith | WriteNext | PublishedTasks | GeneratedTasks | ResolveAssignment | JoinAgain | Released
    | HaltFlushed | KeyWritten | PrivilegesClaimed | FencingRead | Fenced | FencingChecked | FencingRecorded
    | StartVerified | RestartRead | OffsetsRead | StatusesCaughtUp
)
