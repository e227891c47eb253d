"""What a split of a sink reports, and how it bounds the memory of its dead letters."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.sender import AtLeastOnceSender
from spark_tasks.dead_letters.queue_writes import LetterCounts
from spark_tasks.dead_letters.refusals import Refusals, Refused
from spark_tasks.kafka.records import encode
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins.errant_records import errant_record_reporter
from spark_tasks.sinks.split import SinkJob, SinkResult, SinkSplit

JSON = {"key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
MIB = 1 << 20


@pytest.mark.parametrize(("records", "by_phase", "uses"), [
    (0, {}, False), (2, {}, True), (2, {"convert": 2}, False), (2, {"convert": 1}, True), (2, {"transform": 2}, True),
])
def test_a_topic_is_used_once_a_record_can_be_converted(
    records: int, by_phase: dict[str, int], uses: bool
) -> None:
    """As in Kafka Connect, even if a transform or the target then refuses the record."""
    result = SinkResult("t", 0, 8, records, refused=Refused(sum(by_phase.values()), by_phase=by_phase))
    assert result.uses_topic is uses


class Reporting(DataSourceArrowWriter):  # type: ignore[misc]
    """Returns the offsets that it was given, and reports each record that is 1."""

    def write(self, iterator: Any) -> Any:
        offsets = []
        for batch in iterator:
            for row in batch.to_pylist():
                offsets.append(row["offset"])
                if row["value"] == 1:
                    errant_record_reporter().report(ValueError("x" * 100_000), offset=row["offset"])
        return offsets


class AwayError(Exception):
    """Of a driver that heeler does not know."""


class Away(DataSourceArrowWriter):  # type: ignore[misc]
    """Its target accepts only the record at offset 5."""

    def __init__(self, begun: int) -> None:
        self._begun = begun

    def write(self, iterator: Any) -> Any:
        offsets = [offset for batch in iterator for offset in batch.column("offset").to_pylist()]
        if offsets != [5]:
            raise AwayError("the store is away")
        return offsets


class Accepting(DataSourceArrowWriter):  # type: ignore[misc]
    def write(self, iterator: Any) -> Any:
        return [len(batch) for batch in iterator]


def split_of(values: list[bytes], start: int = 0, writer: Any = None, **config: str) -> SinkSplit:
    records = [{"offset": 0, "timestamp": 5, "key": None, "value": value, "headers": None} for value in values]
    data = bytearray(encode(pa.RecordBatch.from_pylist(records, RAW_SCHEMA), max_batch_bytes=2**31 - 1)[0].data)
    struct.pack_into(">q", data, 0, start)
    errors = ErrorHandling("c", tolerant=True, queue="dead", with_headers=True)
    pipeline = SinkPipeline({}, JSON | {key.replace("_", "."): value for key, value in config.items()})
    job = SinkJob({"bootstrap_servers": ["nowhere:1"]}, "read_uncommitted", "records", pipeline,
                  cloudpickle.dumps(writer or Reporting()), errors=errors)
    return SinkSplit(pickle.dumps(job), "t", 0, start, start + len(values), held=bytes(data))


def test_an_unknown_outage_skips_no_more_than_nine_records(sent: list[pa.RecordBatch]) -> None:
    """One record at a time, as of a topic with little traffic, with a restart after each, so that the pickled writer
    differs. What is accepted in between begins a new count.
    """
    for offset in [*range(15), 15, 15]:
        failure = split_of([b"0"], offset, Away(offset)).run().failure
        assert (failure is None) is (offset < 15)
        if failure is not None:
            assert "none of this batch is skipped" in str(failure.error)
    assert offsets_of(sent) == [*range(5), *range(6, 15)]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[pa.RecordBatch]:
    """The letters that were written, in parts."""
    parts: list[pa.RecordBatch] = []
    monkeypatch.setattr(LetterCounts, "write", lambda _counts, _handling, raw: parts.append(raw))
    return parts


def offsets_of(sent: list[pa.RecordBatch]) -> list[int]:
    return [offset for part in sent for offset in part.column("offset").to_pylist()]


def test_a_split_ends_before_its_letters_need_much_memory(sent: list[pa.RecordBatch]) -> None:
    """All of its bad records waited in memory together. The rest is the next batch; no record is lost or repeated."""
    bad, good = b"{" + b"x" * 100_000, b"0"
    values = [good if row % 100 == 50 else bad for row in range(600)]
    start, written, ends = 0, [], list[int]()
    while start < len(values):
        result = split_of(values[start:], start).run()
        assert result.failure is None
        assert result.records == result.next_offset - start
        assert sum(part.nbytes for part in sent[len(ends):]) < 40 * MIB
        written += [offset for message in result.messages for offset in message or ()]
        start = result.next_offset
        ends.append(start)
    assert len(ends) > 1
    assert written == [row for row in range(600) if row % 100 == 50]
    assert offsets_of(sent) == [row for row in range(600) if row % 100 != 50]


def test_a_split_ends_with_as_many_letters_as_its_sender_can_note(
    sent: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AtLeastOnceSender, "max_letters", 3)
    values, ends = [b"{" if row % 2 else b"0" for row in range(20)], [0]
    while ends[-1] < len(values):
        result = split_of(values[ends[-1]:], ends[-1], Accepting()).run()
        assert result.failure is None
        ends.append(result.next_offset)
    assert ends == [0, 6, 12, 18, 20]
    assert offsets_of(sent) == list(range(1, 20, 2))


def test_each_bad_record_has_one_letter_whichever_stage_refuses_it(sent: list[pa.RecordBatch]) -> None:
    """The converter refuses its records before the transform refuses earlier ones. These were in several splits."""
    values = [b"{" if row in (400, 430) else b'"%s"' % (b"x" * 100_000) for row in range(450)]
    cast = {"transforms": "c", "transforms_c_type": "org.apache.kafka.connect.transforms.Cast$Value",
            "transforms_c_spec": "int32"}  # fmt: skip
    start, counts = 0, []
    while start < len(values):
        result = split_of(values[start:], start, **cast).run()
        assert result.failure is None
        assert sum(part.nbytes for part in sent) < 40 * MIB * (len(counts) + 1)
        counts.append(result.refused.count)
        start = result.next_offset
    assert len(counts) > 1
    assert sum(counts) == 450
    assert offsets_of(sent) == list(range(450))


def test_the_letters_of_reported_records_are_sent_in_parts_and_in_order(
    sent: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has got all of the records, so the split cannot end. Letters of bad JSON are among them."""
    add, most = Refusals.add, 0

    def count(refusals: Refusals, *record: Any) -> None:
        nonlocal most
        add(refusals, *record)
        most = max(most, len(refusals.offsets))

    monkeypatch.setattr(Refusals, "add", count)
    values = [b"{" if row % 100 == 50 else b"1" for row in range(600)]
    result = split_of(values).run()
    assert (result.failure, result.next_offset, result.refused.count) == (None, 600, 600)
    assert offsets_of(sent) == list(range(600))
    assert most < 320, "letters of about 100 kB that waited"
