"""Chains in pipelines: predicates, several topics and schemas, where a bad record was, headers, nested fields."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from spark_tasks.data.columns import in_order
from spark_tasks.errors import ConfigError, ToleranceExceededError
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.errors.failures import Failure
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.pipeline.transforms.base import Predicate, Transform
from spark_tasks.pipeline.transforms.cast import Cast
from spark_tasks.pipeline.transforms.chain import Stage, TransformError
from spark_tasks.pipeline.transforms.columns_or_rows import read_records
from spark_tasks.pipeline.transforms.field_path import parse_path
from tests.rigs.chains import T, chain, rows, sink
from tests.rigs.raw_records import JSON, raw_batch, worker

TOMBSTONES = {"predicates": "p", "predicates.p.type": T + "predicates.RecordIsTombstone"}


def test_filter_drops_the_records_of_the_predicate_and_keeps_the_order():
    config = chain(("Filter", {"predicate": "p"}), **TOMBSTONES)
    assert rows(sink(config, [b"1", None, b"2", None, b"3"]), "offset") == [0, 2, 4]
    config["transforms.t0.negate"] = "true"
    assert rows(sink(config, [b"1", None, b"2"]), "offset") == [1]
    assert sink(config, [b"1", b"2"]) == []


def test_records_not_selected_by_a_predicate_keep_their_place():
    headers = [[("h", b"x")], None, [("h", b"y")], None]
    config = chain(
        ("InsertField$Value", {"static.field": "s", "static.value": "1", "predicate": "p"}),
        predicates="p", **{"predicates.p.type": T + "predicates.HasHeaderKey", "predicates.p.name": "h"},
    )  # fmt: skip
    found = sink(config, [b'{"a":%d}' % i for i in range(4)], headers=headers)
    assert rows(found, "offset") == [0, 1, 2, 3]
    assert [row.get("s") for row in rows(found)] == ["1", None, "1", None]
    config["transforms.t0.type"] = T + "MaskField$Value"
    config["transforms.t0.fields"] = "a"
    (batch,) = sink(config, [b'{"a":%d}' % (i + 5) for i in range(4)], headers=headers)
    assert batch.column("value").to_pylist() == [{"a": 0}, {"a": 6}, {"a": 0}, {"a": 8}]


@pytest.mark.parametrize(
    ("replacement", "masked"), [("\u0661\u0662", 12), ("1\u0663e\u0661", 130), ("\U0001d7cf", None)])
def test_the_digits_of_a_replacement_may_be_those_of_any_script(replacement: str, masked: int | None) -> None:
    """Java's BigDecimal reads all digits that are one char."""
    config = chain(("MaskField$Value", {"fields": "a", "replacement": replacement}))
    if masked is not None:
        assert rows(sink(config, [b'{"a":5}'])) == [{"a": masked}]
    else:
        with pytest.raises(ToleranceExceededError, match="Unable to convert"):
            sink(config, [b'{"a":5}'])


class Digits(Predicate):
    """Selects digits, and cannot say of "?" what it is."""

    def configure(self, configs):
        pass

    def test(self, batch):
        values = batch.column("value").to_pylist()
        if "?" in values:
            raise ValueError("is that a digit?")
        return pa.array([value.isdigit() for value in values])


def test_a_record_that_fails_a_predicate_is_the_bad_record():
    """And not a record that the predicate excludes from the transform."""
    cast = Cast()
    cast.configure({"spec": "int32"})
    stage = Stage("c", T + "Cast$Value", cast, Digits())
    values = ["1", "x", "2", "?", "3", "y"]
    with pytest.raises(TransformError, match=r"transforms\.c .* is that a digit\?") as bad:
        list(stage.apply(pa.RecordBatch.from_pydict({"value": values})))
    assert bad.value.record.column("value").to_pylist() == ["?"]
    good = list(stage.apply(pa.RecordBatch.from_pydict({"value": [v for v in values if v != "?"]})))
    assert rows(good) == [1, "x", 2, 3, "y"]


def test_the_bad_record_is_named_with_its_stage():
    values = [b'{"a":"%d"}' % i for i in range(200)]
    values[137] = b'{"a":"x"}'
    config = chain(("HoistField$Value", {"field": "h"}), ("ExtractField$Value", {"field": "h"}),
                   ("Cast$Value", {"spec": "a:int32"}))  # fmt: skip
    with pytest.raises(ToleranceExceededError, match=r"transforms\.t2 \(.*Cast\$Value\) cannot transform record t-3, "
                       r"offset 177: Value \(x\) was out of range for requested data type"):
        sink(config, values, offset=40)


@pytest.mark.parametrize("transform", [("ExtractField$Value", {"field": "id"}), ("Cast$Value", {"spec": "id:int32"})])
def test_all_bad_records_of_a_transform_are_found_at_once(transform):
    """Half of the records are bad. To search for each of them would take as many calls."""
    calls, refused = [], []

    class Counted(Transform):
        def configure(self, configs):
            pass

        def apply(self, batch):
            calls.append(len(batch))
            return [batch]

    values = [json.dumps({"id": "7"} if n % 2 else 7 if n % 4 else {"id": "x"}).encode() for n in range(1000)]
    pipeline = SinkPipeline(worker(), chain(transform))
    pipeline.stages.chain.stages = (Stage("n", "Counted", Counted()), *pipeline.stages.chain.stages)
    batches = list(in_order(pipeline.to_connect_by_schema("t", 0, raw_batch(values), refused.append)))
    bad = [n for n in range(1000) if not n % 2 and (n % 4 or transform[0] == "Cast$Value")]
    assert [failure.row for failure in refused] == bad
    assert sum(map(len, batches)) == 1000 - len(bad)
    assert len(calls) <= 3


def test_a_bad_topic_is_found_by_bisection():
    config = chain(("RegexRouter", {"regex": "b.*", "replacement": "$1"}), topic="x")
    batch = pa.RecordBatch.from_pydict({"topic": ["a", "a", "b", "a"], "value": ["1", "2", "3", "4"]})
    refused = []
    found = list(SourcePipeline(worker(), config).to_raw(batch, refused.append))
    assert [raw.column("value").to_pylist() for _, _, raw in found] == [[b'"1"', b'"2"', b'"4"']]
    assert [(failure.row, failure.stage.name, "No group 1" in failure.described) for failure in refused] == [
        (2, "TRANSFORMATION", True)]


def test_a_router_gives_source_records_different_topics():
    config = chain(("TimestampRouter", {"timestamp.format": "yyyy"}), topic="logs")
    batch = pa.RecordBatch.from_pydict({"value": ["1", "2", "3"], "timestamp": [0, 1_700_000_000_000, 1]})
    found = list(SourcePipeline(worker(), {**config, "value.converter.schemas.enable": "false"}).to_raw(batch))
    assert [(topic, raw.column("value").to_pylist()) for topic, _, raw in found] == [
        ("logs-1970", [b'"1"', b'"3"']), ("logs-2023", [b'"2"']),
    ]  # fmt: skip


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_source_may_have_arrows_timestamps(unit):
    config = chain(("InsertField$Value", {"timestamp.field": "at"}), ("TimestampRouter", {"timestamp.format": "yyyy"}),
                   ("Sql", {"query": "SELECT at, timestamp + 1 AS more FROM records"}), topic="logs")  # fmt: skip
    config["transforms.t2.type"] = "Sql"
    moments = pa.array([1_700_000_000, None], pa.timestamp("s")).cast(pa.timestamp(unit, "UTC"))
    batch = pa.RecordBatch.from_pydict({"value": [{"a": 1}] * 2, "timestamp": moments})
    source = SourcePipeline(worker(), {**config, "value.converter.schemas.enable": "false"})
    refused = []
    ((topic, _, raw),) = source.to_raw(batch, refused.append)
    assert (topic, raw["timestamp"].to_pylist()) == ("logs-2023", [1_700_000_000_000])
    assert json.loads(raw["value"][0].as_py()) == {"at": 1_700_000_000_000, "more": 1_700_000_000_001}
    assert [(failure.row, failure.message) for failure in refused] == [(1, "Timestamp missing on record")]


def test_records_with_different_schemas_become_separate_batches():
    """A null keeps its schema while the schema of the other records changes."""
    schema = {"type": "int64", "optional": True}
    values = [json.dumps({"schema": schema, "payload": value}).encode() for value in (1, None, 2)]
    config = {**chain(("Cast$Value", {"spec": "string"})), "value.converter.schemas.enable": "true"}
    found = sink(config, values)
    assert rows(found) == ["1", None, "2"]
    assert [batch.schema.field("value").type for batch in found] == [pa.string(), pa.int64(), pa.string()]


def test_headers_are_written_by_the_tasks_converter():
    config = chain(("InsertHeader", {"header": "n", "value.literal": "x"}), ("DropHeaders", {"headers": "old"}),
                   ("HeaderFrom$Value", {"fields": "a", "headers": "a", "operation": "move"}),
                   **{"header.converter": JSON, "header.converter.schemas.enable": "false"})  # fmt: skip
    (batch,) = sink(config, [b'{"a":"y","b":1}'], headers=[[("old", b"1"), ("kept", b"2")]])
    assert [tuple(h.values()) for h in batch.column("headers")[0].as_py()] == [
        ("kept", b"2"), ("n", b'"x"'), ("a", b'"y"'),
    ]  # fmt: skip
    assert batch.column("value").to_pylist() == [{"b": 1}]


@pytest.mark.parametrize(("transform", "options", "written", "message"), [
    ("InsertHeader", {"header": "n", "value.literal": "[1,2]"}, b"[1,2]",
     "Invalid schema type for ByteArrayConverter: ARRAY"),
    ("HeaderFrom$Value", {"fields": "a", "headers": "n", "operation": "copy"}, b"5",
     "ByteArrayConverter is not compatible with objects of type class java.lang.Long"),
])
def test_only_sources_need_a_header_converter_that_writes_what_a_transform_adds(
        transform: str, options: dict[str, str], written: bytes, message: str) -> None:
    """In Kafka Connect a sink gets the header's value as it is."""
    config = chain((transform, options), **{
        "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"})  # fmt: skip
    (batch,) = sink(config, [b'{"a":5}'], headers=[[("h", b"\xff")]])
    assert batch.column("headers")[0].as_py() == [{"key": "h", "value": b"\xff"}, {"key": "n", "value": written}]
    batch = pa.record_batch({"topic": ["t", "t"], "value": [{"a": 5}, {"a": 6}]})
    with pytest.raises(ToleranceExceededError, match="ByteArrayConverter"):
        list(SourcePipeline(worker(), config).to_raw(batch))
    failures: list[Failure] = []
    assert not list(SourcePipeline(worker(), config).to_raw(batch, failures.append))
    assert [(one.row, one.stage.value, one.class_name) for one in failures] == [
        (row, "HEADER_CONVERTER", "org.apache.kafka.connect.converters.ByteArrayConverter") for row in (0, 1)]
    assert failures[0].message == message


@pytest.mark.parametrize("name", ["a", "aa", "q", "z9"])  # with different orders of the keys in Java's maps
def test_flatten_keeps_a_key_that_only_some_records_also_have_in_a_map(name):
    """The key that a record did not have replaced the one that it had."""
    texts = [json.dumps({f"{name}.b": 1, name: inner}).encode() for inner in ({"b": 2, "c": 1}, {"c": 1})]
    config = chain(("Flatten$Value", {}))
    assert rows(sink(config, texts)) == [row for text in texts for row in rows(sink(config, [text]))]
    assert rows(sink(config, texts))[1] == {f"{name}.b": 1, f"{name}.c": 1}


@pytest.mark.parametrize(("name", "options"), [
    ("Cast$Value", {"spec": "n:string"}), ("InsertField$Value", {"topic.field": "t"}), ("Flatten$Value", {}),
    ("ReplaceField$Value", {"exclude": "n"}),
    ("TimestampConverter$Value", {"field": "n", "target.type": "Timestamp"}),
])
def test_maps_whose_keys_are_data_take_no_column_for_each_key(name, options):
    """Such columns have a cell for each key and record."""
    texts = [json.dumps({"n": 5, **{f"{row}-{key}": key for key in range(50)}}).encode() for row in range(24)]
    config = chain((name, options))
    found, few = sink(config, texts), sink(config, texts[:3])
    assert sum(map(len, found)) == len(texts)
    assert all(batch.schema.field("value").type.num_fields <= 1001 for batch in found
               if pa.types.is_struct(batch.schema.field("value").type))  # fmt: skip
    values = [value for batch in found for record in read_records(batch, ["value"]) for value in [record.value]]
    assert values[:3] == [record.value for batch in few for record in read_records(batch, ["value"])]
    assert [set(value) - {"n", "t"} for value in values] == [
        {f"{row}-{key}" for key in range(50)} for row in range(24)]


def test_dates_beyond_pythons_range_are_supported():
    config = chain(("TimestampConverter$Value", {"field": "a", "target.type": "Timestamp"}),
                   ("HeaderFrom$Value", {"fields": "a", "headers": "a", "operation": "move"}))  # fmt: skip
    (batch,) = sink(config, [b'{"a":1000000000000000}', b'{"a":-1000000000000000}'])
    assert [headers[0]["value"] for headers in batch.column("headers").to_pylist()] == [
        b"33658-09-27T01:46:40.000Z", b"22:13:20.000Z",
    ]  # fmt: skip
    to_date = chain(("TimestampConverter$Value", {"target.type": "Date"}), **{"value.converter.schemas.enable": "true"})
    (batch,) = sink(to_date, [b'{"schema":{"type":"int64","optional":false},"payload":9223372036854775807}'])
    assert batch.column("value").cast(pa.int32()).to_pylist() == [-622191233], "of 32 bits, as in Java"


@pytest.mark.parametrize("target", ["Date", "Time", "Timestamp"])
def test_dates_without_a_schema_are_moments_whatever_is_in_the_batch(target):
    config = chain(("TimestampConverter$Value", {"field": "a", "target.type": target}))
    (alone,), beside = sink(config, [b'{"a":1000000000123}']), sink(config, [b'{"a":1000000000123}', None])
    assert alone.schema.field("value").type == beside[0].schema.field("value").type
    assert rows([alone])[0] == rows(beside)[0]


V2 = {"field.syntax.version": "V2"}
NESTED = b'{"a":{"b":{"c":"5","x.y":"7"},"d":1},"e":2}'


@pytest.mark.parametrize(("name", "options", "expected"), [
    ("Cast$Value", {"spec": "a.b.c:int32,e:string"}, {"a": {"b": {"c": 5, "x.y": "7"}, "d": 1}, "e": "2"}),
    ("MaskField$Value", {"fields": "a.b.`x.y`,e"}, {"a": {"b": {"c": "5", "x.y": ""}, "d": 1}, "e": 0}),
    ("ReplaceField$Value", {"exclude": "a.b.c", "renames": "a.d:z"}, {"a": {"b": {"x.y": "7"}, "z": 1}, "e": 2}),
    ("ReplaceField$Value", {"include": "a.b.c"}, {"a": {"b": {"c": "5"}}}),
    ("InsertField$Value", {"static.field": "a.b.s", "static.value": "v"},
     {"a": {"b": {"c": "5", "x.y": "7", "s": "v"}, "d": 1}, "e": 2}),
    ("TimestampConverter$Value", {"field": "a.d", "target.type": "string", "format": "yyyy"},
     {"a": {"b": {"c": "5", "x.y": "7"}, "d": "1970"}, "e": 2}),
    ("HeaderFrom$Value", {"fields": "a.b", "headers": "h", "operation": "move"}, {"a": {"d": 1}, "e": 2}),
    ("ExtractField$Value", {"field": "a.b.`x.y`"}, "7"),
])  # fmt: skip
@pytest.mark.parametrize("schema", [False, True])
def test_transforms_support_nested_fields(name, options, expected, schema):
    """An extension: in Java only ExtractField supports paths."""
    config, text = chain((name, {**options, **V2})), NESTED
    if schema:
        text = json.dumps({"schema": described(json.loads(NESTED)), "payload": json.loads(NESTED)}).encode()
        config["value.converter.schemas.enable"] = "true"
    (batch,) = sink(config, [text] * 3)
    assert batch.column("value").to_pylist() == [expected] * 3
    pipeline = SinkPipeline(worker(), {key: value for key, value in config.items() if key != "transforms"})
    (before,) = pipeline.to_connect_batches("t", 3, raw_batch([text] * 3))
    transform = SinkPipeline(worker(), config).stages.chain.stages[0].transform
    (rows_way,), columns_way = transform.by_rows(before), transform.apply(before)[0]
    assert rows_way.column("value").to_pylist() == columns_way.column("value").to_pylist() == [expected] * 3
    assert rows_way.schema.field("value").metadata == columns_way.schema.field("value").metadata


@pytest.mark.parametrize(("name", "options"), [
    ("Cast$Value", {"spec": "a.b.c:int32"}),
    ("MaskField$Value", {"fields": "a.b.c"}),
    ("ReplaceField$Value", {"exclude": "a.b.c"}),
    ("ReplaceField$Value", {"include": "a.b.c"}),
    ("InsertField$Value", {"static.field": "a.s", "static.value": "v"}),
    ("TimestampConverter$Value", {"field": "a.d", "target.type": "string", "format": "yyyy"}),
    ("HeaderFrom$Value", {"fields": "a.b", "headers": "h", "operation": "move"}),
])  # fmt: skip
def test_an_optional_struct_within_another_one_remains_optional(name, options):
    config = chain((name, {**options, **V2}), **{"value.converter.schemas.enable": "true"})
    payloads = [json.loads(NESTED), {"a": None, "e": 2}, {"a": {"b": None, "d": 1}, "e": 2}]
    texts = [json.dumps({"schema": described(payloads[0]), "payload": payload}).encode() for payload in payloads]
    alone = [sink(config, [text]) for text in texts]
    (batch,) = sink(config, texts)
    assert [row["a"] is None for row in rows([batch])] == [False, True, False]
    assert rows([batch]) == [row for (one,) in alone for row in one.column("value").to_pylist()]
    assert {schema_of(one.schema.field("value").metadata) for one in (batch, *(one for (one,) in alone))} == {
        schema_of(batch.schema.field("value").metadata)}
    (inner, *_) = schema_of(batch.schema.field("value").metadata).fields
    assert (inner.name, inner.schema.optional) == ("a", True)
    source = SourcePipeline(worker(), {**config, "topic": "t"})
    without = {key: value for key, value in config.items() if key != "transforms"}
    (before,) = sink(without, texts)
    [(_, _, raw)] = source.to_raw(before.select(["value"]))
    assert [json.loads(text)["payload"]["a"] is None for text in raw.column("value").to_pylist()] == [
        False, True, False]


@pytest.mark.parametrize(("fields", "operation", "words"), [
    ("ts,a", "copy", r"A null value requires an optional schema but was Schema\{org.*Timestamp:INT64\}"),
    ("a,ts,p", "move", r"A null value requires an optional schema but was Schema\{org.*Timestamp:INT64\}"),
    ("a,p,ts", "move", r"A null value requires an optional schema but was Schema\{INT32\}"),
    ("p", "copy", r"A null value requires an optional schema but was Schema\{INT32\}"),
    ("a", "move", 'null used for required field: "p"'),
])  # fmt: skip
def test_a_null_of_a_required_field_makes_no_header(fields, operation, words):
    """As in Java, and whichever field is removed first. The records of a source have no partition and no timestamp."""
    insert = {"partition.field": "p!", "timestamp.field": "ts!"} if fields != "p" else {"partition.field": "p!"}
    schemas = {"value.converter.schemas.enable": "true"}
    config = chain(("InsertField$Value", insert),
                   ("HeaderFrom$Value", {"fields": fields, "headers": fields, "operation": operation}), **schemas)
    (record,) = sink(chain(**schemas), [json.dumps({"schema": described({"a": 1}), "payload": {"a": 1}}).encode()])
    with pytest.raises(ToleranceExceededError, match=words):
        list(SourcePipeline(worker(), {**config, "topic": "t"}).to_raw(record.select(["value"])))


def described(value):
    if isinstance(value, dict):
        fields = [{**described(one), "field": name} for name, one in value.items()]
        return {"type": "struct", "fields": fields, "optional": True}
    return {"type": "string" if isinstance(value, str) else "int64", "optional": True}


@pytest.mark.parametrize(("name", "options", "words"), [
    ("ValueToKey", {"fields": "a.b,k.b", **V2}, "a.b and k.b would both become the field b of the key"),
    ("ReplaceField$Value", {"renames": "a:"}, "Invalid rename mapping: a:"),
    ("ReplaceField$Value", {"renames": ":"}, "Invalid rename mapping: :"),
])  # fmt: skip
def test_options_that_lose_fields_are_refused(name, options, words):
    with pytest.raises(ConfigError, match=words):
        sink(chain((name, options)), [NESTED])


def test_a_field_without_a_name_is_refused_as_by_javas_schemas():
    config = chain(("InsertField$Value", {"topic.field": "!"}), **{"value.converter.schemas.enable": "true"})
    text = json.dumps({"schema": described({"a": "1"}), "payload": {"a": "1"}}).encode()
    with pytest.raises(ToleranceExceededError, match=r"fieldName cannot be null\."):
        sink(config, [text])


@pytest.mark.parametrize(("path", "steps"), [
    (r"`a\`b`.c", ("a\\`b", "c")), (r"`a\`.b`.c", ("a`.b", "c")), ("`a.b`", ("a.b",)), ("a`b.c", ("a`b", "c")),
])
def test_a_backslash_escapes_only_a_backtick_that_would_end_the_name(path, steps):
    assert parse_path(path, "V2") == steps


def test_value_to_key_supports_nested_fields():
    (batch,) = sink(chain(("ValueToKey", {"fields": "a.b.c,e", **V2})), [NESTED])
    assert batch.column("key").to_pylist() == [{"c": "5", "e": 2}]
