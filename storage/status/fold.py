"""The rules of the status topic: what a reader makes of its records, what a writer may write, what it may repeat.

Pure, and Kafka Connect's own rules (KafkaStatusBackingStore). Nothing that is written is visible before it is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from storage.ids import ConnectorName, ConnectorTaskId, ItemId, State
from storage.log.record import LogRecord, shown
from storage.status.records import (
    CONNECTOR,
    TASK,
    TOPIC,
    parse_connector_key,
    parse_status,
    parse_task_key,
    parse_topic_key,
    parse_topic_status,
)
from storage.status.state import Status, StatusState

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Draft:
    """The state while a batch is folded in; the outer mappings are copied once a batch, inner ones when touched."""

    connectors: dict[ConnectorName, Status]
    tasks: dict[ConnectorName, Mapping[int, Status]]
    topics: dict[ConnectorName, Mapping[Any, Any]]
    own: set[tuple[str, ConnectorName]] = field(default_factory=set)
    removed: list[ItemId] = field(default_factory=list)

    def inner(self, name: str, connector: ConnectorName) -> dict[Any, Any]:
        outer: dict[ConnectorName, Any] = getattr(self, name)
        if (name, connector) not in self.own:
            self.own.add((name, connector))
            outer[connector] = dict(outer.get(connector, {}))
        inner: dict[Any, Any] = outer[connector]
        return inner

    def drop(self, name: str, connector: ConnectorName, key: Any) -> None:
        if key in getattr(self, name).get(connector, {}):
            inner = self.inner(name, connector)
            del inner[key]
            if not inner:
                del getattr(self, name)[connector]
                self.own.discard((name, connector))


def fold(state: StatusState, records: Iterable[LogRecord]) -> tuple[StatusState, tuple[ItemId, ...]]:
    """Add records to the state; also answers what was removed (tell it to `forget`)."""
    draft = _Draft(dict(state.connectors), dict(state.tasks), dict(state.topics))
    for record in records:
        try:
            if not _apply(draft, "" if record.key is None else record.key.decode(errors="replace"), record.value):
                log.warning("Skipping a status %s: no such kind of key is known", record)
        except Exception as error:  # noqa: BLE001 - whatever a record does wrong, it stops nobody
            log.warning("Skipping a status %s: its value is invalid: %s", record, shown(error))
    return StatusState(draft.connectors, draft.tasks, draft.topics), tuple(draft.removed)


def _apply(draft: _Draft, key: str, value: bytes | None) -> bool:
    if key.startswith(CONNECTOR):
        return _connector(draft, key, value)
    if key.startswith(TASK):
        return _task(draft, key, value)
    if key.startswith(TOPIC):
        return _topic(draft, key, value)
    return False


def _connector(draft: _Draft, key: str, value: bytes | None) -> bool:
    connector = parse_connector_key(key)
    if connector is None:
        return False
    if value is None:  # takes the statuses of its tasks along
        draft.connectors.pop(connector, None)
        draft.removed.append(connector)
        draft.removed += [ConnectorTaskId(connector, number) for number in draft.tasks.pop(connector, {})]
        draft.own.discard(("tasks", connector))
    else:
        status = parse_status(connector, value)
        current = draft.connectors.get(connector)
        if current is None or not _outlived(status, current):
            draft.connectors[connector] = status
    return True


def _task(draft: _Draft, key: str, value: bytes | None) -> bool:
    task = parse_task_key(key)
    if task is None:
        return False
    if value is None:
        draft.drop("tasks", task.connector, task.task)
        draft.removed.append(task)
        return True
    status = parse_status(task, value)
    current = draft.tasks.get(task.connector, {}).get(task.task)
    if current is not None and _stale(status, current):
        log.debug("Ignoring %s in favour of %s", status, current)
    else:
        draft.inner("tasks", task.connector)[task.task] = status
    return True


def _stale(status: Status, current: Status) -> bool:
    """A worker that lost a task may say so after its successor has said RUNNING (Kafka Connect's rule), or anything.

    What one worker says of a task is in order: Kafka Connect goes by the generation here, too, and so takes a task that
    a worker gave up in the generation in which it had begun, or out of the group, for one that runs on.
    """
    return _outlived(status, current) or (
        status.worker_id != current.worker_id
        and status.state is State.UNASSIGNED
        and current.state is State.RUNNING
        and current.generation >= status.generation
    )


def _outlived(status: Status, current: Status) -> bool:
    """Somebody else has spoken in a later generation than the one in which this worker gave the item up.

    Only for UNASSIGNED, and for all that is said out of the group: generations begin anew when a group was empty for
    long, and a start must never go unseen. Out of the group nothing starts; what still stops there may yet fail.
    """
    return (
        (status.state is State.UNASSIGNED or status.generation < 0)
        and current.worker_id != status.worker_id
        and current.generation > status.generation
    )


def _topic(draft: _Draft, key: str, value: bytes | None) -> bool:
    parsed = parse_topic_key(key)
    if parsed is None:
        return False
    topic, connector = parsed
    if value is None:
        draft.drop("topics", connector, topic)
    else:
        draft.inner("topics", connector)[topic] = parse_topic_status(value)
    return True


# ---------------------------------------------------------------- writing
@dataclass(frozen=True, slots=True)
class WriteBook:
    """What a writer remembers: the generation that it wrote last, and how often it wrote each item.

    The second number of an item changes when a tombstone for it is read: what was under way then is void.
    """

    generation: int = 0
    sequences: Mapping[ItemId, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteTicket:
    """A status on its way to the topic."""

    status: Status
    safe: bool
    sequence: int
    lives: int


def admit(book: WriteBook, state: StatusState, status: Status, *, safe: bool) -> tuple[WriteBook, WriteTicket | None]:
    """Begin to write a status; no ticket where a safe write would overwrite a newer worker's word, or say UNASSIGNED of
    what has no status.
    """
    sequence, lives = book.sequences.get(status.id, (0, 0))
    if safe and status.state is State.UNASSIGNED and not sequence and _current(state, status) is None:
        # Nobody says that it runs: the item was deleted, and this would bring its status back.
        return replace(book, generation=status.generation), None
    if safe and not _may_overwrite(state, status):
        return replace(book, generation=status.generation), None
    sequences = {**book.sequences, status.id: (sequence + 1, lives)}
    return WriteBook(status.generation, sequences), WriteTicket(status, safe, sequence + 1, lives)


def may_repeat(book: WriteBook, state: StatusState, ticket: WriteTicket) -> bool:
    """Whether a write that failed for now is to be tried again.

    It is not once the item was removed, this worker has entered another generation, or has written a newer status
    of the same item. (Kafka Connect looks at the last only for safe writes, and then may overwrite the newer one.)
    """
    if book.sequences.get(ticket.status.id) != (ticket.sequence, ticket.lives):
        return False
    return ticket.status.generation == book.generation and not (
        ticket.safe and not _may_overwrite(state, ticket.status)
    )


def forget(book: WriteBook, removed: Iterable[ItemId]) -> WriteBook:
    """Tombstones of these items were read."""
    known = [item for item in removed if item in book.sequences]
    if not known:
        return book
    again = {item: (0, book.sequences[item][1] + 1) for item in known}
    return replace(book, sequences={**book.sequences, **again})


def _current(state: StatusState, status: Status) -> Status | None:
    item = status.id
    if isinstance(item, ConnectorTaskId):
        return state.tasks.get(item.connector, {}).get(item.task)
    return state.connectors.get(item)


def _may_overwrite(state: StatusState, status: Status) -> bool:
    current = _current(state, status)
    return current is None or current.worker_id == status.worker_id or current.generation <= status.generation
