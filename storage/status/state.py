"""Statuses of connectors, tasks and topics, and the frozen view of the status topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from storage.ids import ConnectorName, ItemId, State, TopicName, WorkerId


@dataclass(frozen=True, slots=True)
class Restarts:
    """Automatic restarts of a connector or task that fails (errors.restart.policy). `count`: restarts so far; `cause`:
    the last failure in one line; `next_ms`: when it will be restarted (ms since 1970); `permanent`: it will not be
    restarted, because a restart cannot fix the failure.
    """

    count: int
    cause: str
    next_ms: int | None = None
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """A connector or task makes no progress (task.progress.timeout.ms). `since_ms`: since when, in ms since 1970;
    `what`: what it is doing, in one line, followed by the stack trace of where it hangs.
    """

    since_ms: int
    what: str


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a connector (`id` a name) or of a task (`id` a ConnectorTaskId)."""

    id: ItemId
    state: State
    worker_id: WorkerId
    generation: int
    trace: str | None = None
    version: str | None = None
    restarts: Restarts | None = None  # an extension of heeler, as is the next
    stalled: Stall | None = None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a connector's task has used (KIP-558)."""

    topic: TopicName
    connector: ConnectorName
    task: int
    discovered_ms: int


@dataclass(frozen=True, slots=True)
class StatusState:
    """A snapshot of the status topic. The mappings are never modified."""

    connectors: Mapping[ConnectorName, Status] = field(default_factory=dict)
    tasks: Mapping[ConnectorName, Mapping[int, Status]] = field(default_factory=dict)
    topics: Mapping[ConnectorName, Mapping[TopicName, TopicStatus]] = field(default_factory=dict)
