"""A source's letter carries the record as the source read it; whatever else is in the queue is not replayed."""

from __future__ import annotations

import datetime as dt
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.data.columns import RAW_SCHEMA, SCHEMA_KEY
from spark_tasks.dead_letters.letters import PREFIX
from spark_tasks.dead_letters.source_letters import (
    PRODUCED,
    RECORD,
    TIMESTAMP,
    Produced,
    SourceLetters,
    produced_header,
    record_header,
    record_of,
)
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from tests.rigs.raw_records import worker

LIMIT = 100_000
VALUE = pa.field("value", pa.struct([("d", pa.decimal128(20, 3)), ("t", pa.timestamp("us", tz="UTC"))]),
                 metadata={SCHEMA_KEY: b"{}"})
BATCH = pa.RecordBatch.from_arrays(
    [pa.array(["b", "a", "a"]).dictionary_encode(), pa.array([b"k", None, b"\x00"]),
     pa.array([{"d": Decimal("1.500"), "t": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, None, {"d": None, "t": None}],
              VALUE.type), pa.nulls(3, pa.list_(pa.struct([("key", pa.string()), ("value", pa.int8())])))],
    schema=pa.schema([pa.field("topic", pa.dictionary(pa.int32(), pa.string())), pa.field("key", pa.binary()), VALUE,
                      pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.int8())])))]),
)


def blob(row: int = 0, batch: pa.RecordBatch = BATCH) -> bytes:
    [(name, value)] = record_header(batch, row, LIMIT)
    assert name == RECORD
    assert value is not None
    return value


def any_record(_: pa.RecordBatch) -> bool:
    return True


def queue(*headers: list[tuple[str, bytes | None]] | None, connector: bytes = b"c") -> pa.RecordBatch:
    context = [(PREFIX + "connector.name", connector), (PREFIX + "topic", b"t")]
    rows = [None if own is None else [("own", b"1"), *context, *own] for own in headers]
    columns = {"offset": range(len(rows)), "timestamp": [7] * len(rows), "key": [b"k"] * len(rows),
               "value": [b"v"] * len(rows), "headers": rows}
    return pa.RecordBatch.from_pydict(
        {field.name: pa.array(columns[field.name], field.type) for field in RAW_SCHEMA}, schema=RAW_SCHEMA)


@pytest.mark.parametrize("row", range(3))
def test_a_record_is_read_back_with_its_types_and_schema(row: int) -> None:
    record = record_of(blob(row))
    assert record is not None
    assert record.to_pylist() == BATCH.slice(row, 1).to_pylist()
    assert record.schema.field("value").equals(VALUE, check_metadata=True)


def test_a_large_batch_does_not_make_the_records_header_larger() -> None:
    topics = pa.array([f"topic-{n}" for n in range(10_000)])
    batch = pa.RecordBatch.from_pydict({"topic": topics.dictionary_encode(), "value": topics})
    assert len(blob(7, batch)) < 1000


TEXTS = [f"a text of row {n:06}" for n in range(10_000)]


@pytest.mark.parametrize("column", [
    pa.array(TEXTS),
    pa.array([None if n % 2 else text for n, text in enumerate(TEXTS)]),
    pa.array(TEXTS, pa.string_view()),
    pa.array([text.encode() for text in TEXTS], pa.binary_view()),
    pa.array([[text, None] for text in TEXTS], pa.list_view(pa.string())),
    pa.array([[text, None] for text in TEXTS], pa.large_list_view(pa.string_view())),
    pa.array([[text, None] for text in TEXTS], pa.list_(pa.string_view(), 2)),
    pa.array([[(text, text)] for text in TEXTS], pa.map_(pa.string(), pa.string_view())),
    pa.StructArray.from_arrays([pa.array(TEXTS, pa.string_view()), pa.array(TEXTS).dictionary_encode()], ["a", "b"]),
    pa.ListArray.from_arrays(pa.array(range(10_001), pa.int32()), pa.array(TEXTS).dictionary_encode()),
], ids=lambda column: str(column.type))
@pytest.mark.parametrize("row", [0, 4, 9_998])
def test_a_header_contains_nothing_of_other_records(column: pa.Array, row: int) -> None:
    batch = pa.RecordBatch.from_arrays([column], ["value"])
    written = blob(row, batch)
    assert [n for n, text in enumerate(TEXTS) if n != row and text[-6:].encode() in written] == []
    record = record_of(written)
    assert record is not None
    assert record.to_pylist() == batch.slice(row, 1).to_pylist()


def test_a_column_that_arrow_cannot_copy_has_no_header() -> None:
    views = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(TEXTS[:1], pa.string_view()))
    assert record_header(pa.RecordBatch.from_arrays([views], ["value"]), 0, LIMIT) == ()


def test_a_record_larger_than_the_limit_has_no_header() -> None:
    size = len(blob())
    assert record_header(BATCH, 0, size) != ()
    assert record_header(BATCH, 0, size - 1) == ()
    assert record_header(BATCH, 0, -5) == ()


def compressed() -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"value": ["a" * 1000]})
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def stream_of(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


@pytest.mark.parametrize("header", [
    None, b"", b"x", blob()[:100], blob()[:-200], compressed(), stream_of(BATCH), stream_of(BATCH.slice(0, 0)),
    stream_of(pa.RecordBatch.from_pydict({"value": ["a", "b"]})),
])
def test_what_is_no_record_of_a_source_is_recognized(header: bytes | None) -> None:
    assert record_of(header) is None


MANY = 2**31 - 1
SHARED = pa.array(TEXTS[:1])


def listed(values: pa.Array) -> pa.Array:
    """One list of all of them."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


@pytest.mark.parametrize("column", [
    listed(pa.nulls(MANY)),
    listed(pa.Array.from_buffers(pa.struct([]), MANY, [None])),
    listed(pa.Array.from_buffers(pa.binary(0), MANY, [None, pa.py_buffer(b"")])),
    pa.FixedSizeListArray.from_arrays(pa.nulls(MANY), MANY),
    listed(pa.ListViewArray.from_arrays(pa.array([0] * 50, pa.int32()), pa.array([10] * 50, pa.int32()),
                                        pa.array(TEXTS[:10]))),
    listed(pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), SHARED)),
    listed(pa.UnionArray.from_dense(pa.array([0] * 50, pa.int8()), pa.array([0] * 50, pa.int32()), [SHARED])),
    listed(pa.array(TEXTS[:50], pa.string_view())),
    pa.ExtensionArray.from_storage(pa.opaque(pa.string_view(), "a", "b"), pa.array(["a"], pa.string_view())),
], ids=lambda column: str(column.type))
def test_a_header_cannot_expand_in_memory(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([column], ["value"])
    batch.validate(full=True)
    assert record_of(stream_of(batch)) is None


def test_columns_of_a_header_cannot_share_their_bytes() -> None:
    small = pa.RecordBatch.from_pydict({"value": ["a" * 10_000], **{f"c{n}": ["b"] for n in range(9)}})
    written = bytearray(stream_of(small))
    first = written.index(struct.pack("<q", 10_000)) - 8 - 2 * 16  # validity, offsets and bytes of each column
    for column in range(1, 10):
        at = first + column * 3 * 16
        written[at : at + 48] = written[first : first + 48]
    shared = pa.ipc.open_stream(bytes(written)).read_next_batch()
    shared.validate(full=True)
    assert shared.column("c8").to_pylist() == ["a" * 10_000]
    assert record_of(bytes(written)) is None


@pytest.mark.parametrize("value", [
    [True] * 10_000, [None] * 1000, [{"a": None, "b": [{"c": n}]} for n in range(1000)], [], {"a": {}}, "a" * 10_000,
])
def test_a_record_with_many_values_is_no_expansion(value: Any) -> None:
    record = record_of(blob(0, pa.RecordBatch.from_arrays([pa.array([value])], ["value"])))
    assert record is not None
    assert record.to_pylist() == [{"value": value}]


@pytest.mark.parametrize("column", [
    pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), SHARED),
    pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 0], pa.int32()), [SHARED]),
])
def test_a_column_whose_values_are_the_same_bytes_has_no_header(column: pa.Array) -> None:
    assert record_header(pa.RecordBatch.from_arrays([column], ["value"]), 0, LIMIT) == ()


@given(st.integers(0, 2**32))
@example(0)
def test_a_damaged_record_never_ends_the_process(seed: int) -> None:
    chance, damaged = random.Random(seed), bytearray(blob())
    for _ in range(chance.randint(1, 8)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    record = record_of(bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])]))
    assert record is None or len(record) == 1


def test_letters_with_a_record_or_its_bytes_are_replayable() -> None:
    own: list[list[tuple[str, bytes | None]] | None] = [
        [(RECORD, blob())], [(PRODUCED, b"3")], [(PRODUCED, b"-1")], [], None, [(RECORD, b"junk")], [(PRODUCED, b"-2")],
        [(RECORD, None)], [(PRODUCED, b"99999999999")]]
    assert SourceLetters(queue(*own), "c", any_record).replayable.tolist() == [True] * 3 + [False] * 6
    assert not SourceLetters(queue(*own, connector=b"other"), "c", any_record).replayable.any()
    assert SourceLetters(queue(), "c", any_record).replayable.tolist() == []


def test_a_record_that_the_pipeline_does_not_take_is_not_replayable() -> None:
    """It would end the replay, and each new one."""
    other = pa.RecordBatch.from_pydict({"valeu": [1]})
    raw, pipeline = queue([(RECORD, blob())], [(RECORD, blob(0, other))]), SourcePipeline(worker(), {})
    letters = SourceLetters(raw, "c", pipeline.takes)
    assert letters.replayable.tolist() == [True, False]


def test_chosen_records_keep_their_order_and_those_of_one_schema_are_together() -> None:
    other = pa.RecordBatch.from_pydict({"value": [1]})
    letters = SourceLetters(queue(
        [(RECORD, blob(0))], [(RECORD, blob(1))], [(RECORD, blob(0, other))], list(produced_header(3)),
        [(RECORD, blob(2))]), "c", any_record)
    found: list[Any] = list(letters.chosen(np.array([0, 1, 2, 3, 4])))
    assert [len(one) for one in found if isinstance(one, pa.RecordBatch)] == [2, 1, 1]
    assert found[0].to_pylist() == BATCH.slice(0, 2).to_pylist()
    produced = found[2]
    assert isinstance(produced, Produced)
    assert (produced.topic, produced.partitions.to_pylist()) == ("t", [3])
    [raw] = produced.raw.to_pylist()
    assert raw["headers"] == [{"key": "own", "value": b"1"}]
    assert (raw["key"], raw["value"], raw["timestamp"]) == (b"k", b"v", 7)
    assert [len(one) for one in letters.chosen(np.array([1, 4]))] == [2]


@pytest.mark.parametrize(("header", "timestamp"), [(b"12345", 12345), (b"-5", 7), (b"x", 7), (b"9" * 19, 7), (None, 7)])
def test_a_produced_record_has_its_own_timestamp_again(header: bytes | None, timestamp: int) -> None:
    letters = SourceLetters(queue([*produced_header(3), (TIMESTAMP, header)]), "c", any_record)
    [produced] = letters.chosen(np.array([0]))
    assert isinstance(produced, Produced)
    assert produced.raw.column("timestamp").to_pylist() == [timestamp]
