"""The herder's state for zombie fencing and for exactly-once tasks that start (KIP-618); see zombie_fencing.py."""

from __future__ import annotations

from dataclasses import dataclass, replace

from actors.messages.correlation_ids import RequestId
from storage.ids import ConnectorName, ConnectorTaskId


@dataclass(frozen=True, slots=True)
class RecordFencing:
    """The leader's own request: writes the task count record, as former producers are fenced (KIP-618)."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class Fencing:
    """A round of zombie fencing in progress, for one generation of task configs and under one claim to the topic."""

    generation: int
    count: int
    claim: int | None
    waiting: tuple[RequestId, ...]

    def joined_by(self, request_id: RequestId) -> Fencing:
        """The same round with one more waiting request."""
        return replace(self, waiting=(*self.waiting, request_id))


@dataclass(frozen=True, slots=True)
class FencingRead:
    """The config topic was read before a round of zombie fencing."""

    request_id: RequestId
    connector: ConnectorName
    claim: int | None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The producers of former tasks are fenced."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class FencingChecked:
    """The config topic was read after a round of zombie fencing."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class FencingRecorded:
    """A task count record is written."""

    waiting: tuple[RequestId, ...]


@dataclass(frozen=True, slots=True)
class StartVerified:
    """The config topic was read for a task that has initialized its producer."""

    request_id: RequestId
    task: ConnectorTaskId
    generation: int


@dataclass(frozen=True, slots=True)
class RestartRead:
    """The config topic was read before a restart."""

    request_id: RequestId
    task: ConnectorTaskId
