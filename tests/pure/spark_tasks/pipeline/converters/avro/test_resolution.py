"""Values of one schema as those of another, beside fastavro's and Java's schema resolution."""

import gzip
import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from spark_tasks.pipeline.converters.avro import columns
from spark_tasks.pipeline.converters.avro.codec import AvroCodec, wire_type
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.resolution import resolved
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.registry.errors import UnusableSchemaError
from tests.golden.avro_resolution.ours import difference

GOLDEN = Path(__file__).parents[5] / "golden" / "avro_resolution" / "golden.jsonl.gz"
AB = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, **more, "fields": [
        {"name": one[0], "type": one[1], **(one[2] if len(one) > 2 else {})} for one in fields]}


def written(values, definition):
    judge = fastavro.parse_schema(json.loads(json.dumps(definition)))
    payloads = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, judge, value)
        payloads.append(out.getvalue())
    return payloads


def by_heeler(payloads, theirs, mine):
    one, other = parse(json.dumps(theirs)), parse(json.dumps(mine))
    found = resolved(AvroCodec(one).decode(payloads), one, other)
    found.validate(full=True)
    assert found.type == wire_type(other)
    return columns.to_connect(found, other, connect_schema(other, AvroOptions())).to_pylist()


def by_fastavro(payloads, theirs, mine):
    judges = [fastavro.parse_schema(json.loads(json.dumps(one))) for one in (theirs, mine)]
    return [fastavro.schemaless_reader(io.BytesIO(payload), *judges) for payload in payloads]


@pytest.mark.parametrize(("theirs", "mine", "values"), [
    ("int", "long", [1, -1]), ("int", "float", [1]), ("int", "double", [1]), ("long", "double", [2**53, -1]),
    ("float", "double", [0.5]), ("string", "bytes", ["grün"]), ("bytes", "string", ["grün".encode()]),
    ("int", ["null", "long"], [1]), (["null", "int"], ["long", "null"], [None, 1, None]),
    (["null", "int"], "long", [1, 2]), ("null", ["null", "int"], [None]), ({"type": "array", "items": "int"},
     {"type": "array", "items": ["null", "double"]}, [[1, 2], [], [3]]),
    (AB, {**AB, "symbols": ["B", "A", "C"]}, ["A", "B"]),
    (AB, {**AB, "symbols": ["B", "C"], "default": "C"}, ["A", "B"]), (FIXED, FIXED, [b"ab"]),
    (record(("a", "int"), ("gone", "string"), ("b", "string")), record(("b", "string"), ("a", "double")),
     [{"a": 1, "gone": "x", "b": "y"}]),
    (record(("a", "int")), record(("a", "int"), ("n", ["null", "int"], {"default": None}),
                                  ("t", {"type": "array", "items": "string"}, {"default": ["x"]}),
                                  ("r", record(("x", "int", {"default": 3}), name="I"), {"default": {"x": 4}})),
     [{"a": 1}, {"a": 2}]),
    (record(("old", "int")), record(("new", "long", {"aliases": ["old"]})), [{"old": 1}]),
    (record(("o", ["null", record(("x", "int"), name="I")])),
     record(("o", ["null", record(("x", "long"), ("y", "string", {"default": "d"}), name="I")])),
     [{"o": {"x": 1}}, {"o": None}, {"o": {"x": 3}}]),
    (record(("l", {"type": "array", "items": ["null", record(("x", "int"), name="I")]})),
     record(("l", {"type": "array", "items": ["null", record(("x", "long"), name="I")]})),
     [{"l": [None, {"x": 1}]}, {"l": []}, {"l": [{"x": 2}, None]}]),
])
def test_values_are_those_that_fastavro_resolves(theirs, mine, values):
    payloads = written(values, theirs)
    assert by_heeler(payloads, theirs, mine) == by_fastavro(payloads, theirs, mine)


def test_maps_and_unions_are_resolved_by_their_values():
    theirs = record(("m", {"type": "map", "values": "int"}), ("u", ["null", "int", "string"]))
    mine = record(("u", ["string", "long", "null", "boolean"]), ("m", {"type": "map", "values": ["long", "null"]}))
    payloads = written([{"m": {"k": 1}, "u": 5}, {"m": {}, "u": "s"}, {"m": {}, "u": None}], theirs)
    none = {"string": None, "long": None, "boolean": None}
    assert by_heeler(payloads, theirs, mine) == [
        {"u": {**none, "long": 5}, "m": [("k", 1)]}, {"u": {**none, "string": "s"}, "m": []}, {"u": None, "m": []}]


@pytest.mark.parametrize(("branches", "chosen"), [
    ([record(("y", "int"), name="A"), record(("x", "long"), name="far.R")], "R"),
    ([record(("x", "long"), name="A"), record(("x", "long"), name="B")], "A"),
    ([record(("x", "long"), name="A"), record(("x", "long"), name="far.R")], "R"),
    ([record(("x", "long"), name="A"), record(("x", "int"), name="R")], "R"),
    ([record(("x", "long"), name="A"), record(("x", "int"), name="B", aliases=["R"])], "B"),
    ([record(("x", "string"), name="A"), record(("x", ["null", "long"]), name="B")], "B"),
    ([record(("x", AB), name="A"), record(("x", "long"), ("z", "int"), name="B"), record(name="C")], "C"),
])
def test_a_record_is_the_branch_with_its_name_or_else_with_fitting_fields(branches, chosen):
    """In Java's order; fastavro has another one."""
    theirs = record(("x", "int"))
    [found] = by_heeler(written([{"x": 1}], theirs), theirs, [*branches, "int"])
    assert [name for name, value in found.items() if value is not None] == [chosen]


@pytest.mark.parametrize(("theirs", "mine", "values", "bad", "words"), [
    ("string", "int", ["a", "b"], [0, 1], "Avro's string was written, which cannot be read as Avro's int"),
    (["null", "int"], "int", [None, 1, None], [0, 2], "null was written"),
    (["int", "string"], "int", [1, "s"], [1], "string was written"),
    ("string", ["null", "int"], ["s"], [0], "has no branch"),
    (AB, {**AB, "symbols": ["B"]}, ["B", "A"], [1], "a symbol was written that the enum E"),
    (AB, {**AB, "name": "Other"}, ["A"], [0], "the enum E was written, which cannot be read as the enum Other"),
    (FIXED, {**FIXED, "size": 3}, [b"ab"], [0], "the fixed F"),
    (record(("a", "int")), record(("b", "int")), [{"a": 1}, {"a": 2}], [0, 1], "the field b was not written"),
    ({"type": "array", "items": ["int", "string"]}, {"type": "array", "items": "int"}, [[1], [], [2, "s"]], [2],
     "string was written"),
    ({"type": "map", "values": ["null", "int"]}, {"type": "map", "values": "int"}, [{"a": 1}, {"a": None}], [1],
     "null was written"),
    (record(("o", ["null", "string"])), record(("o", ["null", "int"])), [{"o": None}, {"o": "x"}], [1], "no branch"),
])
def test_only_records_with_values_that_do_not_fit_are_bad(theirs, mine, values, bad, words):
    with pytest.raises(BadRowsError, match=words) as error:
        by_heeler(written(values, theirs), theirs, mine)
    assert [row for row, _ in error.value.bad] == bad


def test_an_invalid_default_makes_the_schema_unusable():
    theirs, mine = record(("a", "int")), record(("b", "string", {"default": 5}))
    with pytest.raises(UnusableSchemaError, match="the default 5 of the field b is not of its type"):
        by_heeler(written([{"a": 1}], theirs), theirs, mine)


def test_a_default_of_a_record_is_completed_by_those_of_its_fields():
    """As in Java."""
    theirs, inner = record(), record(("x", "int", {"default": 3}), name="I")
    assert by_heeler([b""], theirs, record(("r", inner, {"default": {}}))) == [{"r": {"x": 3}}]


def test_bytes_that_are_no_text_are_replaced():
    assert by_heeler(written([b"\xff", b"a"], "bytes"), "bytes", "string") == ["\ufffd", "a"]


def test_an_empty_batch_has_the_type_of_the_schema_to_read_with():
    one, other = parse('["null","int"]'), parse('["null","long","string"]')
    assert resolved(pa.nulls(0, wire_type(one)), one, other).type == wire_type(other)


def test_the_recorded_pairs_of_schemas_are_resolved_as_in_java():
    """Among them are many that do not fit."""
    cases = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).decode().split("\n")[:-1]]
    assert [told for told in map(difference, cases) if told is not None] == []
    assert 100 < sum("error" in one["java"] for one in cases) < len(cases) - 300


@pytest.mark.parametrize(("mine", "value"), [
    (record(("new", "int", {"aliases": ["a"]}), name="R"), {"new": 1}),
    (record(("new", "int", {"aliases": ["a"]}), name="Other", aliases=["R"]), {"new": 1}),
    (record(("new", "int", {"aliases": ["a"]}), name="Other"), None),
])
def test_fields_have_aliases_only_in_the_same_record(mine, value):
    theirs = record(("a", "int"))
    payloads = written([{"a": 1}], theirs)
    if value is None:
        with pytest.raises(BadRowsError, match="the field new was not written"):
            by_heeler(payloads, theirs, mine)
    else:
        assert by_heeler(payloads, theirs, mine) == [value]


def test_only_unions_distinguish_namespaces_of_enums():
    theirs, mine = {**AB, "name": "a.E"}, {**AB, "name": "b.E"}
    assert by_heeler(written(["B"], theirs), theirs, mine) == ["B"]
    with pytest.raises(BadRowsError, match="has no branch"):
        by_heeler(written(["B"], theirs), theirs, [mine, "int"])
