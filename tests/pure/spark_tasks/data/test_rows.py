"""Rows of any Arrow types become values that converters can write."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from spark_tasks.data.rows import plain
from spark_tasks.errors import DataError
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from tests.rigs.raw_records import JSON, worker

TEXTS = pa.array(["a", "b", "a"])


def as_json(rows):
    config = {"topic": "t", "value.converter": JSON, "value.converter.schemas.enable": "false"}
    (raw,) = [raw for _, _, raw in SourcePipeline(worker(), config, rows=True).to_raw(rows)]
    return raw["value"].to_pylist()


@pytest.mark.parametrize("column", [
    pa.array([["a"], ["b", None]], pa.large_list(pa.large_string())),
    pa.array([["a"], None], pa.list_(pa.string_view())),
    pa.ListArray.from_arrays([0, 1, 3], TEXTS.dictionary_encode()), pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
    pa.array([[9, 9], [9, 9], [1, 2], [3, 4]], pa.list_(pa.int64(), 2)).slice(2),
    pa.array([[1.5]], pa.list_(pa.float16())),
    pa.StructArray.from_arrays([TEXTS.dictionary_encode(), TEXTS.cast(pa.large_string())], ["x", "y"]),
    pa.array([{"x": [{"y": "a"}]}], pa.struct({"x": pa.large_list(pa.struct({"y": pa.string_view()}))})),
    pa.array([[("k", "v")]], pa.map_(pa.large_string(), pa.string_view())), pa.array([[5], []], pa.list_(pa.uint32())),
    pa.array([[3]], pa.list_(pa.duration("s"))),
], ids=lambda column: str(column.type))  # fmt: skip
def test_what_a_column_contains_is_written_as_json(column):
    """Texts in lists, maps and structs had no quotes if they were large, views or from a dictionary."""
    batch = pa.record_batch({"c": column})
    written = [json.loads(text)["c"] for text in as_json(batch)]
    expected = [dict(value) if pa.types.is_map(column.type) else value for value in column.to_pylist()]
    if column.type == pa.list_(pa.duration("s")):
        expected = [[3]]
    assert written == expected


def test_bytes_of_a_fixed_size_in_a_list_are_written_in_base64():
    batch = pa.record_batch({"c": pa.array([[b"ab"]], pa.list_(pa.binary(2)))})
    assert as_json(batch) == [b'{"c":["YWI="]}']


UUIDS = pa.array([b"0123456789abcdef", None], pa.uuid())


@pytest.mark.parametrize(("column", "written"), [
    (UUIDS, ["MDEyMzQ1Njc4OWFiY2RlZg==", None]), (pa.array(['{"a":1}'], pa.json_()), ['{"a":1}']),
    (pa.ListArray.from_arrays([0, 2], UUIDS), [["MDEyMzQ1Njc4OWFiY2RlZg==", None]]),
    (pa.StructArray.from_arrays([UUIDS], ["x"]), [{"x": "MDEyMzQ1Njc4OWFiY2RlZg=="}, {"x": None}]),
    (pa.MapArray.from_arrays([0, 1], ["k"], UUIDS.slice(0, 1)), [{"k": "MDEyMzQ1Njc4OWFiY2RlZg=="}]),
], ids=lambda value: str(getattr(value, "type", "")))  # fmt: skip
def test_an_extension_type_is_written_as_what_it_is_stored_as(column, written):
    """Arrow reads UUIDs and JSON in Parquet files as such types, which failed the task."""
    assert [json.loads(text)["c"] for text in as_json(pa.record_batch({"c": column}))] == written


def test_fields_keep_their_metadata():
    field = pa.field("x", pa.large_string(), metadata={"connect.form": "json"})
    (found,) = plain(pa.array([{"x": "1"}], pa.struct([field]))).type
    assert (found.type, found.metadata) == (pa.string(), {b"connect.form": b"json"})


@pytest.mark.parametrize("column", [pa.array([1, 2**63], pa.uint64()), pa.array([[2**63]], pa.list_(pa.uint64()))])
def test_an_unsigned_number_that_connect_does_not_have_is_an_error(column):
    """It became a negative one."""
    with pytest.raises(DataError, match="9223372036854775808"):
        as_json(pa.record_batch({"c": column}))
