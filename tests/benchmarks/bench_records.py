"""Record batches per second and core, beside kafka-python's own; then reading from a broker and appending to it.

Run: python -m tests.benchmarks.bench_records [--broker host:port]. The aim is 5 million records of 70 bytes a second
each way for the codec; from and to a broker on the same machine 3 and 2.5 million.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.records import decode, encode
from spark_tasks.kafka.records.partitioner import Partitioner

ROWS = 500_000
SLOW_ROWS = 20_000
REPEATS = 7


def raw_batch(rows: int, value_bytes: int, key_bytes: int = 0, headers: bool = False) -> pa.RecordBatch:
    """Rows whose values (and keys) are numbers as text."""
    keys = (
        pa.array([b"%0*d" % (key_bytes, n) for n in range(rows)], pa.binary())
        if key_bytes
        else pa.nulls(rows, pa.binary())
    )
    values = pa.array([b"%0*d" % (value_bytes, n) for n in range(rows)], pa.binary())
    header = [{"key": "source", "value": b"file"}]
    lists = pa.array([header] * rows, HEADERS_TYPE) if headers else pa.nulls(rows, HEADERS_TYPE)
    times = pa.array(np.arange(rows) + 1_700_000_000_000)
    return pa.record_batch([pa.array(np.arange(rows)), times, keys, values, lists], schema=RAW_SCHEMA)


def rate(rows: int, work: Callable[[], object]) -> float:
    """Median of millions of records a second; the first run is not counted."""
    work()
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return rows / statistics.median(seconds) / 1e6


def fetched(raw: pa.RecordBatch, compression: str | None = None) -> bytes:
    """What a fetch of these records would bring."""
    parts, offset = [], 0
    for batch in encode(raw, compression=compression):
        parts.append(offset.to_bytes(8, "big") + bytes(batch.data[8:]))
        offset += batch.count
    return b"".join(parts)


def theirs() -> tuple[float, float]:
    """kafka-python's record classes: (reading, writing)."""

    def write() -> bytes:
        builder = DefaultRecordBatchBuilder(
            magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
            batch_size=1 << 30,
        )  # fmt: skip
        for n in range(SLOW_ROWS):
            builder.append(n, 1_700_000_000_000 + n, None, value, [])
        return bytes(builder.build())

    def read() -> int:
        batch = MemoryRecords(data).next_batch()
        batch.validate_crc()
        return sum(len(record.value) for record in batch)

    value = b"x" * 70
    data = write()
    return rate(SLOW_ROWS, read), rate(SLOW_ROWS, write)


def codec(report: Callable[[str], object]) -> None:
    """All figures that need no broker."""
    their_read, their_write = theirs()
    report(f"kafka-python's record classes, 70 bytes:  decode {their_read:6.3f}  encode {their_write:6.3f} million/s")
    kinds = {
        "value of 70 bytes": raw_batch(ROWS, 70),
        "key of 10, value of 60 bytes": raw_batch(ROWS, 60, 10),
        "value of 70 bytes, one header": raw_batch(ROWS, 70, headers=True),
    }
    for name, raw in kinds.items():
        data = fetched(raw)
        reading, writing = rate(ROWS, partial(decode, data)), rate(ROWS, partial(encode, raw))
        report(
            f"{name + ':':41} decode {reading:6.1f}  encode {writing:6.1f} million/s "
            f"({reading / their_read:.0f} and {writing / their_write:.0f} times kafka-python)",
        )
    raw = kinds["value of 70 bytes"]
    for compression in ("gzip", "snappy", "lz4", "zstd"):
        data = fetched(raw, compression)
        reading = rate(ROWS, partial(decode, data))
        writing = rate(ROWS, partial(encode, raw, compression=compression))
        report(f"{compression + ':':41} decode {reading:6.1f}  encode {writing:6.1f} million/s")
    keyed = kinds["key of 10, value of 60 bytes"]
    partitioner = Partitioner(12)
    report(f"{'murmur2 partitioner:':41} {rate(ROWS, lambda: partitioner.assign(keyed)):6.1f} million/s")


def through(bootstrap_servers: str, report: Callable[[str], object]) -> None:
    """Append values of 85 bytes to one partition, acknowledged by all replicas, and read them back."""
    cluster = KafkaCluster({"bootstrap_servers": bootstrap_servers})
    topic = f"bench-records-{uuid.uuid4().hex[:8]}"
    raw = raw_batch(100_000, 85)
    appender = Appender(cluster, cluster.init_producer_id())

    def append() -> None:
        for _ in range(20):
            appender.append(topic, 0, raw)
        appender.flush()

    def read() -> None:
        rows = sum(batch.num_rows for batch in read_range(cluster, topic, 0, 0, 2_000_000))
        if rows != 2_000_000:
            raise ValueError(f"{rows} records read, 2000000 appended")

    appending = rate(2_000_000, append)
    reading = rate(2_000_000, read)
    report(f"{'broker, values of 85 bytes, one process:':41} read   {reading:6.1f}  append {appending:6.1f} million/s")
    cluster.close()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", help="host:port of a broker to append to and read from; else one of its own")
    arguments = parser.parse_args()

    def report(line: str) -> None:
        sys.stdout.write(line + "\n")

    codec(report)
    if arguments.broker:
        through(arguments.broker, report)
        return
    with EmbeddedBroker(settings={"log.retention.ms": "-1"}) as broker:  # the records are of 1970
        through(broker.bootstrap_servers, report)


if __name__ == "__main__":
    main()
