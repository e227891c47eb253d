"""Chains in pipelines: predicates, several topics and schemas, where a bad record was, headers, nested fields."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_tasks.errors import ConfigError, ConnectError, ToleranceExceededError
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.failures import Failure
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.pipeline.transforms.base import Predicate, Transform
from spark_tasks.pipeline.transforms.cast import Cast
from spark_tasks.pipeline.transforms.chain import Stage, TransformError
from spark_tasks.pipeline.transforms.field_path import parse_path
from spark_tasks.pipeline.transforms.rows import read_records
from tests.rigs.raw_records import JSON, raw_batch, worker

T = "org.apache.kafka.connect.transforms."
SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


def chain(*steps, **more):
    config = {"transforms": ",".join(f"t{i}" for i in range(len(steps)))}
    for i, (name, options) in enumerate(steps):
        config[f"transforms.t{i}.type"] = T + name
        config |= {f"transforms.t{i}.{key}": value for key, value in options.items()}
    return {**SCHEMALESS, **config, **more}


def sink(config, values, **more):
    return list(SinkPipeline(worker(), config).to_connect_batches("t", 3, raw_batch(values, **more)))


def rows(batches, column="value"):
    return [value for batch in batches for value in batch.column(column).to_pylist()]


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


class Returning(Transform):
    """Returns `of(batch)`."""

    of = None

    def configure(self, configs):
        pass

    def apply(self, batch):
        return self.of(batch)


def returning(of):
    transform = Returning()
    transform.of = of
    records = pa.RecordBatch.from_pydict({"topic": ["t"] * 4, "offset": [0, 1, 2, 3], "value": list("abcd")})
    return list(Stage("r", "acme.Returning", transform).apply(records))


@pytest.mark.parametrize(("of", "why"), [
    (lambda batch: [batch, 5], "a list with an element of type int; return a pyarrow.RecordBatch or a list of them"),
    (lambda _: {"value": 1}, "a dict; return a pyarrow.RecordBatch"),
    (lambda _: None, "a NoneType; return a pyarrow.RecordBatch"),
    (lambda batch: pa.Table.from_batches([batch]), "a Table; return a pyarrow.RecordBatch"),
    (lambda batch: (one for one in [batch, None]), "a generator with an element of type NoneType"),
    (lambda batch: batch.rename_columns(["x"] * 3),
     r"x, x, x \(doubled: x; unknown: x; missing: topic, offset, value\); return the columns topic, offset, value"),
    (lambda batch: batch.drop_columns(["offset"]), r"columns topic, value \(missing: offset\)"),
    (lambda batch: batch.append_column("value", batch.column("value")), r"\(doubled: value\)"),
    (lambda batch: [batch, batch.append_column("more", batch.column("value"))], r"\(unknown: more\)"),
])  # fmt: skip
def test_a_transform_that_returns_no_batches_of_records_is_named(of, why):
    with pytest.raises(TransformError, match=r"transforms\.r \(acme\.Returning\) .*: Returning returned .*" + why):
        returning(of)


def test_a_transform_may_add_columns_of_records_and_a_source_may_lack_some():
    (found,) = returning(lambda batch: batch.append_column("key", batch.column("value")))
    assert found.schema.names == ["topic", "offset", "value", "key"]
    transform = Returning()
    transform.of = lambda batch: batch.drop_columns(["topic"])
    batch = pa.RecordBatch.from_pydict({"topic": ["t"], "value": ["v"]})
    assert rows(Stage("r", "acme.Returning", transform).apply(batch)) == ["v"]
    transform.of = lambda batch: batch.drop_columns(["value"])
    with pytest.raises(TransformError, match=r"Returning returned .* \(missing: value\)"):
        list(Stage("r", "acme.Returning", transform).apply(batch))


def test_a_record_without_a_topic_is_the_bad_record():
    topics = pa.array(["t", "u", None, "v"]).dictionary_encode()
    with pytest.raises(TransformError, match="Returning returned a record whose topic is null; set a topic") as bad:
        returning(lambda batch: batch.set_column(0, "topic", topics.take(batch.column("offset"))))
    assert rows([bad.value.record]) == ["c"]


class Answering(Predicate):
    """Returns `answer`."""

    answer = None

    def configure(self, configs):
        pass

    def test(self, _):
        return self.answer


def answered(answer, *, negate):
    predicate, transform = Answering(), Returning()
    predicate.answer = answer
    transform.of = lambda batch: batch.set_column(0, "value", pc.utf8_upper(batch.column("value")))
    batch = pa.RecordBatch.from_pydict({"value": list("abcd")})
    return rows(Stage("r", "acme.Returning", transform, predicate, negate).apply(batch))


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize(("answer", "what"), [
    ([True] * 4, "list of 4 values"), (pa.array([True]), "BooleanArray of 1 values"),
    (pa.array([True] * 5), "BooleanArray of 5 values"), (pa.array([1] * 4), "Int64Array of 4 values"),
    (True, "bool"), (None, "NoneType"),
])  # fmt: skip
def test_a_predicate_that_does_not_answer_for_each_record_is_named(answer, what, negate):
    words = rf"transforms\.r .*: the predicate Answering returned a {what} for \d records; return a pyarrow"
    with pytest.raises(TransformError, match=words):
        answered(answer, negate=negate)


def test_records_of_which_a_predicate_does_not_know_are_not_selected():
    """They were lost, as a filter with null drops records."""
    answer = pa.array([True, None, False, None])
    assert answered(answer, negate=False) == ["A", "b", "c", "d"]
    assert answered(answer, negate=True) == ["a", "B", "C", "D"]


@pytest.mark.parametrize(("name", "options", "why"), [
    ("SetSchemaMetadata$Value", {}, "Neither schema name nor version configured"),
    ("ExtractField$Value", {"field": "a.`b", "field.syntax.version": "V2"}, "Incomplete backtick pair"),
])  # fmt: skip
def test_a_transform_that_cannot_be_configured_is_named(name, options, why):
    with pytest.raises(ConfigError, match=rf"^transforms\.t0 \({re.escape(T + name)}\): {why}"):
        sink(chain((name, options)), [b"1"])


def test_a_predicate_that_cannot_be_configured_is_named():
    config = chain(("Filter", {"predicate": "p"}), predicates="p",
                   **{"predicates.p.type": T + "predicates.HasHeaderKey", "predicates.p.name": ""})  # fmt: skip
    with pytest.raises(ConfigError, match=r"^predicates\.p \(.*HasHeaderKey\): Invalid value"):
        sink(config, [b"1"])


def test_a_plugin_that_raises_any_error_when_it_is_configured_is_named(tmp_path):
    (tmp_path / "acme_careless.py").write_text(
        "from heeler import Transform\nclass Careless(Transform):\n    def apply(self, batch):\n        return batch\n"
        "    def configure(self, configs):\n        int(configs['n'])\n")  # fmt: skip
    config = {**SCHEMALESS, "transforms": "t", "transforms.t.type": "Careless", "transforms.t.n": "x"}
    pipeline = SinkPipeline(worker(**{"plugin.path": str(tmp_path)}), config)
    with pytest.raises(ConnectError, match=r"^transforms\.t \(acme_careless\.Careless\) .*: ValueError: invalid"):
        assert pipeline.stages


def test_a_missing_predicate_is_reported():
    with pytest.raises(ConfigError, match=r"transforms\.t0\.predicate: there is no predicate 'p'"):
        sink(chain(("Filter", {"predicate": "p"})), [b"1"])


def test_the_bad_record_is_named_with_its_stage():
    values = [b'{"a":"%d"}' % i for i in range(200)]
    values[137] = b'{"a":"x"}'
    config = chain(("HoistField$Value", {"field": "h"}), ("ExtractField$Value", {"field": "h"}),
                   ("Cast$Value", {"spec": "a:int32"}))  # fmt: skip
    with pytest.raises(ToleranceExceededError, match=r"transforms\.t2 \(.*Cast\$Value\) cannot transform record t-3, "
                       r"offset 177: Value \(x\) was out of range for requested data type"):
        sink(config, values, offset=40)


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
    texts = [json.dumps({"n": 5, **{f"{row}-{key}": key for key in range(50)}}).encode() for row in range(100)]
    config = chain((name, options))
    found, few = sink(config, texts), sink(config, texts[:3])
    assert sum(map(len, found)) == len(texts)
    assert all(batch.schema.field("value").type.num_fields <= 1001 for batch in found
               if pa.types.is_struct(batch.schema.field("value").type))  # fmt: skip
    values = [value for batch in found for record in read_records(batch, ["value"]) for value in [record.value]]
    assert values[:3] == [record.value for batch in few for record in read_records(batch, ["value"])]
    assert [set(value) - {"n", "t"} for value in values] == [
        {f"{row}-{key}" for key in range(50)} for row in range(100)]


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
