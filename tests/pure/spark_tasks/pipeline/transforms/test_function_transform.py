"""@transform: the code in docs/writing-a-transform.md works; what functions may return."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from heeler import ConfigError, DataError, transform
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DATE, DECIMAL, TIME, Field, Schema, Type, to_text
from spark_tasks.errors import RetriableError, ToleranceExceededError, short_trace
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError
from spark_tasks.pipeline.errors.failures import StageOutageError
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.pipeline.transforms.chain import Stage, TransformError
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.validation import plugin_config
from tests.rigs.raw_records import JSON, converted, raw_batch, worker

GUIDE = (Path(__file__).parents[5] / "docs" / "writing-a-transform.md").read_text()
BLOCKS = dict(re.findall(r"<!-- test: (\w+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL))
SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("transforms")
    names = {"record": "shouting", "options": "multiplying", "batches": "guide_large", "adding": "guide_again",
             "class": "guide_sampled"}  # fmt: skip
    for block, name in names.items():
        (found / f"{name}.py").write_text(BLOCKS[block])
    return str(found)


def through(folder, values, **config):
    pipeline = SinkPipeline(worker(**{"plugin.path": folder}), {**SCHEMALESS, "transforms": "s", **config})
    raw = raw_batch([json.dumps(value).encode() for value in values])
    return [value for b in pipeline.to_connect_batches("t", 0, raw) for value in b.column("value").to_pylist()]


def test_the_guides_first_transform_works_in_ten_lines(folder):
    assert len([line for line in BLOCKS["record"].splitlines() if line.strip()]) <= 10
    found = through(folder, [{"name": "x"}, {"name": None}, {"name": "y"}], **json.loads(BLOCKS["config"]))
    assert found == [{"name": "X"}, {"name": "Y"}]


def test_the_guides_transform_with_options_works(folder):
    config = {"transforms.s.type": "multiplying.multiply", "transforms.s.field": "a", "transforms.s.times": "3"}
    assert through(folder, [{"a": 5}], **config) == [{"a": 15}]
    assert [key["name"] for key in plugin_config(Plugins(folder), "multiplying.multiply")] == ["field", "times"]


def test_the_guides_transforms_on_batches_and_as_a_class_work(folder):
    amounts = [{"amount": amount} for amount in (1, 5000, 20, 1001)]
    assert through(folder, amounts, **{"transforms.s.type": "large"}) == [{"amount": 5000}, {"amount": 1001}]
    twice = through(folder, amounts[:2], **{"transforms.s.type": "again"})
    assert twice == [{"amount": 1}, {"amount": 1}, {"amount": 5000}, {"amount": 5000}]
    sampled = through(folder, amounts, **{"transforms.s.type": "guide_sampled.Sampled", "transforms.s.n": "3"})
    assert sampled == [amounts[0], amounts[3]]


def test_transforms_are_found_by_name(folder):
    names = Plugins(folder).names(Kind.TRANSFORMATION)
    assert {"shouting.shout", "multiplying.multiply", "guide_large.large", "guide_sampled.Sampled"} <= set(names)


def test_the_bad_record_is_named(folder):
    words = r"shouting.shout\) cannot transform record t-0, offset 1: .*AttributeError"
    with pytest.raises(ToleranceExceededError, match=words):
        through(folder, [{"name": "x"}, 5], **{"transforms.s.type": "shout"})


def numbers(size=5):
    columns = {"topic": ["t"] * size, "value": list(range(size))}
    return pa.RecordBatch.from_pydict(columns)


def configured(function, **options):
    one = function()
    one.configure(options)
    return one


def applied(function, batch, **options):
    found = configured(function, **options).apply(batch)
    return [found] if isinstance(found, pa.RecordBatch) else list(found)


def struct_batch():
    described = (
        b'{"type":"struct","optional":false,"fields":[{"field":"n","type":"int8","optional":false},'
        b'{"field":"at","type":"int64","optional":true,"name":"org.apache.kafka.connect.data.Timestamp","version":1}]}'
    )
    kind = pa.struct([pa.field("n", pa.int8(), nullable=False), pa.field("at", pa.timestamp("ms", tz="UTC"))])
    value = pa.array([{"n": 5, "at": datetime(2024, 2, 29, tzinfo=UTC)}], kind)
    field = pa.field("value", kind, metadata={SCHEMA_KEY: described})
    return pa.RecordBatch.from_arrays([value], schema=pa.schema([field]))


def test_schemas_are_kept_and_extended():
    @transform
    def more(record):
        assert record.value["at"] == datetime(2024, 2, 29, tzinfo=UTC)
        record.value["n"] += 1
        record.value["text"] = "x"
        record.key, record.topic, record.headers = {"k": 1}, "other", [("h", b"1")]
        return record

    (batch,) = applied(more, struct_batch())
    ((topic, _, raw),) = SourcePipeline(worker(**{"key.converter": JSON, "value.converter": JSON}), {}).to_raw(batch)
    value = json.loads(raw.column("value")[0].as_py())
    assert (topic, raw.column("headers").to_pylist()) == ("other", [[{"key": "h", "value": b"1"}]])
    assert value["payload"] == {"n": 6, "at": 1709164800000, "text": "x"}
    assert [(f["field"], f["type"], f["optional"]) for f in value["schema"]["fields"]] == [
        ("n", "int8", False), ("at", "int64", True), ("text", "string", True),
    ]  # fmt: skip
    assert json.loads(raw.column("key")[0].as_py()) == {"schema": None, "payload": {"k": 1}}


NUMBERS = {"type": "struct", "fields": [
    {"field": "byte", "type": "int8"}, {"field": "int", "type": "int32"}, {"field": "float", "type": "float"},
    {"field": "ints", "type": "array", "items": {"type": "int32"}}]}  # fmt: skip


def numbers_set(**new):
    @transform
    def change(record):
        record.value.update(new)
        return record

    config = {"value.converter": JSON}
    text = json.dumps({"schema": NUMBERS, "payload": {"byte": 1, "int": 2, "float": 3.5, "ints": [4]}})
    (batch,) = applied(change, converted(SinkPipeline(worker(), config), "t", 0, raw_batch([text.encode()])))
    return batch.column("value")[0].as_py()


@pytest.mark.parametrize(("field", "number", "shown"), [
    ("byte", 128, "128"), ("int", 2**31, "2147483648"), ("int", 1.5, "1.5"), ("float", 1e39, "1e+39"),
    ("float", 10**39, str(10**39)), ("int", float("nan"), "nan"), ("ints", [1, 2**40], str(2**40)),
])
def test_a_number_that_does_not_fit_makes_a_bad_record(field, number, shown):
    """Its high bits or its decimal places were cut off."""
    with pytest.raises(BadRowError, match=rf"^{re.escape(shown)} does not fit schema type (INT8|INT32|FLOAT32)"):
        numbers_set(**{field: number})


@pytest.mark.parametrize(("field", "number"), [
    ("byte", -128), ("int", 2.0), ("float", 5), ("float", 2**70), ("float", float("-inf")), ("float", 0.1),
    ("ints", [-(2**31)]),
])  # fmt: skip
def test_numbers_that_fit_may_have_any_type(field, number):
    assert numbers_set(**{field: number})[field] == (pytest.approx(number) if field == "float" else number)


@pytest.mark.parametrize("answer", [5, {"a": 1}, "text"])
def test_transforms_must_return_records(answer):
    with pytest.raises(DataError, match="return the record, or None"):
        applied(transform(lambda _: answer), struct_batch())
    with pytest.raises(DataError, match=r"return a pyarrow\.RecordBatch"):
        applied(transform(batches=True)(lambda _: answer), struct_batch())


class OperationalError(Exception):
    """As in PEP 249."""


@pytest.mark.parametrize("outage", [ConnectionRefusedError, TimeoutError, RetriableError, OperationalError])
@pytest.mark.parametrize("batches", [False, True])
def test_an_outage_makes_no_bad_record(outage, batches):
    @transform(batches=batches)
    def ask(_):
        raise outage("the service is down")

    with pytest.raises(StageOutageError, match=r"transforms\.s \(ask\): the service is down") as caught:
        list(Stage("s", "ask", configured(ask)).apply(numbers()))
    assert isinstance(caught.value.__cause__, outage)


@pytest.mark.parametrize("error", [OSError(28, "No space"), OSError(24, "Too many files"), MemoryError()])
@pytest.mark.parametrize("batches", [False, True])
def test_an_error_of_the_machine_makes_no_bad_record(error, batches):
    @transform(batches=batches)
    def ask(_):
        raise error

    with pytest.raises(type(error)):
        list(Stage("s", "ask", configured(ask)).apply(numbers()))


def test_a_file_that_a_record_names_and_that_is_missing_makes_a_bad_record():
    @transform
    def ask(_):
        raise FileNotFoundError(2, "No such file")

    with pytest.raises(TransformError, match="No such file"):
        list(Stage("s", "ask", configured(ask)).apply(numbers()))


def test_values_may_be_scalars_of_numpy():
    @transform
    def count(record):
        record.value = {"n": np.int64(7), "at": np.datetime64("2026-01-01T00:00", "us"), "all": [np.float32(0.5)]}
        return record

    (batch,) = applied(count, numbers())
    assert batch.column("value")[0].as_py() == {"n": 7, "at": datetime(2026, 1, 1, tzinfo=UTC), "all": [0.5]}


MOMENTS = Schema(Type.STRUCT, fields=(
    Field("d", Schema(Type.INT32, optional=True, name=DATE, version=1)),
    Field("t", Schema(Type.INT32, optional=True, name=TIME, version=1)),
    Field("p", Schema(Type.BYTES, optional=True, name=DECIMAL, version=1, parameters=(("scale", "2"),))),
))  # fmt: skip


def set_in_moments(**new):
    @transform
    def put(record):
        record.value.update(new)
        return record

    kinds = (("d", pa.date32()), ("t", pa.time32("ms")), ("p", pa.decimal128(38, 2)))
    array = pa.array([{"d": None, "t": None, "p": None}], pa.struct(kinds))
    field = pa.field("value", array.type, metadata={SCHEMA_KEY: to_text(MOMENTS).encode()})
    (batch,) = applied(put, pa.RecordBatch.from_arrays([array], schema=pa.schema([field])))
    return batch.column("value")[0].as_py()


def test_dates_times_and_integers_are_values_of_logical_types():
    found = set_in_moments(d=date(2024, 2, 29), t=time(5, 0, 1), p=7, new=date(2024, 3, 1))
    assert found == {"d": date(2024, 2, 29), "t": time(5, 0, 1), "p": Decimal("7.00"), "new": date(2024, 3, 1)}
    assert set_in_moments(p=Decimal("1.5"))["p"] == Decimal("1.50")


@pytest.mark.parametrize(("value", "why"), [
    (Decimal("1.555"), "1.555 is not a number with the scale 2"), (Decimal("NaN"), "NaN is not a number"),
    (True, "java.lang.Boolean"),
])  # fmt: skip
def test_a_decimal_that_its_field_cannot_have_makes_a_bad_record(value, why):
    with pytest.raises(DataError, match=re.escape(why)):
        set_in_moments(p=value)


@pytest.mark.parametrize("inner", ["value", "list"])
def test_a_value_that_contains_itself_makes_a_bad_record(inner):
    """It ended the process."""
    endless = {"a": []}
    endless["a"] = [endless, endless] if inner == "list" else endless
    with pytest.raises(DataError, match="a value is nested more than 100 levels deep"):
        set_in_moments(new=endless)


def test_an_outage_in_the_search_for_the_bad_record_makes_no_bad_record():
    calls = []

    @transform(batches=True)
    def ask(batch):
        calls.append(len(batch))
        raise ValueError("bad") if len(calls) == 1 else ConnectionRefusedError

    with pytest.raises(StageOutageError, match=r"\(ask\): ConnectionRefusedError"):
        list(Stage("s", "ask", configured(ask)).apply(numbers()))


@pytest.mark.parametrize("batches", [False, True])
def test_a_bad_record_has_the_class_and_the_trace_of_the_functions_error(batches):
    @transform(batches=batches)
    def refuse(_):
        raise LookupError("no such customer")

    stage = Stage("s", "refuse", configured(refuse))
    with pytest.raises(TransformError) as caught:
        list(stage.apply(numbers(1)))
    failure = caught.value.part.failure(0)
    assert (failure.error_class, failure.message) == (
        "builtins.LookupError", "refuse raised LookupError('no such customer')")
    assert "in refuse\n" in short_trace(failure.error, str)


def test_a_record_without_a_topic_is_a_bad_record():
    @transform
    def route(record):
        record.topic = None if record.value == 3 else "other"
        return record

    with pytest.raises(BadRowError, match="route returned a record whose topic is None; set a topic") as bad:
        applied(route, numbers())
    assert bad.value.row == 3
    assert len(applied(route, numbers(3))[0]) == 3
    without = numbers().drop_columns(["topic"])  # a source whose configuration names the topic
    assert applied(transform(lambda record: record), without)[0].schema.names == ["value"]


def test_a_transform_may_return_the_record_or_none():
    assert applied(transform(lambda _: None), struct_batch()) == []
    assert applied(transform(batches=True)(lambda _: None), struct_batch()) == []
    same = applied(transform(lambda record: record), struct_batch())
    assert [b.column("value").to_pylist() for b in same] == [struct_batch().column("value").to_pylist()]


EXPLODING = """
import pyarrow as pa
from heeler import transform


@transform(batches=True, adds_records=True)
def explode(batch):
    rows = [row for row, value in enumerate(batch.column("value").to_pylist()) for _ in range(int(value["times"]))]
    return batch.take(pa.array(rows, pa.int64()))
"""


def test_a_transform_that_adds_as_many_records_as_it_drops_takes_none_for_another(tmp_path):
    (tmp_path / "exploding.py").write_text(EXPLODING)
    config = {**SCHEMALESS, "topic": "t", "transforms": "e,c", "transforms.e.type": "explode",
              "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value",
              "transforms.c.spec": "id:int64"}  # fmt: skip
    values = [{"times": 0, "id": "0"}, {"times": 1, "id": "1"}, {"times": 2, "id": "x"}]
    refused = []
    pipeline = SourcePipeline(worker(**{"plugin.path": str(tmp_path)}), config)
    ((_, _, raw),) = pipeline.to_raw(pa.RecordBatch.from_pylist([{"value": v} for v in values]), refused.append)
    assert raw.column("value").to_pylist() == [b'{"times":1,"id":1}']
    assert [failure.row for failure in refused] == [2]
    behind = {"transforms": "e", "transforms.e.type": "explode", "transforms.e.predicate": "p", "transforms.e.negate":
              "true", "predicates": "p", "predicates.p.type": "RecordIsTombstone"}  # fmt: skip
    raw = raw_batch([None if n is None else json.dumps({"times": n}).encode() for n in (0, None, 2, None, 1)])
    sink = SinkPipeline(worker(**{"plugin.path": str(tmp_path)}), {**SCHEMALESS, **behind})
    found = [row["offset"] for batch in sink.to_connect_batches("t", 0, raw) for row in batch.to_pylist()]
    assert found == [1, 2, 2, 3, 4]


def test_only_a_transform_of_batches_adds_records():
    with pytest.raises(ConfigError, match="needs batches=True"):
        transform(adds_records=True)(lambda record: record)


def test_all_records_for_which_the_function_raises_are_named_at_once():
    """Each one was looked for: all records after it were read again, and kept in memory."""
    calls = []

    @transform
    def odd(record):
        calls.append(record.value)
        if record.value % 2:
            raise ValueError(record.value)
        return record

    made = odd()
    made.configure({})
    with pytest.raises(BadRowsError) as raised:
        made.apply(pa.record_batch({"value": list(range(6))}))
    assert [(row, str(error)) for row, error in raised.value.bad] == [
        (row, f"odd raised ValueError({row})") for row in (1, 3, 5)]
    assert calls == list(range(6))
