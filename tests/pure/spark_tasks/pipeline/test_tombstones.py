"""A record without a key or value is changed as if it were alone, whatever the records around it have."""

import json

import pyarrow as pa
import pytest

from spark_tasks.data.columns import in_order
from spark_tasks.pipeline import tombstones
from spark_tasks.pipeline.converters.java_column_text import to_texts
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from tests.rigs.raw_records import JSON, STRING, raw_batch, worker

T = "org.apache.kafka.connect.transforms."
STRUCT = {"type": "struct", "optional": True, "fields": [{"field": "a", "type": "int32", "optional": True}]}
RECORD = json.dumps({"schema": STRUCT, "payload": {"a": 1}}).encode()
NULL = json.dumps({"schema": STRUCT, "payload": None}).encode()
SOME = [[RECORD, None], [None, RECORD], [RECORD, None, NULL], [None], [NULL, None]]


def pipeline(transform, config, *, converter=JSON):
    own = {f"transforms.t.{key}": value for key, value in {"type": T + transform, **config}.items()}
    return SinkPipeline(worker(), {"value.converter": converter, "transforms": "t", **own})


def shown(values, *args, **kwargs):
    """The values in order as text, and of a record that was refused its error."""
    found = {}
    made = pipeline(*args, **kwargs).to_connect_by_schema(
        "t", 0, raw_batch(values), lambda failure: found.update({failure.row: failure.message}))
    for batch in made:
        texts = to_texts(batch.column("value"), batch.schema.field("value").metadata).to_pylist()
        found.update(zip(batch.column("offset").to_pylist(), texts, strict=True))
    return [found[row] for row in range(len(values))]


@pytest.mark.parametrize("values", SOME)
def test_a_tombstone_is_wrapped_in_a_map_and_a_null_with_a_schema_in_a_struct(values):
    expected = {RECORD: "Struct{w=Struct{a=1}}", NULL: "Struct{}", None: "{w=null}"}
    assert shown(values, "HoistField$Value", {"field": "w"}) == [expected[value] for value in values]


@pytest.mark.parametrize("values", SOME)
def test_the_error_of_a_tombstone_is_that_of_a_record_without_a_schema(values):
    expected = {RECORD: "Struct{a=0}",
                NULL: "Only Struct objects supported for [mask fields], found: null",
                None: "Only Map objects supported in absence of schema for [mask fields], found: null"}  # fmt: skip
    assert shown(values, "MaskField$Value", {"fields": "a"}) == [expected[value] for value in values]


@pytest.mark.parametrize("values", [[b"x", None], [None], [None, None, b"y"]])
def test_a_null_that_a_converter_gives_a_schema_keeps_it_also_if_the_batch_has_only_nulls(values):
    expected = [f"Struct{{w={value.decode()}}}" if value else "Struct{}" for value in values]
    assert shown(values, "HoistField$Value", {"field": "w"}, converter=STRING) == expected


def test_tombstones_are_in_one_batch_with_the_others_when_they_reach_a_sink():
    values = [RECORD, None] * 100
    [batch] = pipeline("InsertField$Value", {"static.field": "s", "static.value": "x"}).to_connect_by_schema(
        "t", 0, raw_batch(values))
    assert batch.column("offset").to_pylist() == list(range(200))
    assert batch.column("value").to_pylist() == [{"a": 1, "s": "x"}, None] * 100


def test_a_tombstone_without_transforms_is_a_null_of_the_column():
    pipeline = SinkPipeline(worker(), {"value.converter": JSON})
    [batch] = pipeline.to_connect_by_schema("t", 0, raw_batch([RECORD, None]))
    assert batch.column("value").to_pylist() == [{"a": 1}, None]


NAMES_ONE = """
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json import JsonConverter

class NamesOne(JsonConverter):
    rows = 0

    def to_connect(self, topic, array, headers=None):
        try:
            converted = super().to_connect(topic, array, headers)
        except BadRowError as error:
            raise BadRowError(error.row, error.reason) from error
        self.rows += len(array)
        return converted
"""


def test_no_record_is_converted_twice_because_there_are_tombstones_and_bad_records(tmp_path):
    (tmp_path / "names_one.py").write_text(NAMES_ONE)
    values = [RECORD, None] * 100
    values[20] = values[120] = values[160] = b"{"
    transform = {f"transforms.t.{key}": value for key, value in {
        "type": T + "InsertField$Value", "static.field": "s", "static.value": "x"}.items()}
    pipeline = SinkPipeline(worker(**{"plugin.path": str(tmp_path), "value.converter": "NamesOne"}),
                            {"transforms": "t", **transform})
    refused = []
    [batch] = pipeline.to_connect_by_schema("t", 0, raw_batch(values), refused.append)
    good = [row for row, value in enumerate(values) if value != b"{"]
    assert batch.column("offset").to_pylist() == good
    assert batch.column("value").to_pylist() == [None if row % 2 else {"a": 1, "s": "x"} for row in good]
    assert [failure.row for failure in refused] == [20, 120, 160]
    assert pipeline.stages.value.rows == len(good)


def of(offsets, values):
    return pa.record_batch({"offset": pa.array(offsets, pa.int64()), "key": pa.nulls(len(values)), "value": values})


def test_records_that_a_transform_has_made_of_one_record_keep_their_order():
    """A deletion before what replaces it: the other way round, the record would be lost."""
    batches = [of([0, 1], pa.nulls(2)), of([0, 1], pa.array(["a", "b"]))]
    found = [row for batch in in_order(tombstones.together(batches)) for row in batch.to_pylist()]
    assert [(row["offset"], row["value"]) for row in found] == [(0, None), (0, "a"), (1, None), (1, "b")]


def test_many_batches_become_one_in_order():
    batches = [of([n], pa.nulls(1) if n % 2 else pa.array(["a"])) for n in reversed(range(100))]
    [whole] = tombstones.together(batches)
    assert whole.column("offset").to_pylist() == list(range(100))
    assert whole.column("value").to_pylist() == ["a", None] * 50
