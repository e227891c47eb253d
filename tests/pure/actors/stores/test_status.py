"""The status store actor over a topic in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pykka
import pytest

from actors.messages.commands import DeleteTopicStatuses, FlushStatuses, PutStatus, PutTopicStatus, ReadStatuses
from actors.messages.events import StatusesFlushed, StatusesRead
from actors.messages.requests import Ask, ResetTopics
from spark_tasks.kafka.errors import KafkaAuthorizationError, KafkaTimedOutError, KafkaUnavailableError
from storage.ids import ConnectorName, ConnectorTaskId, State, TopicName, WorkerId
from storage.log.interface import SuspendedError, UnsentError
from storage.log.record import Position
from storage.status.records import status_record, topic_record
from storage.status.state import Status, TopicStatus
from tests.rigs.memory_log import MemoryTopic, MemoryTopicLog
from tests.rigs.stores import Rig, decide, running
from tests.rigs.support import wait_until

A = ConnectorName("a")
TASK = ConnectorTaskId(A, 0)
RUNNING = Status(TASK, State.RUNNING, WorkerId("me:1"), 1)
FAILED = replace(RUNNING, state=State.FAILED, trace="why")
ELSEWHERE = replace(RUNNING, worker_id=WorkerId("other:1"), generation=50)
TOPIC = TopicStatus(TopicName("t"), A, 0, 5)


@pytest.fixture
def rig() -> Iterator[Rig]:
    with running() as made:
        yield made


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic("statuses", partitions=3)


def flush(rig: Rig, ref: pykka.ActorRef[object]) -> None:
    op = rig.op()
    ref.tell(FlushStatuses(op))
    rig.done(op, StatusesFlushed)


def await_repetition(rig: Rig, ref: pykka.ActorRef[object], after_ms: int) -> None:
    """Wait until a write that has failed would have been repeated, and until what was written is read back."""
    passed = threading.Event()
    rig.ticker.set("later", rig.ticker.now_ms() + after_ms, passed.set)
    assert passed.wait(30)
    flush(rig, ref)


def test_nothing_is_visible_before_it_is_read_back(rig: Rig, topic: MemoryTopic) -> None:
    topic.append([status_record(Status(A, State.RUNNING, WorkerId("x:1"), 1))])
    log = MemoryTopicLog(topic)
    ref, view = rig.status_store(log)
    view.ready.result(10)
    assert list(view.statuses.connectors) == [A]
    log.hold()
    decide(ref, PutStatus(RUNNING, safe=False))
    flush(rig, ref)
    assert len(topic.records()) == 2
    assert view.statuses.tasks == {}
    log.release()
    wait_until(lambda: view.statuses.tasks == {A: {0: RUNNING}})


def test_safe_writes_do_not_replace_the_status_of_a_newer_worker(rig: Rig, topic: MemoryTopic) -> None:
    other = Status(TASK, State.RUNNING, WorkerId("other:1"), 2)
    topic.append([status_record(other)])
    ref, view = rig.status_store(MemoryTopicLog(topic))
    view.ready.result(10)
    decide(ref, PutStatus(replace(RUNNING, state=State.UNASSIGNED), safe=True))
    flush(rig, ref)
    assert len(topic.records()) == 1
    decide(ref, PutStatus(RUNNING, safe=False))
    wait_until(lambda: view.statuses.tasks == {A: {0: RUNNING}})


@pytest.mark.parametrize("refused", [[], [KafkaUnavailableError()], [KafkaUnavailableError(), KafkaUnavailableError()]])
def test_a_task_that_fails_before_its_start_is_read_back_is_shown_as_failed(
    rig: Rig, topic: MemoryTopic, refused: list[Exception]
) -> None:
    """Generations have begun again since another worker's status. It used to be shown as RUNNING for good."""
    topic.append([status_record(ELSEWHERE)])
    log, failures = MemoryTopicLog(topic), refused.copy()
    ref, view = rig.status_store(log)
    view.ready.result(10)
    topic.refuse = lambda _: failures.pop() if failures else None
    log.hold()
    decide(ref, PutStatus(RUNNING, safe=False))
    decide(ref, PutStatus(FAILED, safe=True))
    flush(rig, ref)
    log.release()
    wait_until(lambda: view.statuses.tasks == {A: {0: FAILED}})


@pytest.mark.parametrize("error", [KafkaAuthorizationError("statuses"), SuspendedError("was suspended")])
def test_a_failure_after_a_start_that_is_not_written_replaces_no_status_of_a_newer_worker(
    rig: Rig, topic: MemoryTopic, error: Exception
) -> None:
    topic.append([status_record(ELSEWHERE)])
    ref, view = rig.status_store(MemoryTopicLog(topic))
    view.ready.result(10)
    topic.refuse = lambda _: error
    decide(ref, PutStatus(RUNNING, safe=False))
    flush(rig, ref)
    topic.refuse = lambda _: None
    decide(ref, PutStatus(FAILED, safe=True))
    flush(rig, ref)
    assert len(topic.records()) == 1


def test_a_failure_that_is_repeated_does_not_replace_the_status_of_a_worker_that_has_taken_over(
    rig: Rig, topic: MemoryTopic
) -> None:
    """The successor was shown as failed while it ran, if the start of the predecessor had not been written either."""
    ref, view = rig.status_store(MemoryTopicLog(topic))
    view.ready.result(10)
    topic.refuse = lambda _: KafkaUnavailableError()
    decide(ref, PutStatus(RUNNING, safe=False))
    decide(ref, PutStatus(FAILED, safe=True))
    flush(rig, ref)
    topic.append([status_record(ELSEWHERE)])
    wait_until(lambda: view.statuses.tasks == {A: {0: ELSEWHERE}})
    topic.refuse = lambda _: None
    seen: list[int] = []
    rig.ticker.set("later", rig.ticker.now_ms() + 300, lambda: seen.append(1))
    wait_until(lambda: seen)
    flush(rig, ref)
    assert len(topic.records()) == 1


def test_a_failure_does_not_replace_the_status_of_a_worker_that_takes_over_before_its_start_is_written(
    rig: Rig, topic: MemoryTopic
) -> None:
    ref, view = rig.status_store(MemoryTopicLog(topic))
    view.ready.result(10)
    topic.refuse = lambda _: KafkaUnavailableError()
    decide(ref, PutStatus(RUNNING, safe=False))
    flush(rig, ref)
    topic.append([status_record(ELSEWHERE)])
    wait_until(lambda: view.statuses.tasks == {A: {0: ELSEWHERE}})
    decide(ref, PutStatus(FAILED, safe=True))
    flush(rig, ref)
    topic.refuse = lambda _: None
    seen: list[int] = []
    rig.ticker.set("later", rig.ticker.now_ms() + 300, lambda: seen.append(1))
    wait_until(lambda: seen)
    flush(rig, ref)
    assert status_record(FAILED)[1] not in [record.value for record in topic.records()]


def test_a_failure_does_not_replace_the_status_of_a_worker_that_has_taken_over(rig: Rig, topic: MemoryTopic) -> None:
    ref, view = rig.status_store(MemoryTopicLog(topic))
    decide(ref, PutStatus(RUNNING, safe=False))
    wait_until(lambda: view.statuses.tasks == {A: {0: RUNNING}})
    topic.append([status_record(ELSEWHERE)])
    wait_until(lambda: view.statuses.tasks == {A: {0: ELSEWHERE}})
    decide(ref, PutStatus(FAILED, safe=True))
    flush(rig, ref)
    assert len(topic.records()) == 2


def test_a_write_that_fails_temporarily_is_repeated(rig: Rig, topic: MemoryTopic) -> None:
    ref, view = rig.status_store(MemoryTopicLog(topic))
    failures = [KafkaUnavailableError(), KafkaTimedOutError(), KafkaUnavailableError()]
    topic.refuse = lambda _: failures.pop() if failures else None
    decide(ref, PutStatus(RUNNING, safe=False))
    flush(rig, ref)  # a failed send is no reason to hold a rebalance up
    wait_until(lambda: view.statuses.tasks == {A: {0: RUNNING}})
    assert failures == []


def test_a_status_from_before_a_suspension_is_not_repeated(
    rig: Rig, topic: MemoryTopic, caplog: pytest.LogCaptureFixture
) -> None:
    ref, view = rig.status_store(MemoryTopicLog(topic))
    failures: list[Exception] = [SuspendedError("was suspended"), UnsentError("beside it")]
    topic.refuse = lambda _: failures.pop(0) if failures else None
    decide(ref, PutStatus(RUNNING, safe=False))
    decide(ref, PutStatus(replace(RUNNING, id=A), safe=False))
    with caplog.at_level(logging.INFO):
        wait_until(lambda: A in view.statuses.connectors, what="the status beside it, which is repeated")
    assert view.statuses.tasks == {}
    assert "Did not write status-task-a-0 to the status topic: was suspended" in caplog.text


def test_a_superseded_write_is_not_repeated(rig: Rig, topic: MemoryTopic) -> None:
    ref, view = rig.status_store(MemoryTopicLog(topic))
    failures = [KafkaUnavailableError()]
    topic.refuse = lambda key: failures.pop() if failures and key == b"status-task-a-0" else None
    decide(ref, PutStatus(RUNNING, safe=False))
    decide(ref, PutStatus(FAILED, safe=False))
    wait_until(lambda: view.statuses.tasks == {A: {0: FAILED}})
    await_repetition(rig, ref, 300)
    assert [r.value for r in topic.records()] == [status_record(FAILED)[1]]


def test_a_write_for_something_removed_meanwhile_is_not_repeated(
    rig: Rig, topic: MemoryTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.stores.status.REPEAT_MS", 1000)
    ref, view = rig.status_store(MemoryTopicLog(topic))
    failures = [KafkaUnavailableError()]
    topic.refuse = lambda _: failures.pop() if failures else None
    decide(ref, PutStatus(RUNNING, safe=False))
    flush(rig, ref)
    topic.append([(b"status-task-a-0", None)])  # another worker, the leader, removes it
    await_repetition(rig, ref, 1300)
    assert view.statuses.tasks == {}
    assert len(topic.records()) == 1


class SlowLog(MemoryTopicLog):
    """Acknowledges when it is told to."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__(topic)
        self.pending: list[Future[Position]] = []

    def send(self, key: bytes, value: bytes | None, since: float | None = None) -> Future[Position]:  # noqa: ARG002
        self.pending.append(Future())
        return self.pending[-1]


def test_a_flush_waits_for_what_was_sent_before_it_only(rig: Rig, topic: MemoryTopic) -> None:
    log = SlowLog(topic)
    ref, _ = rig.status_store(log)
    first, second = rig.op(), rig.op()
    decide(ref, PutStatus(RUNNING, safe=False))
    ref.tell(FlushStatuses(first))
    decide(ref, PutStatus(FAILED, safe=False))
    ref.tell(FlushStatuses(second))
    wait_until(lambda: len(log.pending) == 2)
    assert rig.said == []
    log.pending[0].set_result(Position(0, 0))
    rig.done(first, StatusesFlushed)
    assert rig.said == [StatusesFlushed(first)]
    log.pending[1].set_exception(KafkaAuthorizationError("statuses"))
    rig.done(second, StatusesFlushed)


def test_a_read_to_the_end_completes_when_all_records_are_visible(rig: Rig, topic: MemoryTopic) -> None:
    log = MemoryTopicLog(topic)
    ref, view = rig.status_store(log)
    view.ready.result(10)
    topic.append([status_record(Status(A, State.RUNNING, WorkerId("other:1"), 3))])
    op = rig.op()
    ref.tell(ReadStatuses(op, 5000))
    assert rig.done(op, StatusesRead).error is None
    assert view.statuses.connectors[A].worker_id == "other:1"


def test_an_end_that_is_not_reached_in_time_is_an_error(rig: Rig, topic: MemoryTopic) -> None:
    # As after a truncation of the topic: the herder tries again, with the new end.
    log = MemoryTopicLog(topic)
    ref, view = rig.status_store(log)
    view.ready.result(10)
    log.hold()
    topic.append([status_record(Status(A, State.RUNNING, WorkerId("other:1"), 3))])
    late, again = rig.op(), rig.op()
    ref.tell(ReadStatuses(late, 20))
    assert isinstance(rig.done(late, StatusesRead).error, TimeoutError)
    log.release()
    ref.tell(ReadStatuses(again, 5000))
    assert rig.done(again, StatusesRead).error is None
    rig.catch_up(ref)
    assert [message.op for message in rig.said if isinstance(message, StatusesRead)] == [late, again]


def test_a_permanently_failing_write_is_dropped(rig: Rig, topic: MemoryTopic, caplog: pytest.LogCaptureFixture) -> None:
    ref, _ = rig.status_store(MemoryTopicLog(topic))
    topic.refuse = lambda _: KafkaAuthorizationError("statuses")
    decide(ref, PutStatus(RUNNING, safe=False))
    flush(rig, ref)
    assert "Failed to write status-task-a-0 to the status topic" in caplog.text


def test_topics_are_written_once(rig: Rig, topic: MemoryTopic) -> None:
    log = MemoryTopicLog(topic)
    ref, view = rig.status_store(log)
    view.ready.result(10)
    log.hold()
    for task in (0, 1):
        ref.tell(PutTopicStatus(replace(TOPIC, task=task)))
    flush(rig, ref)
    log.release()
    wait_until(lambda: view.statuses.topics == {A: {"t": TOPIC}})
    ref.tell(PutTopicStatus(TOPIC))
    flush(rig, ref)
    assert len(topic.records()) == 1
    ref.tell(DeleteTopicStatuses(A))
    wait_until(lambda: view.statuses.topics == {})
    ref.tell(PutTopicStatus(TOPIC))
    wait_until(lambda: view.statuses.topics == {A: {"t": TOPIC}})


def test_topics_are_reset_for_rest(rig: Rig, topic: MemoryTopic) -> None:
    topic.append([topic_record(TOPIC), topic_record(replace(TOPIC, topic=TopicName("u")))])
    ref, view = rig.status_store(MemoryTopicLog(topic))
    view.ready.result(10)
    reply = pykka.ThreadingFuture()
    ref.tell(Ask(ResetTopics(A), reply))
    assert reply.get(timeout=10) is None
    wait_until(lambda: view.statuses.topics == {})
    reply = pykka.ThreadingFuture()
    ref.tell(Ask(ResetTopics(ConnectorName("unknown")), reply))
    assert reply.get(timeout=10) is None


def test_two_workers_see_the_same_statuses(rig: Rig, topic: MemoryTopic) -> None:
    (one, view), (two, other) = rig.status_store(MemoryTopicLog(topic)), rig.status_store(MemoryTopicLog(topic))
    decide(one, PutStatus(RUNNING, safe=False))
    decide(two, PutStatus(replace(RUNNING, id=A), safe=False))
    wait_until(lambda: view.statuses == other.statuses and view.statuses.tasks and view.statuses.connectors)
    decide(one, PutStatus(replace(RUNNING, state=State.DESTROYED), safe=False))
    wait_until(lambda: other.statuses.tasks == {})
