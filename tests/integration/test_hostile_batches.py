"""Decompression bombs and damaged record batches on topics of a real broker."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.append import DEFAULT_REQUEST_BYTES
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.pending_batch import PendingBatch
from spark_tasks.kafka.records import CorruptRecordsError, OversizedRecordError, encode
from spark_tasks.kafka.sender import Sender
from tests.rigs.support import wait_until
from tests.rigs.task_rigs import SinkRig

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
CHILD = """
import resource, sys
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.fetch import read_range

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

cluster = KafkaCluster({"bootstrap_servers": sys.argv[1]})
count = size = 0
for batch in read_range(cluster, sys.argv[2], 0, 0, 1):
    before = peak()  # all is imported and compiled
for batch in read_range(cluster, sys.argv[2], 0, 1, int(sys.argv[3])):
    count += len(batch)
    size += batch.nbytes
cluster.close()
print(count, size // 2**20, peak() - before)
"""


@pytest.fixture(scope="module")
def cluster(broker: Any) -> Iterator[KafkaCluster]:
    found = KafkaCluster(client_settings({"bootstrap.servers": broker.bootstrap_servers}))
    yield found
    found.close()


@pytest.fixture
def rig(broker: Any, tmp_path: Path) -> Iterator[SinkRig]:
    found = SinkRig(broker.bootstrap_servers, tmp_path)
    yield found
    found.close()


def raw(values: list[bytes]) -> pa.RecordBatch:
    rows = [{"offset": 0, "timestamp": 1000, "key": None, "value": value, "headers": None} for value in values]
    return pa.RecordBatch.from_pylist(rows, RAW_SCHEMA)


def append(cluster: KafkaCluster, topic: str, values: list[bytes], times: int = 1, **options: Any) -> None:
    """One batch of these values, as often as that."""
    (batch,) = encode(raw(values), max_batch_bytes=2**31 - 1, **options)
    outcomes: SimpleQueue[Exception | None] = SimpleQueue()
    sender = Sender(
        cluster, None, acks=-1, in_flight=5, max_request_bytes=DEFAULT_REQUEST_BYTES, delivery_timeout_ms=120_000,
        done=lambda _: outcomes.put(None), broken=outcomes.put, split=lambda whole, _: [whole])
    for number in range(times):
        sender.add([PendingBatch((topic, 0), batch.data, batch.count, -1, (number,))])
    for _ in range(times):
        if (error := outcomes.get(timeout=130)) is not None:
            raise error
    sender.stop()


@pytest.mark.parametrize("compression", ["zstd", pytest.param("gzip", marks=pytest.mark.nightly)])
def test_a_decompression_bomb_is_read_completely_in_bounded_memory(
    broker: Any, cluster: KafkaCluster, topic_name: str, compression: str
) -> None:
    """3 GiB of zeros in ten batches, which all come with one fetch; read by a process of its own."""
    cluster.partitions(topic_name, create=True)
    append(cluster, topic_name, [b"first"])
    append(cluster, topic_name, [bytes(30 * MIB)] * 10, times=10, compression=compression)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, broker.bootstrap_servers, topic_name, "101"],
        capture_output=True, text=True, timeout=150, check=False,
    )
    assert done.returncode == 0, done.stderr
    count, mebibytes, peak = map(int, done.stdout.split())
    assert (count, mebibytes) == (100, 3000)
    assert peak < 400, "MiB more than before"


@pytest.mark.parametrize("compression", ["zstd", None])
def test_a_record_over_the_limit_fails_the_task_and_can_be_skipped(
    rig: SinkRig, cluster: KafkaCluster, compression: str | None
) -> None:
    values = [b"0", b"1", b"x" * 30_000, b"3"]
    append(cluster, rig.topic, values, compression=compression)
    rig.worker["heeler.max.record.bytes"] = "20000"
    loop = rig.start(**{"heeler.max.record.bytes": "2000000000"})  # the worker's counts
    error = loop.await_error()
    assert isinstance(error, OversizedRecordError)
    assert f"the record of {rig.topic}-0 at offset 2 has 300" in str(error)
    assert "more than the 20000 that heeler.max.record.bytes allows" in str(error)
    assert rig.values() == ["0", "1"], "what comes before it is written"
    assert rig.committed() == {0: 2, 1: 0}
    loop.stop()
    group = ConsumerGroupTopicPartitions(f"connect-{rig.name}", [TopicPartition(rig.topic, 0, 3)])
    wait_until(lambda: _moved(rig, group), what="the group to be empty, its offset to be moved")
    rig.start().await_records(1)
    assert rig.values() == ["0", "1", "3"]


def _moved(rig: SinkRig, group: ConsumerGroupTopicPartitions) -> bool:
    try:
        for future in rig.admin.alter_consumer_group_offsets([group]).values():
            future.result(20)
    except KafkaException:
        return False
    return True


def flip(data: bytearray, at: int) -> None:
    data[at + 70] ^= 0x55


DAMAGES: dict[str, Callable[[bytearray, int], None]] = {
    "checksum is wrong": flip,
    "length is less than": lambda data, at: struct.pack_into(">i", data, at + 8, 20),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_batch_damaged_on_the_brokers_disk_fails_the_task_where_it_is(
    broker: Any, rig: SinkRig, cluster: KafkaCluster, reason: str
) -> None:
    append(cluster, rig.topic, [b"%d" % n for n in range(10)])
    append(cluster, rig.topic, [b"damaged"] * 5)
    append(cluster, rig.topic, [b"behind"] * 5)
    (segment,) = broker.data_dir.rglob(f"{rig.topic}-0/*.log")
    data = bytearray(segment.read_bytes().rstrip(b"\0"))
    first = 12 + int.from_bytes(data[8:12], "big")
    DAMAGES[reason](data, first)
    with segment.open("r+b") as file:  # in place: the broker has it open
        file.seek(first)
        file.write(data[first:])
    loop = rig.start()
    error = loop.await_error()
    assert isinstance(error, CorruptRecordsError), error
    assert f"{rig.topic}-0 at offset 10 cannot be read" in str(error)
    assert rig.values() == [str(n) for n in range(10)], "what comes before it is written"
    assert rig.committed() == {0: 10, 1: 0}
