"""Fetching with responses that no broker should send."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import crc32c
import pyarrow as pa
import pytest
from kafka.errors import CorruptRecordError, NotLeaderForPartitionError, OffsetOutOfRangeError, UnknownError
from kafka.protocol.consumer import FetchResponse

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import LEVELS
from spark_tasks.kafka.errors import KafkaUnavailableError, UnknownTopicError
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.records import CorruptRecordsError, UnsupportedFormatError, encode
from spark_tasks.kafka.records.layout import TRANSACTIONAL
from tests.rigs.loop_cluster import Cluster, Io


class FetchIo(Io):
    async def bootstrap(self, _timeout_ms: float) -> None:
        """Nothing has to be found."""

    async def send(self, _request: Any, _node: Any, *, lane: str) -> FetchResponse:
        assert lane == "fetch"
        return self.broker.pop(0) if isinstance(self.broker, list) else self.broker


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster(None)
    found.io.close()
    found.io = FetchIo(FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[]))
    yield found
    found.io.close()


def answer(data: bytes, error: int = 0) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData(
        partition_index=0, error_code=error, high_watermark=9, last_stable_offset=9, log_start_offset=0,
        aborted_transactions=[], preferred_read_replica=-1, records=data,
    )  # fmt: skip
    topics = [topic(topic="logs", partitions=[part])]
    return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)


def one(value: bytes, offset: int) -> bytes:
    rows = [{"offset": 0, "timestamp": 5, "key": None, "value": value, "headers": None}]
    (batch,) = encode(pa.RecordBatch.from_pylist(rows, RAW_SCHEMA))
    return struct.pack(">q", offset) + bytes(batch.data[8:])


def test_an_incomplete_last_batch_is_returned_by_the_next_fetch(cluster: Cluster) -> None:
    cluster.io.broker = [answer(one(b"a", 3) + one(b"b" * 90, 4)[:99]), answer(one(b"b" * 90, 4))]
    batches = list(read_range(cluster, "logs", 0, 3, 5))
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == [b"a", b"b" * 90]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([answer(one(b"b" * 90, 4)[:-1])], "says 160 bytes, but the broker returned 159"),
        ([answer(struct.pack(">qiib", 4, 2**31 - 1, 0, 2) + bytes(85))] * 20, "the broker returned 102"),
        ([answer(one(b"b", 4)[:17])], "the broker returned 17"),
        ([answer(struct.pack(">qiib", 4, 3, 0, 2) + bytes(85))], "its length is less"),
        ([answer(one(b"b", 4)[:-1] + b"x")], "its checksum is wrong"),
        ([answer(b"", CorruptRecordError.errno)], "CORRUPT_MESSAGE"),
    ],
)  # fmt: skip
def test_the_error_for_a_damaged_first_batch_has_its_position(cluster: Cluster, answers: Any, reason: str) -> None:
    cluster.io.broker = [answer(one(b"a", 3)), *answers]
    batches = read_range(cluster, "logs", 0, 3, 9, timeout_ms=30_000)
    assert next(batches).column("value").to_pylist() == [b"a"]
    with pytest.raises(CorruptRecordsError, match=rf"^the records of logs-0 at offset 4 cannot be read.*{reason}"):
        next(batches)


def test_the_error_for_an_old_record_format_has_its_position(cluster: Cluster) -> None:
    cluster.io.broker = [answer(struct.pack(">qiib", 3, 50, 0, 1) + bytes(85))]
    with pytest.raises(UnsupportedFormatError, match=r"^logs-0 at offset 3: .*format v1"):
        next(read_range(cluster, "logs", 0, 3, 9))


def test_a_response_without_the_partition_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopicError, match=r"^fetching logs-0 at 3: .*no result for logs-0"):
        list(read_range(cluster, "logs", 0, 3, 9, timeout_ms=30))


def throttled() -> FetchResponse:
    return FetchResponse(throttle_time_ms=750, error_code=0, session_id=0, responses=[])


def test_a_broker_that_returns_nothing_because_of_a_quota_is_asked_again(cluster: Cluster) -> None:
    cluster.io.broker = [throttled(), throttled(), answer(one(b"a", 3)), throttled(), answer(one(b"b", 4))]
    assert values(read_range(cluster, "logs", 0, 3, 5)) == [b"a", b"b"]


def test_an_unknown_error_of_a_broker_is_retried(cluster: Cluster) -> None:
    """Java's consumers do so, too: it may be that of remote storage."""
    cluster.io.broker = [answer(b"", UnknownError.errno), answer(one(b"a", 3))]
    assert values(read_range(cluster, "logs", 0, 3, 4)) == [b"a"]


@pytest.mark.parametrize(("start", "end"), [(0, 9), (3, 3)])
def test_a_former_leader_is_not_believed_that_a_position_is_not_in_the_log(
    cluster: Cluster, start: int, end: int
) -> None:
    async def find_offsets(wanted: Any, which: str, *_: Any) -> dict[Any, int]:
        assert cluster.known_leader("logs", 0) is None, "the leader has to be looked up"
        return dict.fromkeys(wanted, start if which == "earliest" else end)

    cluster.find_offsets = find_offsets
    cluster.io.broker = [answer(b"", OffsetOutOfRangeError.errno), answer(one(b"a", 3))]
    assert values(read_range(cluster, "logs", 0, 3, 4)) == [b"a"]


@pytest.mark.parametrize(("start", "end"), [(4, 9), (0, 2)])
def test_a_position_that_is_not_in_the_log_is_an_error(cluster: Cluster, start: int, end: int) -> None:
    async def find_offsets(wanted: Any, which: str, *_: Any) -> dict[Any, int]:
        return dict.fromkeys(wanted, start if which == "earliest" else end)

    cluster.find_offsets = find_offsets
    cluster.io.broker = [answer(b"", OffsetOutOfRangeError.errno)]
    with pytest.raises(ConnectError, match="offset 3 of logs-0 is not in its log"):
        list(read_range(cluster, "logs", 0, 3, 4))


def test_the_first_records_may_have_a_shorter_timeout(cluster: Cluster) -> None:
    cluster.io.broker = answer(b"", NotLeaderForPartitionError.errno)
    with pytest.raises(KafkaUnavailableError):
        list(read_range(cluster, "logs", 0, 3, 4, first_timeout_ms=20))


def test_an_empty_batch_says_that_there_has_been_no_response_for_a_while(cluster: Cluster) -> None:
    cluster.io.broker = throttled()
    batches = read_range(cluster, "logs", 0, 3, 4, idle_s=0.01)
    assert [len(next(batches)) for _ in range(3)] == [0, 0, 0]
    cluster.io.broker = answer(one(b"a", 3))
    assert values(batches) == [b"a"]


def values(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_held_records_are_not_fetched(cluster: Cluster) -> None:
    cluster.io.broker = []
    held = one(b"a", 3) + one(b"b", 4) + one(b"c", 5)
    for isolation in LEVELS:
        assert values(read_range(cluster, "logs", 0, 4, 6, held=held, isolation=isolation)) == [b"b", b"c"]
    cluster.io.broker = [answer(one(b"d", 6))]
    assert values(read_range(cluster, "logs", 0, 3, 7, held=held + one(b"d", 6)[:20])) == [b"a", b"b", b"c", b"d"]


def transactional(batch: bytes) -> bytes:
    """With a right checksum."""
    body = struct.pack(">H", TRANSACTIONAL) + batch[23:]
    return batch[:17] + struct.pack(">I", crc32c.crc32c(body)) + body


@pytest.mark.parametrize("held", [
    b"?", one(b"a", 3)[:-1], bytes(99), struct.pack(">qiib", 3, 50, 0, 1) + bytes(85), one(b"a", 2),
    transactional(one(b"aborted?", 3)),
])  # fmt: skip
def test_unusable_held_records_are_fetched(cluster: Cluster, held: bytes) -> None:
    cluster.io.broker = [answer(one(b"good", 3))]
    assert values(read_range(cluster, "logs", 0, 3, 4, held=held, isolation="read_committed")) == [b"good"]


def test_the_error_for_damaged_held_records_has_their_position(cluster: Cluster) -> None:
    with pytest.raises(CorruptRecordsError, match=r"logs-0 at offset 3 .*checksum is wrong"):
        list(read_range(cluster, "logs", 0, 3, 4, held=one(b"a", 3)[:-1] + b"x"))
