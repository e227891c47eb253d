"""The data plane's Kafka side against a real broker, with librdkafka as the independent reader and writer."""

from __future__ import annotations

import os
import threading
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.partitioner.default import murmur2
from kafka.protocol.admin import AlterClientQuotasRequest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.errors import (
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    RecordRefusedError,
    UnknownTopicError,
)
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.records import RecordTooLargeError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.transactions import TransactionMember, TransactionOwner
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration

COMPRESSIONS = [None, "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def cluster(broker):
    with_settings = KafkaCluster(client_settings({"bootstrap.servers": broker.bootstrap_servers}))
    yield with_settings
    with_settings.close()


@pytest.fixture
def topic(broker, topic_name):
    """Makes topics, with `partitions` and Kafka's topic settings."""

    def make(partitions=1, **config):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        new = NewTopic(
            topic_name, partitions, 1, config={key.replace("_", "."): str(value) for key, value in config.items()}
        )
        admin.create_topics([new])[topic_name].result(30)
        return topic_name

    return make


def raw(values, keys=None, headers=None):
    rows = [
        {"offset": 0, "timestamp": 1000 + n, "key": keys and keys[n], "value": value, "headers": headers}
        for n, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


def read(cluster, topic, partition=0, **options):
    end = cluster.offsets([(topic, partition)])[topic, partition]
    batches = list(read_range(cluster, topic, partition, 0, end, **options))
    return pa.Table.from_batches(batches, schema=RAW_SCHEMA).to_pylist()


def consume(broker, topic, count, isolation="read_uncommitted", partition=0):
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "enable.auto.commit": False,
        "check.crcs": True, "isolation.level": isolation, "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    try:
        while len(found) < count:
            (message,) = consumer.consume(1, 30)
            if message.error():
                break
            found.append(message)
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_librdkafka_reads_what_is_appended(broker, cluster, topic, compression):
    name = topic()
    values = [b"value %06d " % number * 5 for number in range(5000)]
    values[7] = None
    appender = Appender(cluster, cluster.init_producer_id(), compression=compression, max_batch_bytes=50_000)
    appender.append(
        name, 0, raw(values, [b"%d" % n if n % 3 else None for n in range(5000)], [{"key": "h", "value": b"1"}])
    )
    appender.flush()
    messages = consume(broker, name, 5000)
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(5000))
    assert messages[1].key() == b"1"
    assert messages[3].key() is None
    assert messages[9].timestamp()[1] == 1009
    assert messages[9].headers() == [("h", b"1")]
    assert appender.sequences == {(name, 0): 5000}
    assert [row["value"] for row in read(cluster, name)] == values


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_written_by_librdkafka_are_read(broker, cluster, topic, compression):
    name = topic()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": compression or "none", "linger.ms": 20}
    )
    for number in range(3000):
        producer.produce(
            name, b"value %d " % number * 9, b"%d" % number, timestamp=5000 + number, headers=[("x", None)]
        )
    producer.flush(30)
    rows = read(cluster, name, fetch_bytes=100_000)
    assert [row["value"] for row in rows] == [b"value %d " % number * 9 for number in range(3000)]
    assert rows[17] == {
        "offset": 17, "timestamp": 5017, "key": b"17", "value": b"value 17 " * 9,
        "headers": [{"key": "x", "value": None}],
    }  # fmt: skip


def test_a_range_of_offsets_is_read_exactly(cluster, topic):
    name = topic()
    appender = Appender(cluster, None, max_batch_bytes=1000)
    appender.append(name, 0, raw([b"%05d" % number for number in range(1000)]))
    appender.flush()
    for start, end in ((0, 1), (1, 2), (333, 777), (999, 1000), (5, 5)):
        batches = list(read_range(cluster, name, 0, start, end, fetch_bytes=2000))
        offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert offsets == list(range(start, end))
    reader = read_range(cluster, name, 0, 0, 1000, fetch_bytes=2000)
    assert next(reader).num_rows
    reader.close()  # type: ignore[attr-defined]


def test_a_record_larger_than_the_fetch_size_is_read(cluster, topic):
    name = topic(max_message_bytes=6_000_000)
    values = [b"small", os.urandom(4_000_000), b"last"]
    appender = Appender(cluster, cluster.init_producer_id(), max_request_bytes=5_000_000)
    appender.append(name, 0, raw(values))
    appender.flush()
    assert [row["value"] for row in read(cluster, name, fetch_bytes=1000)] == values


def test_batches_are_split_for_a_topic_that_accepts_only_small_ones(cluster, topic):
    name = topic(max_message_bytes=5000)
    values = [b"%05d" % number * 20 for number in range(3000)]
    appender = Appender(cluster, cluster.init_producer_id())
    offsets = {}

    def landed(first, partition, rows, offset):
        offsets.update({first + int(row): (partition, offset + n) for n, row in enumerate(rows)})

    for first in range(0, 3000, 1000):
        appender.append(name, 0, raw(values[first : first + 1000]), partial(landed, first))
    appender.flush()
    assert [row["value"] for row in read(cluster, name)] == values
    assert appender.sequences == {(name, 0): 3000}
    assert offsets == {number: (0, number) for number in range(3000)}
    appender.append(name, 0, raw([os.urandom(6000)]))
    with pytest.raises(RecordTooLargeError, match=rf"a broker rejected a record for topic '{name}'.*of the topic"):
        appender.flush()


def test_a_record_with_a_timestamp_that_its_topic_does_not_allow_is_refused_for_that(cluster, topic):
    """And for nothing else, as the queue may not allow it for the letter either. All others are appended."""
    name, refused = topic(message_timestamp_before_max_ms=3_600_000), []
    records = raw([b"old", b"new"])
    place = records.schema.get_field_index("timestamp")
    records = records.set_column(place, records.schema.field(place), pa.array([1000, -1], pa.int64()))
    appender = Appender(cluster, cluster.init_producer_id())
    appender.append(name, 0, records, on_refusal=lambda row, error: refused.append((row, error)))
    appender.flush()
    assert [row["value"] for row in read(cluster, name)] == [b"new"]
    [(row, error)] = refused
    assert (row, type(error), error.of_timestamp) == (0, RecordRefusedError, True)


def test_keys_are_partitioned_as_in_java(broker, cluster, topic):
    name = topic(partitions=5)
    keys = [b"key-%d" % (number % 50) for number in range(2000)]
    appender = Appender(cluster, cluster.init_producer_id())
    appender.append(name, None, raw(keys, keys))
    appender.append(name, None, raw([b"x" * 100] * 2000))
    appender.flush()
    keyless = []
    for partition in range(5):
        rows = read(cluster, name, partition)
        assert all((murmur2(row["key"]) & 0x7FFFFFFF) % 5 == partition for row in rows if row["key"])
        keyless.append(sum(row["key"] is None for row in rows))
    assert sum(keyless) == 2000
    assert sum(count > 0 for count in keyless) > 1
    # librdkafka's partitioner of the same name agrees.
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2"})
    seen = {}
    for key in set(keys):
        producer.produce(
            name, b"", key, on_delivery=lambda _, message: seen.update({message.key(): message.partition()})
        )
    producer.flush(30)
    assert seen == {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in set(keys)}


def test_a_resent_batch_is_not_appended_twice(cluster, topic):
    name = topic()
    identity = cluster.init_producer_id()
    for _ in range(2):  # the second appender believes that nothing has been appended yet
        appender = Appender(cluster, identity, sequences={(name, 0): 0})
        appender.append(name, 0, raw([b"a", b"b"]))
        appender.flush()
        assert appender.sequences == {(name, 0): 2}
    assert [row["value"] for row in read(cluster, name)] == [b"a", b"b"]


def append_as(owner, cluster, name, values):
    owner.add_partitions([(name, 0)])
    appender = Appender(cluster, owner.identity, sequences=owner.sequences)
    appender.append(name, 0, raw(values))
    appender.flush()
    owner.sequences.update(appender.sequences)


def test_committed_transactions_are_read_and_aborted_ones_are_not(broker, cluster, topic):
    name = topic()
    owner = TransactionOwner(cluster, f"id-{name}")
    first = owner.init()
    append_as(owner, cluster, name, [b"1", b"2"])
    owner.commit()
    append_as(owner, cluster, name, [b"aborted"])
    assert cluster.offsets([(name, 0)], isolation="read_committed") == {(name, 0): 3}
    second = owner.abort()
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)
    append_as(owner, cluster, name, [b"3"])
    owner.commit()
    owner.commit()  # nothing is open: no request, no error
    append_as(owner, cluster, name, [b"aborted too"])
    owner.abort()
    append_as(owner, cluster, name, [b"4"])
    owner.commit()

    committed = [b"1", b"2", b"3", b"4"]
    values = [row["value"] for row in read(cluster, name, isolation="read_committed")]
    assert values == committed
    assert [message.value() for message in consume(broker, name, 99, "read_committed")] == committed
    assert b"aborted" in [row["value"] for row in read(cluster, name)]


def test_a_stale_epoch_cannot_append_nor_commit(cluster, topic):
    name = topic()
    old = TransactionOwner(cluster, f"id-{name}")
    old.init()
    append_as(old, cluster, name, [b"left open"])
    zombie = old.identity
    new = TransactionOwner(cluster, f"id-{name}")
    new.init()
    append_as(new, cluster, name, [b"new"])
    late = Appender(cluster, zombie, sequences=old.sequences)
    late.append(name, 0, raw([b"zombie"]))
    with pytest.raises(ProducerFencedError):
        late.flush()
    with pytest.raises(ProducerFencedError):
        old.commit()
    new.commit()
    assert [row["value"] for row in read(cluster, name, isolation="read_committed")] == [b"new"]


def test_an_appender_that_outlives_its_owner_begins_no_transaction(cluster, topic):
    name = topic()
    owner = TransactionOwner(cluster, f"id-{name}")
    owner.init()
    append_as(owner, cluster, name, [b"left open"])
    late = TransactionMember(cluster, owner.identity, ())
    owner.give_up()
    with pytest.raises(ProducerFencedError):
        late.admit([(name, 0)])


def test_a_partition_that_is_only_likely_to_be_used_may_be_gone(cluster, topic):
    name = topic()
    owner = TransactionOwner(cluster, f"id-{name}")
    owner.init()
    member = TransactionMember(cluster, owner.identity, (), [(f"{name}-deleted", 0)])
    member.admit([(name, 0)])
    appender = Appender(cluster, owner.identity, admit=member.admit)
    appender.append(name, 0, raw([b"x"]))
    appender.flush()
    owner.joined([(name, 0)])
    owner.commit()
    assert [row["value"] for row in read(cluster, name, isolation="read_committed")] == [b"x"]


def test_read_committed_waits_for_an_open_transaction(cluster, topic):
    name = topic()
    owner = TransactionOwner(cluster, f"id-{name}")
    owner.init()
    append_as(owner, cluster, name, [b"open"])
    with pytest.raises(KafkaUnavailableError, match="no records"):
        list(read_range(cluster, name, 0, 0, 1, isolation="read_committed", timeout_ms=600))
    timer = threading.Timer(0.3, owner.commit)
    timer.start()
    (batch,) = read_range(cluster, name, 0, 0, 1, isolation="read_committed")
    timer.join()
    assert batch.column("value").to_pylist() == [b"open"]


def test_reading_deleted_records_raises_out_of_range(broker, cluster, topic):
    name = topic()
    appender = Appender(cluster, None)
    appender.append(name, 0, raw([b"x"] * 100))
    appender.flush()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(name, 0, 40)]).values():
        deleted.result(30)
    for start, end in ((0, 100), (101, 105)):
        with pytest.raises(OffsetOutOfRangeError) as raised:
            list(read_range(cluster, name, 0, start, end))
        assert (raised.value.log_start, raised.value.log_end) == (40, 100)
    assert cluster.offsets([(name, 0)], "earliest") == {(name, 0): 40}


def test_a_quota_delays_a_reader_and_does_not_fail_it(broker, cluster, topic, caplog):
    name = topic()
    appender = Appender(cluster, None)
    appender.append(name, 0, raw([os.urandom(1000) for _ in range(2600)]))
    appender.flush()
    client = f"limited-{name}"
    limited = KafkaCluster(client_settings({"bootstrap.servers": broker.bootstrap_servers, "client.id": client}))
    entry = AlterClientQuotasRequest.EntryData
    entity = [entry.EntityData(entity_type="client-id", entity_name=client)]
    quotas = [entry.OpData(key="consumer_byte_rate", value=200_000.0)]
    change = AlterClientQuotasRequest(entries=[entry(entity=entity, ops=quotas)], validate_only=False)
    limited.partitions(name)
    response = limited.io.run(partial(limited.io.send, change, None))
    assert [one.error_code for one in response.entries] == [0]
    try:
        def is_throttled() -> bool:  # the broker applies the quota some time after its response
            assert len(read(limited, name, fetch_bytes=1_500_000)) == 2600
            return "FetchResponse throttled by broker" in caplog.text

        wait_until(is_throttled, within=60)
    finally:
        limited.close()


def test_an_unknown_topic_raises_an_error_unless_it_may_be_created(cluster, topic_name):
    for call in (
        lambda: cluster.partitions(topic_name),
        lambda: cluster.offsets([(topic_name, 0)]),
        lambda: list(read_range(cluster, topic_name, 0, 0, 1)),
    ):
        with pytest.raises(UnknownTopicError, match=topic_name):
            call()
    assert cluster.partitions(topic_name, create=True) == (0,)


def test_offsets_of_many_partitions_are_read_in_one_call(cluster, topic):
    name = topic(partitions=20)
    appender = Appender(cluster, cluster.init_producer_id())
    appender.append(name, np.arange(200) % 20, raw([b"x"] * 200))
    appender.flush()
    assert cluster.offsets([(name, number) for number in range(20)]) == {(name, number): 10 for number in range(20)}


def test_an_unreachable_broker_raises_an_error():
    nowhere = KafkaCluster(client_settings({"bootstrap.servers": "127.0.0.1:1"}))
    with pytest.raises(KafkaUnavailableError, match=r"127\.0\.0\.1:1"):
        nowhere.partitions("t", timeout_ms=500)
    nowhere.close()


def test_a_shared_cluster_exists_once_per_process_and_not_across_a_fork(broker):
    settings = client_settings({"bootstrap.servers": broker.bootstrap_servers, "client.id": "shared"})
    mine = shared_cluster(settings)
    assert shared_cluster(settings) is mine
    mine.offsets([])
    child = os.fork()
    if child == 0:
        ok = (
            shared_cluster(settings) is not mine
            and shared_cluster(settings).init_producer_id().producer_id >= 0
        )
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert mine.init_producer_id().producer_id >= 0
    mine.close()
    assert shared_cluster(settings) is not mine
