"""Connect's records cross between heeler's part of a chain and Java's without loss."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.data.columns import RAW_SCHEMA, SCHEMA_KEY, in_order
from spark_tasks.data.host_records import CutRecords, is_converted, schema_text
from spark_tasks.data.schema import from_text, to_text
from spark_tasks.errors import ConnectError
from spark_tasks.pipeline.handover import JavaSinkPipeline, JavaSourcePipeline, from_json, to_json
from spark_tasks.plugins.chain_cut import Cut

CONNECT = "org.apache.kafka.connect."
JSON = f"{CONNECT}json.JsonConverter"


def field(called, kind, **more):
    return {"field": called, "type": kind, "optional": True, **more}


SCHEMA = {"type": "struct", "optional": False, "name": "acme.All", "fields": [
    field("i", "int8"), field("l", "int64"), field("d", "double", default=1.5), field("b", "bytes"),
    field("s", "string"), field("t", "boolean"), field("a", "array", items={"type": "int32", "optional": False}),
    field("m", "map", keys={"type": "string", "optional": False}, values={"type": "int64", "optional": True}),
    field("n", "bytes", name=f"{CONNECT}data.Decimal", version=1, parameters={"scale": "2"}),
    field("w", "int64", name=f"{CONNECT}data.Timestamp", version=1)]}
TYPE = pa.struct([
    ("i", pa.int8()), ("l", pa.int64()), ("d", pa.float64()), ("b", pa.binary()), ("s", pa.string()), ("t", pa.bool_()),
    ("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int64())), ("n", pa.decimal128(38, 2)),
    ("w", pa.timestamp("ms", "UTC"))])
LONGS = st.integers(-2**63, 2**63 - 1)
ROWS = st.none() | st.fixed_dictionaries({name: st.none() | values for name, values in {
    "i": st.integers(-128, 127), "l": LONGS, "d": st.floats(), "b": st.binary(max_size=9), "s": st.text(max_size=9),
    "t": st.booleans(), "a": st.lists(st.integers(-9, 9), max_size=3),
    "m": st.dictionaries(st.text(max_size=3), st.none() | LONGS, max_size=3).map(lambda m: list(m.items())),
    "n": st.decimals(-10**9, 10**9, places=2, allow_nan=False).map(lambda d: Decimal(d).quantize(Decimal("0.01"))),
    "w": st.integers(-10**12, 10**13).map(
        lambda ms: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(0, 0, 0, ms)),
}.items()})


def same(found, wanted):
    """As Python's values, NaN like NaN and 0.0 unlike -0.0."""
    if isinstance(wanted, float):
        return math.isnan(found) if math.isnan(wanted) else (found, math.copysign(1, found)) == (
            wanted, math.copysign(1, wanted))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    return dict(found) == dict(wanted) if wanted and isinstance(wanted, list) and isinstance(wanted[0], tuple) else (
        found == wanted)


@given(st.lists(ROWS, max_size=5))
def test_values_with_a_schema_round_trip_through_json(rows):
    schema = to_text(from_text(json.dumps(SCHEMA)))
    texts, described = to_json(pa.array(rows, TYPE), {SCHEMA_KEY: schema.encode()})
    assert described == schema
    assert [text is None for text in texts.to_pylist()] == [row is None for row in rows]
    found, metadata = from_json(texts, schema)
    assert metadata == {SCHEMA_KEY: schema.encode()}
    assert all(same(one, row) if row is not None else one is None
               for one, row in zip(found.to_pylist(), rows, strict=True))


def test_a_null_for_a_required_field_is_an_error_and_not_its_default():
    texts, _ = to_json(pa.array([{"d": None}], pa.struct([("d", pa.float64())])), {SCHEMA_KEY: json.dumps(
        {"type": "struct", "optional": False, "fields": [field("d", "double", default=1.5)]}).encode()})
    assert texts.to_pylist() == [b'{"d":null}']
    required = {"type": "struct", "optional": False, "fields": [{"field": "d", "type": "double", "optional": False}]}
    with pytest.raises(ConnectError, match="null value for field that is required"):
        to_json(pa.array([{"d": None}], pa.struct([("d", pa.float64())])), {SCHEMA_KEY: json.dumps(required).encode()})


def raw(*rows):
    return pa.RecordBatch.from_pylist(
        [{"offset": offset, "timestamp": 5, "key": b"k", "value": value, "headers": [{"key": "h", "value": b"1"}]}
         for offset, value in rows], schema=RAW_SCHEMA)


class Refused(list):
    def __call__(self, failure):
        self.append((failure.row, failure.stage.name, failure.class_name))


def test_records_for_a_java_sink_keep_their_original_fields():
    connector = {"value.converter": JSON, "value.converter.schemas.enable": "false", "key.converter": "somebody.Elses",
                 "transforms": "route", "transforms.route.type": f"{CONNECT}transforms.RegexRouter",
                 "transforms.route.regex": "t", "transforms.route.replacement": "u"}
    cut = Cut(("route",), (), frozenset({"value"}))
    pipeline, refused = JavaSinkPipeline({}, cut.for_far(connector), cut.converted), Refused()
    given_rows = raw((3, b'{"n":1}'), (4, b"{"), (7, None), (8, b'{"n":2}'))
    batches = list(in_order(pipeline.to_connect_by_schema("t", 1, given_rows, refused)))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert refused == [(1, "VALUE_CONVERTER", JSON)]
    assert [(row["offset"], row["value"], row["cut.value"], row["cut.key"], row["cut.topic"], row["cut.partition"])
            for row in rows] == [(3, b'{"n":1}', b'{"n":1}', b"k", "u", 1), (7, None, None, b"k", "u", 1),
                                 (8, b'{"n":2}', b'{"n":2}', b"k", "u", 1)]
    assert all(is_converted(batch, "value") and not is_converted(batch, "key") for batch in batches)
    assert all(schema_text(batch, "value") is None for batch in batches)


def test_transforms_that_mix_up_records_before_a_java_sink_are_refused(monkeypatch):
    cut = Cut((), (), frozenset({"value"}))
    pipeline = JavaSinkPipeline({}, cut.for_far({"value.converter": JSON}), cut.converted)
    mixed = list(super(JavaSinkPipeline, pipeline).to_connect_by_schema("t", 0, raw((1, None), (2, None))))
    for orders in ([[1, 0]], [[0], [0, 1]]):
        monkeypatch.setattr("spark_tasks.pipeline.sink_pipeline.SinkPipeline.to_connect_by_schema",
                            lambda *_, orders=orders: [mixed[0].take(pa.array(order)) for order in orders])
        with pytest.raises(ConnectError, match="keep the order of records"):
            list(pipeline.to_connect_batches("t", 0, raw((1, None), (2, None))))


def test_records_of_a_java_source_are_grouped_by_schema():
    """A tombstone among records with a schema remains a tombstone; results have the row numbers of their records."""
    connector = {"value.converter": JSON, "key.converter": "somebody.Elses", "transforms": "f", "predicates": "p",
                 "transforms.f.type": f"{CONNECT}transforms.Filter", "transforms.f.predicate": "p",
                 "predicates.p.type": f"{CONNECT}transforms.predicates.TopicNameMatches",
                 "predicates.p.pattern": "gone"}
    cut = Cut(("f",), (), frozenset({"value"}))
    pipeline = JavaSourcePipeline({}, cut.for_far(connector), cut.converted)
    records = CutRecords(
        ("t", "gone"), np.array([0, 1, 0, 0], np.int32), np.array([-1, -1, -1, 2], np.int32),
        raw((0, b"1"), (0, b"2"), (0, None), (0, b'"NaN"')),
        np.full(4, -1, np.int32), np.array([0, 0, -1, 1], np.int32),
        ('{"type":"int32","optional":true}', '{"type":"double","optional":true}'))
    found = list(pipeline.raw_batches(records, lambda _: Refused()))
    rows = [(topic, partitions and partitions.to_pylist(), row["offset"], row["key"], row["value"])
            for topic, partitions, part in found for row in part.to_pylist()]
    assert rows == [
        ("t", None, 0, b"k", b'{"schema":{"type":"int32","optional":true},"payload":1}'),
        ("t", None, 2, b"k", None),
        ("t", [2], 3, b"k", b'{"schema":{"type":"double","optional":true},"payload":"NaN"}')]


def test_a_missing_timestamp_of_a_java_source_is_none_for_python_transforms():
    connector = {"value.converter": JSON, "key.converter": "somebody.Elses", "transforms": "r",
                 "transforms.r.type": f"{CONNECT}transforms.TimestampRouter"}
    cut = Cut(("r",), (), frozenset({"value"}))
    pipeline, refused = JavaSourcePipeline({}, cut.for_far(connector), cut.converted), Refused()
    given = raw((0, b"1"), (0, b"2"))
    given = given.set_column(1, RAW_SCHEMA.field(1), pa.array([5, -1]))
    records = CutRecords(("t",), np.zeros(2, np.int32), np.full(2, -1, np.int32), given,
                         np.full(2, -1, np.int32), np.full(2, -1, np.int32), ())
    assert [topic for topic, _, _ in pipeline.raw_batches(records, lambda _: refused)] == ["t-19700101"]
    assert [(row, stage) for row, stage, _ in refused] == [(1, "TRANSFORMATION")]
