"""Which calls of the writer a range of dead letters becomes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.letters import PREFIX
from spark_tasks.dead_letters.replay.letter_range import LetterRange
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.dead_letters.replay.request import ReplayOrder
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins.origin import kafka_partition
from spark_tasks.sinks import replay_split
from spark_tasks.sinks.replay_split import ReplayResult, ReplaySplit
from spark_tasks.sinks.split import SinkJob
from tests.rigs.raw_records import raw_batch, worker


class Calls(DataSourceArrowWriter):  # type: ignore[misc]
    """Returns for each call what `kafka_partition` returns, and the topics, partitions and offsets of the records."""

    def __init__(self, away: str = "") -> None:
        self.away = away

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        columns = [batch.select(["topic", "partition", "offset"]).to_pydict() for batch in iterator]
        places = [place for one in columns for place in zip(one["topic"], one["partition"], one["offset"], strict=True)]
        if self.away in {topic for topic, _, _ in places}:
            raise ConnectionRefusedError("nobody listens")
        return kafka_partition(), places


def queue(*origins: tuple[str, int, int], offset: int = 100, value: bytes = b"v") -> pa.RecordBatch:
    """Letters of these records, from the offset on."""
    headers = [[(PREFIX + name, str(text).encode()) for name, text in
                [("connector.name", "c"), ("topic", topic), ("partition", partition), ("offset", at)]]
               for topic, partition, at in origins]
    return raw_batch([value] * len(origins), offset=offset, headers=headers)


Replayed = Callable[..., ReplayResult]


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Replayed:
    def replay(*read: pa.RecordBatch, resume: int | None = None, away: str = "") -> ReplayResult:
        monkeypatch.setattr(replay_split, "shared_cluster", lambda _: None)
        monkeypatch.setattr(replay_split, "read_range", lambda *_, **__: iter(read))
        job = SinkJob({}, "read_committed", "records", SinkPipeline(worker(), {}), cloudpickle.dumps(Calls(away)),
                      errors=ErrorHandling("c", tolerant=True))
        part = LetterRange("dead", 0, 100, 200, ReplayOrder(), ReplayedOffsets(), 100, resume=resume)
        return ReplaySplit(pickle.dumps(job), part).run()

    return replay


def test_each_call_of_the_writer_has_the_records_of_one_topic_partition(replayed: Replayed) -> None:
    result = replayed(queue(
        ("orders", 0, 7), ("payments", 0, 3), ("orders", 1, 9), ("orders", 0, 8), ("orders", 0, 7)))
    assert result.failure is None
    assert list(result.messages) == [
        (("orders", 0), [("orders", 0, 7), ("orders", 0, 8)]),
        (("orders", 0), [("orders", 0, 7)]),
        (("orders", 1), [("orders", 1, 9)]),
        (("payments", 0), [("payments", 0, 3)]),
    ]


def test_a_writer_that_stores_offsets_gets_all_letters_as_records_of_the_queue(replayed: Replayed) -> None:
    result = replayed(queue(("orders", 0, 7), ("payments", 0, 7), ("orders", 0, 2)), resume=0)
    assert list(result.messages) == [(("dead", 0), [("dead", 0, 100), ("dead", 0, 101), ("dead", 0, 102)])]


def test_what_was_written_before_an_outage_can_be_aborted(replayed: Replayed) -> None:
    result = replayed(queue(("orders", 0, 7), ("payments", 0, 3)), away="payments")
    assert result.failure is not None
    assert list(result.messages) == [(("orders", 0), [("orders", 0, 7)])]


def test_a_range_of_large_letters_ends_early(replayed: Replayed) -> None:
    """So its progress is committed before more of them are read."""
    large = queue(("orders", 0, 1), ("orders", 0, 2), value=b"x" * 32 * 1024 * 1024)
    counts = replayed(large, queue(("orders", 0, 3), offset=102)).counts
    assert (counts.chosen, counts.next_offset, counts.done) == (2, 102, ReplayedOffsets(0, ((100, 102),)))
    counts = replayed(large.slice(1), queue(("orders", 0, 3), offset=102)).counts
    assert (counts.chosen, counts.next_offset, counts.done) == (2, 200, ReplayedOffsets(0, ((100, 200),)))
