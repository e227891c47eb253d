"""The rules of the status topic: the state that results from its records, and which writes are allowed and repeated.

Pure. The rules are those of Kafka Connect's KafkaStatusBackingStore. A write becomes visible only when it is read back.
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

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Draft:
    """The state while a batch is applied; outer mappings are copied once per batch, inner ones when they change."""

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
    """Applies records to the state; also returns the removed items (for `forget`)."""
    draft = _Draft(dict(state.connectors), dict(state.tasks), dict(state.topics))
    for record in records:
        try:
            if not _apply(draft, "" if record.key is None else record.key.decode(errors="replace"), record.value):
                _logger.warning("Skipping a status %s: unknown kind of key", record)
        except Exception as error:  # noqa: BLE001 - no record may stop the reader
            _logger.warning("Skipping a status %s: its value is invalid: %s", record, shown(error))
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
    if value is None:  # removes the statuses of its tasks too
        draft.connectors.pop(connector, None)
        draft.removed.append(connector)
        draft.removed += [ConnectorTaskId(connector, number) for number in draft.tasks.pop(connector, {})]
        draft.own.discard(("tasks", connector))
    else:
        status = parse_status(connector, value)
        current = draft.connectors.get(connector)
        if current is None or not _superseded(status, current):
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
        _logger.debug("Ignoring %s in favor of %s", status, current)
    else:
        draft.inner("tasks", task.connector)[task.task] = status
    return True


def _stale(status: Status, current: Status) -> bool:
    """Whether a status is outdated: a worker that lost a task may write UNASSIGNED after its successor's RUNNING.

    Statuses of the same worker are in order. Kafka Connect compares generations for these, too. So it shows a task as
    running although the worker gave it up outside the group, or in the generation in which it had started the task.
    """
    return _superseded(status, current) or (
        status.worker_id != current.worker_id
        and status.state is State.UNASSIGNED
        and current.state is State.RUNNING
        and current.generation >= status.generation
    )


def _superseded(status: Status, current: Status) -> bool:
    """Whether another worker has written a status in a later generation than the one in which the item was given up.

    Only for UNASSIGNED, and for statuses written outside the group: generations start again if a group was empty for a
    long time, and a start must never be missed. Outside the group nothing starts, but items that stop may still fail.
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
    """What a writer remembers: the generation of its last write, how many writes there were, and which was the last one
    of each item that has not been removed since.
    """

    generation: int = 0
    writes: int = 0
    last: Mapping[ItemId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteTicket:
    """A status that is being written. `over`: one that it may replace although that is another worker's newer one."""

    status: Status
    safe: bool
    number: int
    over: Status | None = None


def admit(
    book: WriteBook, state: StatusState, status: Status, *, safe: bool, after: WriteTicket | None = None
) -> tuple[WriteBook, WriteTicket | None]:
    """Begins to write a status. Returns no ticket if a safe write would overwrite another worker's newer status, or
    write UNASSIGNED for an item without a status. A write without a ticket supersedes former ones all the same.

    `after`: the item's last write, if it has not been read back. A safe write may replace the status that this one
    replaces, but none that was read later: then another worker has taken over.
    """
    over = (None if after is None else after.over) if safe else _current(state, status)
    number = book.writes + 1
    if safe and status.state is State.UNASSIGNED and status.id not in book.last and _current(state, status) is None:
        # The item was deleted; this write would restore its status.
        return replace(book, generation=status.generation), None
    book = WriteBook(status.generation, number, {**book.last, status.id: number})
    ticket = WriteTicket(status, safe, number, over)
    return book, None if safe and not _may_overwrite(state, ticket) else ticket


def may_repeat(book: WriteBook, state: StatusState, ticket: WriteTicket) -> bool:
    """Whether a write that failed temporarily is to be retried.

    It is not if the item was removed, or this worker is in another generation, or it has written a newer status of the
    same item. (Kafka Connect checks the last condition only for safe writes, so others may overwrite the newer one.)
    """
    if book.last.get(ticket.status.id) != ticket.number:
        return False
    return ticket.status.generation == book.generation and not (ticket.safe and not _may_overwrite(state, ticket))


def forget(book: WriteBook, removed: Iterable[ItemId]) -> WriteBook:
    """Tombstones of these items were read: invalidates their writes in progress."""
    gone = book.last.keys() & removed
    if not gone:
        return book
    last = dict(book.last)
    for item in gone:
        del last[item]
    return replace(book, last=last)


def _current(state: StatusState, status: Status) -> Status | None:
    item = status.id
    if isinstance(item, ConnectorTaskId):
        return state.tasks.get(item.connector, {}).get(item.task)
    return state.connectors.get(item)


def _may_overwrite(state: StatusState, ticket: WriteTicket) -> bool:
    status, current = ticket.status, _current(state, ticket.status)
    if current is None or current is ticket.over:  # not ==: an equal one that was read later is another
        return True
    return current.worker_id == status.worker_id or current.generation <= status.generation
