"""Statuses: the fold, for any content of the topic, and writers whose sends fail, are repeated and overtake each
other.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rest.wire.responses import instant
from storage.ids import ConnectorName, ConnectorTaskId, State, TopicName, WorkerId
from storage.log.record import KeyValue, LogRecord
from storage.status import records as to
from storage.status.fold import WriteBook, WriteTicket, admit, fold, forget, may_repeat
from storage.status.state import Restarts, Stall, Status, StatusState, TopicStatus
from tests.rigs.memory_log import MemoryTopic

CONNECTORS = st.sampled_from([ConnectorName("a"), ConnectorName("b-1")])
ITEMS = CONNECTORS | st.builds(ConnectorTaskId, CONNECTORS, st.integers(0, 2))
WORKERS = st.sampled_from([WorkerId("w1:1"), WorkerId("w2:1")])
STATUSES = st.builds(
    Status, ITEMS, st.sampled_from(State), WORKERS, st.integers(0, 3), st.none() | st.text(max_size=3), st.none(),
    st.none() | st.builds(Restarts, st.integers(0, 9), st.text(max_size=3), st.none() | st.integers(0, 2**47 - 1),
                          st.booleans()),
    st.none() | st.builds(Stall, st.integers(0, 2**47 - 1), st.text(max_size=3)),
)
TOPICS = st.builds(TopicStatus, st.sampled_from([TopicName("t"), TopicName("u")]), CONNECTORS, st.integers(0, 2),
                   st.integers(0, 9))
RECORDS = st.one_of(
    STATUSES.map(to.status_record),
    TOPICS.map(to.topic_record),
    TOPICS.map(lambda t: (to.topic_key(t.topic, t.connector), None)),
    st.tuples(st.sampled_from([b"status-task-a-0", b"status-connector-a", b"status-topic-t:connector-a", b"x"]),
              st.none() | st.binary(max_size=4)),
)


@given(STATUSES.filter(lambda s: s.state is not State.DESTROYED))
def test_a_status_is_read_as_it_was_written(status: Status) -> None:
    _, value = to.status_record(status)
    assert value is not None
    assert to.parse_status(status.id, value) == status
    assert (to.RESTARTS.encode() in value) is (status.restarts is not None)
    assert (to.STALLED.encode() in value) is (status.stalled is not None)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["count", "cause", "next", "permanent", "since", "what"]), inner, max_size=4))


@given(JSON, JSON)
@example({"count": 1, "cause": "c", "next": 2**62}, {"since": 2**62, "what": "w"})
@example({"count": 1, "cause": "c", "next": -1}, {"since": -1, "what": "w"})
def test_invalid_values_in_heelers_fields_do_not_invalidate_the_status(restarts: Any, stalled: Any) -> None:
    """Nor the REST response that shows it."""
    value = {"state": "RUNNING", "trace": None, "worker_id": "w", "generation": 1, to.RESTARTS: restarts,
             to.STALLED: stalled}
    status = to.parse_status(ConnectorName("a"), json.dumps(value).encode())
    assert status.state is State.RUNNING
    for moment in (status.restarts and status.restarts.next_ms, status.stalled and status.stalled.since_ms):
        assert moment is None or instant(moment).endswith("Z")


def at(pairs: list[KeyValue], first: int = 0) -> list[LogRecord]:
    return [LogRecord(0, first + n, 0, k, v) for n, (k, v) in enumerate(pairs)]


@given(st.lists(RECORDS, max_size=25), st.integers(0, 25))
def test_batches_yield_the_same_state_and_leave_old_snapshots_unchanged(pairs: list[KeyValue], cut: int) -> None:
    whole, removed = fold(StatusState(), at(pairs))
    first, removed_first = fold(StatusState(), at(pairs[:cut]))
    before = repr(first)
    second, removed_second = fold(first, at(pairs[cut:]))
    assert (second, removed_first + removed_second) == (whole, removed)
    assert repr(first) == before


def written(status: Status) -> list[KeyValue]:
    """The leader removes a connector's tasks with the connector."""
    if status.state is not State.DESTROYED or isinstance(status.id, ConnectorTaskId):
        return [to.status_record(status)]
    tasks = [(to.status_key(ConnectorTaskId(status.id, number)), None) for number in range(3)]
    return [*tasks, to.status_record(status)]


@given(st.lists(STATUSES.filter(lambda s: s.state is not State.UNASSIGNED).map(written)
                | TOPICS.map(lambda t: [to.topic_record(t)]), max_size=25))
def test_compaction_changes_nothing(units: list[list[KeyValue]]) -> None:
    # UNASSIGNED is left out: whether a reader ignored it depends on the records before it, in Kafka Connect too.
    topic = MemoryTopic("status")
    for unit in units:
        topic.append(unit)
    full = fold(StatusState(), topic.records())[0]
    topic.compact()
    assert fold(StatusState(), topic.records())[0] == full


class Writers(RuleBasedStateMachine):
    """One worker writes statuses of one task in growing generations; sends fail and are repeated at any later time."""

    def __init__(self) -> None:
        super().__init__()
        self.book = WriteBook()
        self.state = StatusState()
        self.failed: list[WriteTicket] = []
        self.written: list[Status] = []
        self.newest: Status | None = None
        self.generation = 1
        self.log: list[KeyValue] = []

    @rule(state=st.sampled_from([State.RUNNING, State.FAILED, State.PAUSED]), fails=st.booleans(), safe=st.booleans())
    def put(self, state: State, fails: bool, safe: bool) -> None:
        status = Status(ConnectorTaskId(ConnectorName("a"), 0), state, WorkerId("w:1"), self.generation)
        self.book, ticket = admit(self.book, self.state, status, safe=safe)
        if ticket is None:
            return
        self.newest = status
        if fails:
            self.failed.append(ticket)
        else:
            self._write(ticket)

    @rule()
    def rebalance(self) -> None:
        self.generation += 1

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        if self.failed:
            ticket = data.draw(st.sampled_from(self.failed))
            self.failed.remove(ticket)
            if may_repeat(self.book, self.state, ticket):
                self._write(ticket)

    @rule()
    def other_worker_takes_over(self) -> None:
        self.generation += 1
        other = Status(ConnectorTaskId(ConnectorName("a"), 0), State.RUNNING, WorkerId("x:1"), self.generation)
        self._append(to.status_record(other))

    @rule()
    def removed(self) -> None:
        self._append((to.status_key(ConnectorTaskId(ConnectorName("a"), 0)), None))
        self.newest = None

    def _write(self, ticket: WriteTicket) -> None:
        self.written.append(ticket.status)
        assert ticket.status is self.newest, "an older status was written after a newer one"
        self._append(to.status_record(ticket.status))

    def _append(self, record: KeyValue) -> None:
        self.log.append(record)
        self.state, gone = fold(self.state, at([record], len(self.log)))
        self.book = forget(self.book, gone)

    @invariant()
    def replay_equals_snapshot(self) -> None:
        assert fold(StatusState(), at(self.log))[0] == self.state


TestWriters = Writers.TestCase
