"""What a log over Kafka keeps in memory if Kafka does not respond."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, UnknownTopicOrPartitionError

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.errors import KafkaTimedOutError, UnknownTopicError
from storage.daemon_pool import DaemonPool
from storage.log.topic_log import KafkaTopicLog
from tests.rigs.support import no_thread, wait_until


class UnconnectedProducer:
    """Connects, and never hears of the topic."""

    made: list[UnconnectedProducer]

    def __init__(self, **_: Any) -> None:
        self.closed = False
        self.made.append(self)

    def partitions_for(self, topic: str) -> None:
        raise KafkaTimeoutError(topic)

    def send(self, topic: str, **_: Any) -> None:
        raise KafkaTimeoutError(topic)

    def close(self, **_: Any) -> None:
        self.closed = True


def test_failed_sends_share_one_producer_which_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_tasks.kafka.topic_producer.KafkaProducer", UnconnectedProducer)
    monkeypatch.setattr(UnconnectedProducer, "made", [], raising=False)
    log = KafkaTopicLog("t", {"bootstrap_servers": ["127.0.0.1:1"]}, nullcontext(), client_id="test")
    for _ in range(3):
        with pytest.raises(KafkaTimedOutError):
            log.send(b"k", b"v").result(0)
    log.stop()
    assert [producer.closed for producer in UnconnectedProducer.made] == [True]


class SlowProducer(UnconnectedProducer):
    """Connects when `reached` is set."""

    begun, reached = threading.Event(), threading.Event()

    def __init__(self, **settings: Any) -> None:
        self.begun.set()
        assert self.reached.wait(20)
        super().__init__(**settings)


def test_a_log_stops_while_its_producer_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """That can take as long as Kafka does not respond. The producer is closed once it has connected."""
    monkeypatch.setattr("spark_tasks.kafka.topic_producer.KafkaProducer", SlowProducer)
    monkeypatch.setattr(UnconnectedProducer, "made", [], raising=False)
    log = KafkaTopicLog("t", {"bootstrap_servers": ["127.0.0.1:1"]}, nullcontext(), client_id="test")
    sent = in_thread(lambda: log.send(b"k", b"v").result(0))
    assert SlowProducer.begun.wait(20)
    in_thread(log.stop).result(20)
    SlowProducer.reached.set()
    with pytest.raises(ConnectError, match="is closed or read-only"):
        sent.result(20)
    assert [producer.closed for producer in SlowProducer.made] == [True]


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    return DaemonPool(1, "test").submit(work)


class IdleConsumer:
    """Of an empty topic; its poll lasts until it is closed."""

    def __init__(self, **_: Any) -> None:
        self.closed = threading.Event()

    def partitions_for_topic(self, _topic: str) -> set[int]:
        return {0}

    def assign(self, _partitions: Any) -> None:
        pass

    def seek(self, _partition: Any, _offset: int) -> None:
        pass

    def poll(self, *_: Any, **__: Any) -> dict[Any, Any]:
        self.closed.wait(20)
        return {}

    def close(self, **_: Any) -> None:
        self.closed.set()


class Admin:
    """Says that all partitions begin and end at 0, and does as `answer` does once that is set."""

    answer: Callable[[], Any] | None = None
    ignorant = 0  # so often it asks a broker that does not know the topic yet

    def list_partition_offsets(self, wanted: Any, _isolation: str) -> dict[Any, Any]:
        self.ignorant -= 1
        if self.ignorant >= 0:
            raise UnknownTopicOrPartitionError
        return dict.fromkeys(wanted, SimpleNamespace(offset=0)) if self.answer is None else self.answer()


@pytest.fixture
def admin() -> Admin:
    return Admin()


@pytest.fixture
def log(admin: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaTopicLog]:
    """A log that reads."""
    monkeypatch.setattr("spark_tasks.kafka.topic_reader.KafkaConsumer", IdleConsumer)
    monkeypatch.setattr("spark_tasks.kafka.topic_reader.mark_ends", lambda *_: None)
    log = KafkaTopicLog("t", {}, nullcontext(KafkaAdmin(admin)), client_id="test", writable=False)
    log.start(lambda _: None, lambda _: None).result(10)
    yield log
    log.stop()


@pytest.mark.parametrize("ignorant", [1, 2, 3])
def test_start_waits_until_all_brokers_know_the_topic(
    admin: Any, monkeypatch: pytest.MonkeyPatch, ignorant: int
) -> None:
    """One broker has returned its partitions, another one is asked for their offsets."""
    monkeypatch.setattr("spark_tasks.kafka.topic_reader.KafkaConsumer", IdleConsumer)
    monkeypatch.setattr("spark_tasks.kafka.topic_reader.mark_ends", lambda *_: None)
    admin.ignorant = ignorant
    log = KafkaTopicLog("t", {}, nullcontext(KafkaAdmin(admin)), client_id="test", writable=False)
    log.start(lambda _: None, lambda _: None).result(10)
    log.stop()
    monkeypatch.setattr("storage.log.topic_log.TOPIC_WAIT_S", 0.0)
    admin.ignorant = 10
    log = KafkaTopicLog("t", {}, nullcontext(KafkaAdmin(admin)), client_id="test", writable=False)
    with pytest.raises(UnknownTopicError):
        log.start(lambda _: None, lambda _: None).result(10)
    log.stop()


def test_readers_to_the_end_are_notified_when_the_log_is_stopped(log: KafkaTopicLog, admin: Admin) -> None:
    asking, stopped = threading.Event(), threading.Event()

    def no_answer() -> None:
        assert threading.current_thread().daemon, "the process could not end before Kafka answers"
        asking.set()
        stopped.wait(10)
        raise KafkaConnectionError

    admin.answer = no_answer
    under_way, waiting = log.read_to_end(), log.read_to_end()
    assert asking.wait(10)
    log.stop()
    for future in (waiting, log.read_to_end()):
        with pytest.raises(CancelledError):
            future.result(0)
    stopped.set()
    with pytest.raises(CancelledError):
        under_way.result(10)


def test_without_a_thread_a_log_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector's own offsets topic, for example, which is opened by the store's actor."""
    log = KafkaTopicLog("t", {}, nullcontext(), client_id="test")
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        log.start(lambda _: None, lambda _: None).result(0)
    log.stop()


def test_without_a_thread_reading_to_the_end_fails_once(log: KafkaTopicLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error would end the store's actor, and so the worker."""
    log.read_to_end().result(10)
    wait_until(lambda: not any(t.name == "log-ends-t" for t in threading.enumerate()), 10, "the pool's thread to end")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        failed = log.read_to_end()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        failed.result(0)
    log.read_to_end().result(10)


def test_a_defect_reaches_readers_to_the_end(log: KafkaTopicLog, admin: Admin) -> None:
    log.read_to_end().result(10)
    admin.answer = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        log.read_to_end().result(10)
