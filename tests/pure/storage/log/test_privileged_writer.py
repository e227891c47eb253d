"""The leader's writer, with a producer in memory."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import TopicAuthorizationFailedError

from spark_tasks.kafka import topic_producer
from storage.errors import PrivilegedWriteError
from storage.log.privileged_writer import KafkaPrivilegedWriter
from storage.log.record import Position
from tests.rigs.support import no_thread


class Producer:
    """The one of kafka-python; it reaches Kafka when a test lets it."""

    made: list[Producer] = []  # noqa: RUF012
    reached = threading.Event()

    def __init__(self, **_: Any) -> None:
        self.closed = False
        self.daemon = threading.current_thread().daemon
        Producer.made.append(self)

    def init_transactions(self) -> None:
        Producer.reached.wait(20)

    def begin_transaction(self) -> None: ...

    commit_transaction = begin_transaction

    def send(self, _topic: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(get=lambda timeout: SimpleNamespace(partition=0, offset=7))  # noqa: ARG005

    def close(self, timeout: float) -> None:  # noqa: ARG002
        self.closed = True


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> KafkaPrivilegedWriter:
    monkeypatch.setattr(topic_producer, "KafkaProducer", Producer)
    monkeypatch.setattr(Producer, "made", [])
    monkeypatch.setattr(Producer, "reached", threading.Event())
    return KafkaPrivilegedWriter("configs", {}, transactional_id="t", client_id="c")


def test_without_a_thread_a_write_fails_and_the_next_one_works(
    writer: KafkaPrivilegedWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error would end the config store's actor, and so the worker."""
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for failed in (writer.claim(), writer.write([(b"k", b"v")])):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                failed.result(0)
        writer.release()
    Producer.reached.set()
    writer.claim().result(20)
    assert writer.write([(b"k", b"v")]).result(20) == [Position(0, 7)]


def test_the_end_of_the_process_does_not_wait_for_kafka(writer: KafkaPrivilegedWriter) -> None:
    """At its end Python waits for all threads that are not daemons."""
    claimed = writer.claim()
    writer.close()
    Producer.reached.set()
    claimed.result(20)
    (producer,) = Producer.made
    assert producer.daemon


def test_what_was_asked_before_the_close_is_done_and_nothing_after_it(writer: KafkaPrivilegedWriter) -> None:
    claimed, written = writer.claim(), writer.write([(b"k", b"v")])
    writer.close()
    late = writer.claim()
    Producer.reached.set()
    claimed.result(20)
    assert written.result(20) == [Position(0, 7)]
    with pytest.raises(CancelledError):
        late.result(20)
    with pytest.raises(CancelledError):
        writer.claim().result(20)
    (producer,) = Producer.made
    assert producer.closed


def test_a_writer_that_was_released_has_to_claim_again(writer: KafkaPrivilegedWriter) -> None:
    Producer.reached.set()
    writer.claim().result(20)
    writer.release()
    with pytest.raises(PrivilegedWriteError, match="without claiming"):
        writer.write([(b"k", b"v")]).result(20)
    assert [producer.closed for producer in Producer.made] == [True]


def test_a_write_without_permission_fails_at_once_and_names_it(
    writer: KafkaPrivilegedWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of kafka-python would wait in vain for as long as it may."""

    def refused(timeout: float) -> None:
        raise TopicAuthorizationFailedError({"configs"})

    def commit(_: Producer) -> None:
        pytest.fail("committed")

    monkeypatch.setattr(Producer, "send", lambda *_, **__: SimpleNamespace(get=refused))
    monkeypatch.setattr(Producer, "commit_transaction", commit)
    Producer.reached.set()
    writer.claim().result(20)
    with pytest.raises(PrivilegedWriteError, match=r"topic configs: .* needs WRITE permission on the topic"):
        writer.write([(b"k", b"v")]).result(20)
