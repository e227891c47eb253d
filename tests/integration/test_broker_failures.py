"""A broker that is killed, restarted and suspended: all kinds of clients continue by themselves, once it is back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConnectionError
from kafka.protocol.producer import ProduceRequest

from actors.messages.events import CoordinatorLost
from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.fetch import read_range
from storage.log.record import LogRecord
from storage.log.topic_log import KafkaTopicLog
from tests.rigs.group_herder import FakeHerder, settled
from tests.rigs.support import BACK_SOON, wait_until
from tests.rigs.suspended_broker import suspended
from tests.rigs.task_rigs import SinkRig, SourceRig

pytestmark = pytest.mark.integration

ROWS = 5_000
BATCHES = 100


@pytest.fixture(scope="module")
def one_for_all() -> Iterator[EmbeddedBroker]:
    """A broker of this file's own. To start one takes seconds of CPU time."""
    with EmbeddedBroker(quick=True, settings={"group.min.session.timeout.ms": "500", **BACK_SOON}) as running:
        yield running


@pytest.fixture
def fragile_broker(one_for_all: EmbeddedBroker) -> EmbeddedBroker:
    """It runs, even if the last test failed while it was stopped."""
    one_for_all.start()
    return one_for_all


@pytest.fixture
def worker(fragile_broker: EmbeddedBroker, topic_name: str) -> Iterator[FakeHerder]:
    herder = FakeHerder(
        fragile_broker.bootstrap_servers, topic_name, "w1", session_timeout_ms=2000, heartbeat_interval_ms=600
    ).join()
    yield herder
    herder.member.stop()


@pytest.fixture
def notes(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a folder for the notes of one rig."""

    def made(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return made


def test_members_of_groups_join_after_a_broker_restart(
    fragile_broker: EmbeddedBroker, worker: FakeHerder, topic_name: str
) -> None:
    """One has been a member before, the other one is started while there is no broker."""
    worker.joined(30)
    fragile_broker.stop(graceful=False)
    assert worker.next(CoordinatorLost).reason
    early = FakeHerder(fragile_broker.bootstrap_servers, f"{topic_name}-early", "early").join()
    try:
        assert worker.events.empty(), "told once"
        assert early.events.empty()
        fragile_broker.start()
        worker.joined(30)
        assert settled(worker)
        early.joined(30)
    finally:
        fragile_broker.start()
        early.member.stop()


def test_a_hanging_broker_is_reported_as_a_lost_coordinator(fragile_broker: EmbeddedBroker, worker: FakeHerder) -> None:
    worker.joined(30)
    with suspended(fragile_broker):
        assert worker.next(CoordinatorLost).reason, "told while it hangs"
    wait_until(lambda: settled(worker), 30, "a member again")


def test_stopping_a_member_without_a_broker_is_quick(fragile_broker: EmbeddedBroker, worker: FakeHerder) -> None:
    worker.joined(30)
    with suspended(fragile_broker):
        worker.member.stop(timeout=15)  # far below the time for which a client waits for a broker


def test_tasks_wait_for_an_unavailable_broker(
    fragile_broker: EmbeddedBroker, notes: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A source, a sink, and a sink that starts while there is no broker."""
    servers = fragile_broker.bootstrap_servers
    source, sink = SourceRig(servers, notes("source")), SinkRig(servers, notes("sink"))
    try:
        source.make_topic(1)
        source.limit(10)
        reading = source.start()
        sink.produce(10)
        writing = sink.start()
        reading.await_records(10)
        writing.await_records(10)
        fragile_broker.stop(graceful=False)
        late = sink.start(1)
        source.limit(20)
        runs = reading.runs
        wait_until(lambda: reading.runs > runs + 1, what="the source to have missed the broker")
        wait_until(lambda: "bootstrap-0 not ready" in caplog.text, what="a client to have missed the broker")
        fragile_broker.start()
        sink.produce(10, start=10)
        reading.await_records(20, within=40)
        assert source.records() == {0: [f"0:{n}" for n in range(20)]}
        wait_until(lambda: len(set(sink.values())) == 20, 40, "the rest")
        assert (reading.error, writing.error, late.error) == (None, None, None)
    finally:
        source.close()
        sink.close()


def test_sends_and_reads_of_internal_topics_continue_after_a_broker_restart(
    fragile_broker: EmbeddedBroker, topic_name: str
) -> None:
    clients, seen = {"bootstrap_servers": fragile_broker.bootstrap_servers}, list[LogRecord]()
    admin = KafkaAdminClient(**clients)
    options = {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}
    admin.create_topics({topic_name: options}, wait_for_metadata=True)
    log = KafkaTopicLog(topic_name, clients, closing(KafkaAdmin(admin)), client_id="test")
    log.start(seen.extend, lambda _: None).result(30)
    try:
        log.read_past([log.send(b"a", b"1").result(30)]).result(30)
        fragile_broker.stop()
        sent, end = log.send(b"b", b"2"), log.read_to_end(timeout=60)
        assert not sent.done()
        fragile_broker.start()
        log.read_past([sent.result(30)]).result(30)
        end.result(30)
        log.read_past([log.send(b"c", b"3").result(30)]).result(30)
        assert [record.key for record in seen] == [b"a", b"b", b"c"]
        wait_until(lambda: log.read_to_end().result(30) is None)
    finally:
        log.stop()


def raw(number: int) -> pa.RecordBatch:
    rows = [
        {"offset": 0, "timestamp": -1, "key": None, "value": b"%09d" % (number * ROWS + row) * 5, "headers": None}
        for row in range(ROWS)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


def test_batches_that_a_restarted_broker_has_forgotten_are_appended_once(
    fragile_broker: EmbeddedBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart, a broker knows only the last batch of a producer, and rejects those before it as out of order:
    here all batches of three requests, whose responses are lost.
    """
    cluster = KafkaCluster(client_settings({"bootstrap.servers": fragile_broker.bootstrap_servers}))
    appender = Appender(cluster, cluster.init_producer_id(), max_batch_bytes=20_000)
    appender.append(topic_name, 0, raw(0).slice(0, 1))
    appender.flush()
    send, lost, restarted = cluster.io.send, threading.Semaphore(0), threading.Event()

    async def send_and_lose(request: Any, node: Any, **options: Any) -> Any:
        if isinstance(request, ProduceRequest) and not restarted.is_set():
            await send(request, node, **options)
            lost.release()
            while not restarted.is_set():
                await cluster.io.sleep(50)
            raise KafkaConnectionError("the broker was restarted")
        return await send(request, node, **options)

    monkeypatch.setattr(cluster.io, "send", send_and_lose)
    appender.append(topic_name, 0, raw(1))
    for _ in range(3):
        assert lost.acquire(timeout=30)
    fragile_broker.stop(graceful=False)
    fragile_broker.start()
    restarted.set()
    appender.flush()
    assert cluster.offsets([(topic_name, 0)]) == {(topic_name, 0): ROWS + 1} == appender.sequences
    cluster.close()


def test_appending_and_reading_continue_after_a_crash(fragile_broker: EmbeddedBroker, topic_name: str) -> None:
    """Every record is read once, in order."""
    cluster = KafkaCluster(client_settings({"bootstrap.servers": fragile_broker.bootstrap_servers}))
    appender = Appender(cluster, cluster.init_producer_id(), max_batch_bytes=20_000)
    begun, templates = threading.Event(), [raw(number) for number in range(10)]

    def crash() -> None:
        begun.wait(60)
        fragile_broker.stop(graceful=False)
        fragile_broker.start()

    crasher = threading.Thread(target=crash)
    crasher.start()
    for number in range(BATCHES):
        appender.append(topic_name, 0, templates[number % 10])
        if number == BATCHES // 10:
            begun.set()
    appender.flush()
    crasher.join()
    total = ROWS * BATCHES
    assert cluster.offsets([(topic_name, 0)]) == {(topic_name, 0): total}
    assert appender.sequences == {(topic_name, 0): total}

    begun.clear()
    crasher = threading.Thread(target=crash)
    crasher.start()
    position = 0
    for batch in read_range(cluster, topic_name, 0, 0, total, fetch_bytes=500_000):
        values = batch.column("value").to_pylist()
        expected = [b"%09d" % ((position + n) % (ROWS * 10)) * 5 for n in range(len(values))]
        assert values == expected
        position += len(values)
        begun.set()
    crasher.join()
    assert position == total
    cluster.close()
