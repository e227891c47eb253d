"""The rules of the status topic, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.ids import ConnectorName, ConnectorTaskId, State, TopicName, WorkerId
from storage.status import records as to
from storage.status.fold import WriteBook, WriteTicket, admit, fold, forget, may_repeat
from storage.status.state import Status, StatusState, TopicStatus
from tests.rigs.internal_records import log_of, raw

A = ConnectorName("a")
TASK = ConnectorTaskId(A, 0)
ME, OTHER = WorkerId("me:1"), WorkerId("other:1")


def connector(state: State = State.RUNNING, worker: WorkerId = ME, generation: int = 1) -> Status:
    return Status(A, state, worker, generation)


def task(state: State = State.RUNNING, worker: WorkerId = ME, generation: int = 1, number: int = 0) -> Status:
    return Status(ConnectorTaskId(A, number), state, worker, generation)


def read(*statuses: Status, state: StatusState | None = None) -> StatusState:
    return fold(state or StatusState(), log_of([to.status_record(s) for s in statuses]))[0]


def test_the_newest_record_counts() -> None:
    failed = replace(task(State.FAILED), trace="Traceback …", version="1.0")
    state = read(connector(), task(), failed)
    assert state.connectors == {A: connector()}
    assert state.tasks == {A: {0: failed}}


def test_destroyed_is_a_tombstone() -> None:
    assert to.status_record(task(State.DESTROYED)) == (b"status-task-a-0", None)
    assert to.status_record(connector(State.DESTROYED)) == (b"status-connector-a", None)


def test_a_tombstone_removes_a_connector_with_its_tasks() -> None:
    before = read(connector(), task(), task(number=1))
    state, removed = fold(before, log_of([to.status_record(task(State.DESTROYED, number=1))]))
    assert (state.tasks, removed) == ({A: {0: task()}}, (ConnectorTaskId(A, 1),))
    state, removed = fold(state, log_of([to.status_record(connector(State.DESTROYED))]))
    assert (state, removed) == (StatusState(), (A, TASK))
    assert before.tasks == {A: {0: task(), 1: task(number=1)}}  # an older snapshot stays as it is


def test_a_connector_may_be_deleted_and_created_again_within_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    topic, destroyed = to.topic_record(TopicStatus(TopicName("t"), A, 0, 1)), connector(State.DESTROYED)
    records = [to.status_record(task(number=1)), topic, to.status_record(destroyed), (topic[0], None),
               to.status_record(connector()), to.status_record(task()), to.status_record(task(State.DESTROYED)),
               to.status_record(task(generation=2)), topic]
    state, _ = fold(StatusState(), log_of(records))
    assert (state.connectors, state.tasks) == ({A: connector()}, {A: {0: task(generation=2)}})
    assert list(state.topics[A]) == ["t"]
    assert caplog.messages == [], "each of these records is known"


@pytest.mark.parametrize(
    ("current", "incoming", "ignored"),
    [
        (task(State.RUNNING, OTHER, 5), task(State.UNASSIGNED, ME, 4), True),
        (task(State.RUNNING, OTHER, 5), task(State.UNASSIGNED, ME, 5), True),
        (task(State.RUNNING, OTHER, 5), task(State.UNASSIGNED, ME, 6), False),
        (task(State.RUNNING, ME, 5), task(State.UNASSIGNED, ME, 5), False),
        (task(State.RUNNING, ME, 5), task(State.UNASSIGNED, ME, -1), False),
        (task(State.PAUSED, OTHER, 5), task(State.UNASSIGNED, ME, 4), True),
        (task(State.PAUSED, OTHER, 5), task(State.FAILED, ME, -1), True),
        (task(State.PAUSED, OTHER, -1), task(State.FAILED, ME, -1), False),
        (connector(State.RUNNING, OTHER, 5), connector(State.FAILED, ME, -1), True),
        (connector(State.RUNNING, ME, 5), connector(State.FAILED, ME, -1), False),
        (task(State.RUNNING, OTHER, 5), task(State.FAILED, ME, 4), False),
        (task(State.RUNNING, OTHER, 5), task(State.FAILED, ME, 0), False),
        (task(State.PAUSED, OTHER, 5), task(State.UNASSIGNED, ME, 5), False),
        (connector(State.RUNNING, OTHER, 5), connector(State.UNASSIGNED, ME, 4), True),
    ],
)
def test_a_late_unassigned_does_not_hide_a_running_task(current: Status, incoming: Status, ignored: bool) -> None:
    wanted = current if ignored else incoming
    assert read(current, incoming) == read(wanted)


def test_topics_are_kept_by_connector() -> None:
    topic = TopicStatus(TopicName("t"), A, 3, 1_700_000_000_000)
    odd = ConnectorName("x:connector-y")  # a colon in a connector's name is not a separator
    other = TopicStatus(TopicName("t"), odd, 0, 1)
    state, _ = fold(StatusState(), log_of([to.topic_record(topic), to.topic_record(other)]))
    assert state.topics == {A: {"t": topic}, odd: {"t": other}}
    gone, removed = fold(state, log_of([(to.topic_key(TopicName("t"), A), None)]))
    assert (gone.topics, removed) == ({odd: {"t": other}}, ())
    assert A in state.topics


def test_keys_that_are_not_utf_8_are_decoded_as_by_java() -> None:
    state, _ = fold(StatusState(), log_of([(b"status-connector-\xff", to.status_record(connector())[1])]))
    assert list(state.connectors) == ["\ufffd"]


@pytest.mark.parametrize(
    "key",
    ["", "x", "status-", "status-connector-", "status-task-", "status-task-a", "status-task-a-", "status-task-a-x",
     "status-task-a-1.0", "status-task-a-99999999999", "status-topic-", "status-topic-t", "status-topic-:connector-a",
     "status-topic-t:connector-", "status-topic-t:", "status-topic-t:con"],
)
@pytest.mark.parametrize("value", [None, {"state": "RUNNING", "worker_id": "w", "generation": 1, "trace": None}])
def test_malformed_keys_are_discarded(key: str, value: object, caplog: pytest.LogCaptureFixture) -> None:
    before = read(connector(), task())
    assert fold(before, log_of([raw(key, value)])) == (before, ())
    [reported] = caplog.messages
    assert reported.endswith(": unknown kind of key")


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"null", b"5", {}, {"state": "RUNNING"}, {"state": "NAPPING", "generation": 1},
     {"state": None, "generation": 1}, {"state": ["RUNNING"], "generation": 1}, {"state": "RUNNING", "generation": "1"},
     {"state": "RUNNING", "generation": 1.0}, {"state": "RUNNING", "generation": True},
     {"state": "RUNNING", "generation": 1, "trace": 5}, {"topic": 1}, {"topic": {"name": "t", "connector": "a"}},
     {"topic": {"name": "t", "connector": "a", "task": "0", "discoverTimestamp": 1}}],
)
@pytest.mark.parametrize("key", ["status-connector-a", "status-task-a-0", "status-topic-t:connector-a"])
def test_malformed_values_are_discarded(key: str, value: object) -> None:
    before = read(connector(), task())
    assert fold(before, log_of([raw(key, value), (b"", None)])) == (before, ())


# ---------------------------------------------------------------- writing
def ticket_for(book: WriteBook, state: StatusState, status: Status, *, safe: bool) -> tuple[WriteBook, WriteTicket]:
    book, ticket = admit(book, state, status, safe=safe)
    assert ticket is not None
    return book, ticket


@pytest.mark.parametrize(
    ("current", "mine", "allowed"),
    [
        (None, task(State.UNASSIGNED), False),  # the item is gone: nothing to take back
        (None, task(State.FAILED), True),
        (task(worker=ME, generation=9), task(State.UNASSIGNED, ME, 1), True),
        (task(worker=OTHER, generation=1), task(State.UNASSIGNED, ME, 1), True),
        (task(worker=OTHER, generation=2), task(State.UNASSIGNED, ME, 1), False),
        (connector(worker=OTHER, generation=2), connector(State.UNASSIGNED, ME, 1), False),
        (connector(worker=OTHER, generation=2), connector(State.FAILED, ME, 1), False),
        (connector(worker=ME, generation=9), connector(State.UNASSIGNED, ME, 1), True),
    ],
)
def test_safe_writes_do_not_overwrite_a_newer_workers(current: Status | None, mine: Status, allowed: bool) -> None:
    state = read(*([current] if current is not None else []))
    book, ticket = admit(WriteBook(), state, mine, safe=True)
    assert (ticket is not None) is allowed
    assert book.generation == 1
    assert admit(WriteBook(), state, mine, safe=False)[1] is not None


def test_what_this_worker_has_written_itself_may_be_taken_back_before_it_is_read() -> None:
    book, _ = ticket_for(WriteBook(), read(), task(), safe=False)
    assert admit(book, read(), task(State.UNASSIGNED), safe=True)[1] is not None


def test_a_failed_write_is_repeated_while_nothing_is_newer() -> None:
    state = read()
    book, ticket = ticket_for(WriteBook(), state, task(), safe=False)
    assert may_repeat(book, state, ticket)
    # Another item's status changes nothing.
    book, _ = ticket_for(book, state, connector(), safe=False)
    assert may_repeat(book, state, ticket)
    newer, _ = ticket_for(book, state, task(State.FAILED), safe=True)
    assert not may_repeat(newer, state, ticket)
    later, _ = ticket_for(book, state, task(generation=2, number=7), safe=False)
    assert not may_repeat(later, state, ticket)
    assert not may_repeat(forget(book, [TASK]), state, ticket)
    assert forget(book, [ConnectorTaskId(A, 99)]) is book


def test_a_write_after_a_tombstone_is_another_one() -> None:
    book, old = ticket_for(WriteBook(), read(), task(), safe=False)
    book, new = ticket_for(forget(book, [TASK]), read(), task(), safe=False)
    assert not may_repeat(book, read(), old)
    assert may_repeat(book, read(), new)


def test_nothing_is_remembered_of_what_is_removed() -> None:
    """Connectors that exist for a moment would take memory for as long as the worker runs."""
    book, _ = ticket_for(WriteBook(), read(), task(), safe=False)
    assert forget(book, [TASK]).last == {}


def test_a_safe_write_is_not_repeated_after_a_newer_workers_write() -> None:
    before = read(task(State.RUNNING))
    book, safe = ticket_for(WriteBook(), before, task(State.UNASSIGNED), safe=True)
    taken_over = read(task(State.RUNNING, OTHER, 2))
    assert may_repeat(book, before, safe)
    assert not may_repeat(book, taken_over, safe)
    book, plain = ticket_for(WriteBook(), read(), task(State.RUNNING), safe=False)
    assert may_repeat(book, taken_over, plain)
