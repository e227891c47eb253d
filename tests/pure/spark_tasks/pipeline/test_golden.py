"""The results of Java's converters, transforms and file source for the inputs in tests/golden/converters."""

import json
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from spark_tasks.connectors.file_stream.source import FileReader
from spark_tasks.data.schema import from_text
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.java_text import to_texts
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.primitive import ByteArrayConverter
from spark_tasks.pipeline.converters.simple_header import SimpleHeaderConverter
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from tests.pure.spark_tasks.pipeline.samples import JSON, raw_batch, worker

GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "converters" / "golden.json").read_text())


def converter(config):
    found = JsonConverter()
    found.configure(config, is_key=False)
    return found


def name(case):
    return json.dumps([case.get("config"), case.get("transforms"), case.get("text", case.get("data"))])[:150]


@pytest.mark.parametrize("case", GOLDEN["json"], ids=name)
def test_json_converter_equals_javas(case):
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


@pytest.mark.parametrize("case", GOLDEN["headers"], ids=lambda case: repr(case["text"]))
def test_simple_header_converter_equals_javas(case):
    found = SimpleHeaderConverter()
    data = None if case["text"] is None else case["text"].encode()
    schema, value = found.to_connect_header("t", "h", data)
    java = (
        None if schema is None else {"float": "float32", "double": "float64"}.get(schema.type.value, schema.type.value)
    )
    assert (java, schema and schema.name) == (case["type"], case["name"])
    written = found.from_connect_header("t", "h", schema, value)
    assert (None if written is None else written.decode()) == case["written"]


@pytest.mark.parametrize("case", GOLDEN["transforms"], ids=name)
def test_transforms_equal_javas(case):
    chain = {f"transforms.t{i}.{key}": value for i, one in enumerate(case["transforms"]) for key, value in one.items()}
    aliases = ",".join(f"t{i}" for i in range(len(case["transforms"])))
    config = {"value.converter": JSON, **{f"value.converter.{k}": v for k, v in case["config"].items()}}
    pipeline = SinkPipeline(worker(), {**config, **chain, "transforms": aliases})
    raw = raw_batch(
        [case["text"] if case["text"] is None else case["text"].encode()], offset=17, timestamp=1700000000000
    )
    writer = converter(case["config"])
    if case.get("error"):
        with pytest.raises(DataError):
            pipeline.to_connect("t", 3, raw)
        return
    batch = pipeline.to_connect("t", 3, raw)
    value, metadata = batch.column("value"), batch.schema.field("value").metadata
    written = writer.from_connect("t", value, metadata)[0].as_py()
    assert (written and written.decode()) == case["written"]
    if "Date" not in case["value"] if case["value"] else True:
        shown = to_texts(value, metadata)[0].as_py()
        assert shown == case["value"]


@pytest.mark.parametrize("case", GOLDEN["files"], ids=lambda case: repr(case["pieces"])[:60])
def test_file_stream_source_reads_the_same_lines_as_javas(case, tmp_path):
    file = tmp_path / "in.txt"
    reader, position = FileReader(str(file), "t"), None
    assert reader.latestOffset(reader.initialOffset()) == reader.initialOffset(), "a missing file is waited for"
    offset = reader.initialOffset()
    for piece, step in zip(case["pieces"], case["steps"], strict=True):
        with file.open("ab") as out:
            out.write(piece.encode("latin-1"))
        end = reader.latestOffset(offset)
        lines = [
            line
            for part in reader.partitions(offset, end)
            for b in reader.read(part)
            for line in b["value"].to_pylist()
        ]
        assert lines == step["lines"]
        position = end["position"] if lines else None
        assert position == step["position"]
        offset = end
