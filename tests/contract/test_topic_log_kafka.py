"""What only a real broker can test: aborted transactions, compaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient

from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.kafka.admin import KafkaAdmin
from storage.ids import ConnectorName
from storage.log.interface import SuspendedError
from storage.log.record import LogRecord
from storage.log.topic_log import KafkaTopicLog
from storage.offsets.stores import OffsetStores, OffsetTopic
from tests.rigs.support import Sleeper, wait_until

pytestmark = pytest.mark.integration
WAIT = 30


class Topic:
    def __init__(self, servers: str, name: str, **configs: str) -> None:
        self.name, self.clients = name, {"bootstrap_servers": servers}
        self.admin = KafkaAdminClient(**self.clients)
        options = {"num_partitions": 1, "configs": {"cleanup.policy": "compact", **configs}}
        self.admin.create_topics({name: options}, wait_for_metadata=True)
        self.logs: list[KafkaTopicLog] = []

    def log(
        self, on_error: Callable[[Exception], None] = lambda _: None, **more: Any
    ) -> tuple[KafkaTopicLog, list[LogRecord]]:
        log = KafkaTopicLog(self.name, self.clients, nullcontext(KafkaAdmin(self)), client_id="test", **more)
        self.logs.append(log)
        records: list[LogRecord] = []
        log.start(records.extend, on_error).result(WAIT)
        return log, records

    def list_partition_offsets(self, *arguments: Any) -> Any:
        """As the log's admin client: what `admin` is now."""
        return self.admin.list_partition_offsets(*arguments)

    def close(self) -> None:
        for log in self.logs:
            log.stop()
        self.admin.close()


@pytest.fixture
def topic(broker: Any, topic_name: str) -> Iterator[Topic]:
    made = Topic(broker.bootstrap_servers, topic_name)
    yield made
    made.close()


class Consumer(KafkaConsumer):  # type: ignore[misc]
    """`made` has all of them; one with a `defect` raises it once."""

    made: list[Consumer]
    defect: Exception | None = None

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.made.append(self)

    def poll(self, *arguments: Any, **options: Any) -> Any:
        found = super().poll(*arguments, **options)
        if self.defect is not None:
            raise self.defect
        return found


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    """Those that logs make."""
    monkeypatch.setattr("spark_tasks.kafka.topic_reader.KafkaConsumer", Consumer)
    monkeypatch.setattr(Consumer, "made", [], raising=False)
    return Consumer.made


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    return Sleeper(monkeypatch, "storage.log.freshness")


@pytest.mark.parametrize("noticed_by", ["the log", "the pulse"])
def test_after_a_suspension_records_are_sent_at_once_unless_decided_on_before(
    topic: Topic, sleeper: Sleeper, noticed_by: str
) -> None:
    log, seen = topic.log(session_s=60.0)
    assert log.send(b"a", b"1").result(WAIT)
    before = time.monotonic()
    sleeper.wake()
    if noticed_by == "the pulse":
        sleeper.pulse.beat()
    assert log.send(b"b", b"2").result(WAIT)
    with pytest.raises(SuspendedError, match=r"was suspended for 30\d\.\d s"):
        log.send(b"a", b"late", before).result(WAIT)
    assert log.send(b"c", b"3", time.monotonic()).result(WAIT)
    log.read_to_end().result(WAIT)
    assert [(r.key, r.value) for r in seen] == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


def test_a_record_in_a_batch_with_one_from_before_a_suspension_may_be_repeated(topic: Topic, sleeper: Sleeper) -> None:
    log, _ = topic.log(session_s=60.0, producer={"linger_ms": 1000})
    late = log.send(b"a", b"late")
    sleeper.wake()
    sleeper.pulse.beat()
    fresh = log.send(b"b", b"2")
    with pytest.raises(SuspendedError):
        late.result(WAIT)
    assert isinstance(fresh.exception(WAIT), RetriableError)
    assert log.send(b"b", b"2").result(WAIT)


def test_records_queued_before_a_suspension_are_not_sent(topic: Topic, sleeper: Sleeper) -> None:
    log, seen = topic.log(session_s=60.0, producer={"linger_ms": 1000})
    late = log.send(b"a", b"late")
    sleeper.wake()
    sleeper.pulse.beat()
    with pytest.raises(SuspendedError):
        late.result(WAIT)
    assert log.send(b"b", b"2").result(WAIT)
    log.read_to_end().result(WAIT)
    assert [(r.key, r.value) for r in seen] == [(b"b", b"2")]


def test_offsets_from_before_a_suspension_are_not_written(topic: Topic, sleeper: Sleeper) -> None:
    log, seen = topic.log(session_s=60.0, producer={"linger_ms": 1000})
    stores = OffsetStores(OffsetTopic(log), lambda _: log)
    store = stores.of(ConnectorName("c"))
    store.read()
    sleeper.wake()
    sleeper.pulse.beat()
    offsets = [({"file": "a"}, {"position": 1})]
    with pytest.raises(RetriableError, match="was suspended for"):
        store.begin_write(offsets)()
    store.read()
    store.begin_write(offsets)()
    log.read_to_end().result(WAIT)
    assert len(seen) == 1


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_except_those_that_are_too_large(topic: Topic, compression: str) -> None:
    """A Java worker with producer.compression.type writes such records. One that is too large is skipped; no worker
    ends.
    """
    producer = Producer({**{k.replace("_", "."): v for k, v in topic.clients.items()},
                         "compression.type": compression, "message.max.bytes": 200_000_000})
    log, seen = topic.log()
    for value in (b"1", bytes(101_000_000), b"2"):
        producer.produce(topic.name, value, b"k")
        producer.flush(60)
    log.read_to_end().result(WAIT)
    found = [r.value for r in seen]
    assert found == [b"1", b"2"]


def test_read_to_end_completes_after_an_aborted_transaction(topic: Topic) -> None:
    committed, seen = topic.log(read_committed=True)
    plain, all_seen = topic.log()
    producer = KafkaProducer(**topic.clients, transactional_id=topic.name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic.name, key=b"a", value=b"1").get(WAIT)
    waiting = committed.read_to_end()
    plain.read_to_end().result(WAIT)
    assert [r.key for r in all_seen] == [b"a"]
    assert not waiting.done()  # the end as of now is in an open transaction
    started, none = topic.log(read_committed=True)
    assert none == []
    assert not started.read_to_end().done()
    producer.abort_transaction()
    producer.close()
    waiting.result(WAIT)  # without a next record
    committed.read_to_end().result(WAIT)
    assert seen == []
    late, late_seen = topic.log(read_committed=True)
    late.read_to_end().result(WAIT)
    assert late_seen == []


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_batches_written_by_another_producer_are_read(topic: Topic, compression: str | None) -> None:
    log, seen = topic.log()
    producer = KafkaProducer(**topic.clients, compression_type=compression, linger_ms=50)
    for n in range(300):
        producer.send(topic.name, key=b"%d" % n, value=b"x" * 100, headers=[("h", b"v")])
    producer.flush()
    producer.close()
    log.read_to_end().result(WAIT)
    assert [r.key for r in seen] == [b"%d" % n for n in range(300)]
    assert seen[0].timestamp > 1_600_000_000_000


class Name(str):
    """The name of a header as clients of other languages may write it, and as brokers accept it."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_record_with_a_header_whose_name_is_not_utf_8_is_read(topic: Topic, compression: str | None) -> None:
    """Nothing behind it could be read, by any worker of the group, until the topic was deleted."""
    producer = KafkaProducer(**topic.clients, compression_type=compression)
    for n in range(3):
        producer.send(topic.name, key=b"%d" % n, value=b"x", headers=[(Name("h"), b"v")] if n == 1 else [])
        producer.flush()
    producer.close()
    log, seen = topic.log()
    log.read_to_end().result(WAIT)
    assert [r.key for r in seen] == [b"0", b"1", b"2"]


def test_the_error_that_prevents_the_start_is_reported(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.log.topic_log.TOPIC_WAIT_S", 0.3)
    for name, error in (("no-such-topic", ConnectError), ("not/a/name", ValueError)):
        log = KafkaTopicLog(name, topic.clients, nullcontext(KafkaAdmin(topic.admin)), client_id="test", writable=False)
        with pytest.raises(error, match=name):
            log.start(lambda _: None, lambda _: None).result(WAIT)
        assert log.send(b"k", b"v").exception(WAIT) is not None
        log.stop()
    assert "no-such-topic" not in topic.admin.list_topics()  # nobody made it, uncompacted, by asking for it


def test_reading_resumes_after_repeated_failures_to_restart_it(
    topic: Topic, consumers: list[Consumer]
) -> None:
    errors: list[Exception] = []
    log, seen = topic.log(errors.append)
    log.read_past([log.send(b"a", b"1").result(WAIT)]).result(WAIT)
    topic.admin.close()  # a consumer can be made again, but the topic's beginning cannot be asked for
    (consumer,) = consumers
    consumer._client.cluster.closed = True  # noqa: SLF001 - else its refresh may spin for ever in a loop that is closed
    consumer._net.close()  # noqa: SLF001 - what a defect in kafka-python's network loop leaves behind
    wait_until(lambda: len(errors) > 1)
    topic.admin = KafkaAdminClient(**topic.clients)
    log.read_past([log.send(b"b", b"2").result(WAIT)]).result(WAIT)
    assert [r.key for r in seen] == [b"a", b"b"]


def test_reading_continues_after_a_defect(
    topic: Topic, consumers: list[Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    log, seen = topic.log()
    log.read_past([log.send(b"a", b"1").result(WAIT)]).result(WAIT)
    consumers[0].defect = AttributeError("a defect")  # of the running poll, whose records are lost with it
    log.read_past([log.send(b"b", b"2").result(WAIT), log.send(b"c", b"3").result(WAIT)]).result(WAIT)
    assert [r.key for r in seen] == [b"a", b"b", b"c"]
    assert "AttributeError: a defect" in caplog.text
