"""The results of Java's converters for the inputs in tests/golden/converters."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from spark_tasks.data.schema import from_text
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.java_column_text import to_texts
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.primitive import ByteArrayConverter
from spark_tasks.pipeline.converters.simple_header import SimpleHeaderConverter

GOLDEN = json.loads((Path(__file__).parents[4] / "golden" / "converters" / "golden.json").read_text())


def converter(config):
    found = JsonConverter()
    found.configure(config, is_key=False)
    return found


def each(cases, check):
    """Check all cases, which take less time than a test of their own would. The error names the failed one."""
    for case in cases:
        try:
            check(case)
        except Exception as error:
            error.add_note(f"case {json.dumps(case)}")
            raise


def test_json_converter_equals_javas():
    assert len(GOLDEN["json"]) > 200
    each(GOLDEN["json"], as_json)


def as_json(case):
    reader, writer = converter(case["config"]), converter(case.get("write", case["config"]))
    data = pa.array([None if case["text"] is None else case["text"].encode()], pa.binary())
    if case.get("error") and case.get("value") is None:  # with a value: Java cannot write a Decimal of another scale
        with pytest.raises(DataError):
            writer.from_connect("t", *reader.to_connect("t", data))
        return
    array, metadata = reader.to_connect("t", data)
    if case.get("error"):
        return
    expected = case["value"]
    shown = to_texts(array, metadata)[0].as_py()
    written = writer.from_connect("t", array, metadata)[0].as_py()
    assert (written is None, written and written.decode()) == (case["written"] is None, case["written"])
    if not (expected or "").startswith("[B@"):
        assert shown == expected or (expected is None and shown in (None, "null"))


CLASSES = {"StringConverter": "string", "JsonConverter": "json"}


@pytest.mark.parametrize(
    "case", GOLDEN["converters"], ids=lambda case: case["class"].rpartition(".")[2] + repr(case["data"])
)
def test_other_converters_equal_javas(case):
    simple = case["class"].rpartition(".")[2]
    found = getattr(import_module(f"spark_tasks.pipeline.converters.{CLASSES.get(simple, 'primitive')}"), simple)()
    found.configure(case["config"], is_key=False)
    data = pa.array([None if case["data"] is None else case["data"].encode("latin-1")], pa.binary())
    if case.get("error"):
        with pytest.raises(DataError):
            found.to_connect("t", data)
        return
    array, metadata = found.to_connect("t", data)
    schema = from_text(metadata[b"connect.schema"])
    java = {"float": "float32", "double": "float64"}.get(schema.type.value, schema.type.value)
    assert java + "?" * schema.optional == case["type"]
    if isinstance(found, ByteArrayConverter):
        value = array[0].as_py()
        assert (None if value is None else value.decode("latin-1")) == case["value"]
    else:
        assert to_texts(array, metadata)[0].as_py() == case["value"]
    written = found.from_connect("t", array, metadata)[0].as_py()
    assert (None if written is None else written.decode("latin-1")) == case["written"]


def test_simple_header_converter_equals_javas():
    assert len(GOLDEN["headers"]) > 70
    each(GOLDEN["headers"], as_header)


def as_header(case):
    found = SimpleHeaderConverter()
    data = None if case["text"] is None else case["text"].encode()
    schema, value = found.to_connect_header("t", "h", data)
    java = (
        None if schema is None else {"float": "float32", "double": "float64"}.get(schema.type.value, schema.type.value)
    )
    assert (java, schema and schema.name) == (case["type"], case["name"])
    written = found.from_connect_header("t", "h", schema, value)
    assert (None if written is None else written.decode()) == case["written"]
