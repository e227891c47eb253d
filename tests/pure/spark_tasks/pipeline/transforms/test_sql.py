"""The Sql transform: what a query sees, its results, queries that are refused, and bad records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import DataFrame
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.config.validators import ConfigError
from spark_tasks.data.columns import HEADERS_TYPE, SCHEMA_KEY, in_order
from spark_tasks.data.schema import from_text
from spark_tasks.errors import ToleranceExceededError
from spark_tasks.pipeline.converters.python_values import to_python
from spark_tasks.pipeline.errors.failures import Failure
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.pipeline.transforms.sql import Sql
from tests.rigs.raw_records import JSON, raw_batch, worker

SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false", "transforms": "q",
              "transforms.q.type": "Sql"}  # fmt: skip
STRUCT = {"type": "struct", "optional": False, "name": "Order", "fields": [
    {"field": "name", "type": "string", "optional": False, "doc": "who"},
    {"field": "amount", "type": "int32", "optional": True},
    {"field": "at", "type": "int64", "optional": False, "name": "org.apache.kafka.connect.data.Timestamp",
     "version": 1},
]}  # fmt: skip


def through(query: str, *values: Any, **more: Any) -> list[pa.RecordBatch]:
    raw = [None if value is None else json.dumps(value).encode() for value in values]
    config = {**SCHEMALESS, "transforms.q.query": query}
    return list(SinkPipeline(worker(), config).to_connect_batches("orders", 3, raw_batch(raw, **more)))


def selected(query: str, *values: Any, **more: Any) -> list[Any]:
    return [value for batch in through(query, *values, **more) for value in batch.column("value").to_pylist()]


ORDERS = [{"name": "a", "amount": 1}, {"name": "b", "amount": 2}, {"name": "c", "amount": 3}]


def test_a_query_may_project_and_filter():
    found = through("SELECT upper(name) AS name, amount * 2 AS double FROM records WHERE amount > 1", *ORDERS)
    assert [row for batch in found for row in batch.column("value").to_pylist()] == [
        {"name": "B", "double": 4}, {"name": "C", "double": 6}]  # fmt: skip
    assert [row for batch in found for row in batch.column("offset").to_pylist()] == [1, 2]


@pytest.mark.parametrize("query", [
    "SELECT * FROM records WHERE amount <> 2;", "select value from records where amount <> 2",
    "SELECT -- what the FROM says\n * /* all */ FROM records WHERE name <> 'b' -- FROM others",
])  # fmt: skip
def test_a_query_may_only_filter(query):
    assert selected(query, *ORDERS) == [ORDERS[0], ORDERS[2]]


def test_a_query_may_compare_with_null():
    values = [{"a": 1, "b": 1}, {"a": 1, "b": None}, {"a": None, "b": None}]
    query = "SELECT a IS DISTINCT FROM b AS differ FROM records WHERE (a IS NOT DISTINCT FROM b) OR a = 1"
    assert [row["differ"] for row in selected(query, *values)] == [False, True, False]


def test_a_query_may_add_fields():
    assert selected("SELECT *, amount * amount AS square FROM records", ORDERS[2]) == [{**ORDERS[2], "square": 9}]


def test_the_parts_of_a_record_are_columns():
    query = 'SELECT topic, "partition", "offset", "timestamp", headers[1][\'key\'] AS header FROM records'
    assert selected(query, {"a": 1}, headers=[[("h", b"x")]]) == [
        {"topic": "orders", "partition": 3, "offset": 0, "timestamp": 1_000, "header": "h"}]  # fmt: skip


@pytest.mark.parametrize("query", [
    "SELECT name, offset FROM records", "SELECT offset, name FROM records", "SELECT name, offset\nFROM records",
    "SELECT name, records.offset FROM records WHERE offset >= 0 AND (offset) < 9 -- the offset",
    "SELECT coalesce(offset, 0) AS offset, name FROM records WHERE 0 <= offset AND 'offset 1' <> name",
    "SELECT name, offset, offset + 1 - 1 AS offset2 FROM records WHERE NOT offset IS NULL",
])  # fmt: skip
def test_the_offset_needs_no_quotes(query):
    found = selected(query, *ORDERS)
    assert [(row["name"], row["offset"]) for row in found] == [("a", 0), ("b", 1), ("c", 2)]


def test_queries_can_use_keys_headers_and_positions():
    """A struct as key, and headers by name; conditions on topic, partition, offset and timestamp."""
    keys = {"key.converter": JSON, "key.converter.schemas.enable": "false"}
    headers = [[("trace", b"t0"), ("h", None)], None, [], [("trace", b"t3")]]
    raw = raw_batch([json.dumps(one).encode() for one in [*ORDERS, {"name": "d", "amount": 4}]], headers=headers,
                    keys=[json.dumps({"id": n, "of": {"x": n * n}}).encode() for n in range(3)] + [None])

    def through_keys(query):
        config = {**SCHEMALESS, **keys, "transforms.q.query": query}
        return [row for batch in SinkPipeline(worker(), config).to_connect_batches("orders", 3, raw)
                for row in batch.to_pylist()]

    found = through_keys("SELECT key, key['of']['x'] AS x, name FROM records WHERE key['id'] > 0")
    assert [row["value"] for row in found] == [
        {"key": {"id": n, "of": {"x": n * n}}, "x": n * n, "name": name} for n, name in ((1, "b"), (2, "c"))]
    assert [row["key"] for row in found] == [{"id": 1, "of": {"x": 1}}, {"id": 2, "of": {"x": 4}}]
    [row] = through_keys("SELECT * FROM records WHERE key IS NULL")
    assert (row["value"], row["key"], row["offset"]) == ({"name": "d", "amount": 4}, None, 3)
    found = through_keys("""SELECT "offset", "timestamp", "partition", topic FROM records
        WHERE topic = 'orders' AND "partition" = 3 AND "offset" BETWEEN 1 AND 2 AND "timestamp" >= 1000""")
    assert [row["value"] for row in found] == [
        {"offset": n, "timestamp": 1_000, "partition": 3, "topic": "orders"} for n in (1, 2)]
    assert through_keys("SELECT * FROM records WHERE topic <> 'orders' OR \"partition\" <> 3") == []
    found = through_keys("SELECT name FROM records WHERE headers[1]['key'] = 'trace' "
                         "AND arrow_cast(headers[1]['value'], 'Utf8') = 't3'")
    assert [(row["value"], row["headers"]) for row in found] == [
        ({"name": "d"}, [{"key": "trace", "value": b"t3"}])]
    found = through_keys("SELECT headers, cardinality(headers) AS n FROM records")
    assert [row["value"]["n"] for row in found] == [2, None, 0, 1]
    assert [row["value"]["headers"] for row in found] == [row["headers"] for row in found]


def test_records_of_a_source_have_the_same_columns():
    """Missing parts are null: a source's records have no offset, and may have no partition and no timestamp."""
    config = {"transforms": "q", "transforms.q.type": "Sql", "topic": "out", "transforms.q.query":
              "SELECT topic, \"partition\", \"offset\", \"timestamp\", key, headers[1]['key'] AS h FROM records"}
    headers = pa.array([[{"key": "h", "value": b"1"}], None], HEADERS_TYPE)
    batch = pa.RecordBatch.from_pydict({"key": ["k", "l"], "value": ["v", "w"], "headers": headers,
                                        "timestamp": pa.array([5, None], pa.int64())})
    pipeline = SourcePipeline(worker(**{"value.converter": JSON, "value.converter.schemas.enable": "false"}), config)
    [(topic, partitions, raw)] = pipeline.to_raw(batch)
    assert (topic, partitions) == ("out", None)
    assert [json.loads(value) for value in raw.column("value").to_pylist()] == [
        {"topic": "out", "partition": None, "offset": None, "timestamp": 5, "key": "k", "h": "h"},
        {"topic": "out", "partition": None, "offset": None, "timestamp": None, "key": "l", "h": None}]


def test_fields_named_like_record_parts_are_read_from_the_value():
    value = {"topic": "mine", "key": 1, "value": 2, "it's": 3}
    assert selected("SELECT * FROM records", value) == [value]
    both = "SELECT topic, value['topic'] AS inner FROM records"
    assert selected(both, value) == [{"topic": "orders", "inner": "mine"}]


def test_parts_can_be_set():
    query = """SELECT upper(topic) AS "record.topic", name AS "record.key", 7 AS "record.partition",
               amount AS "record.timestamp", * FROM records"""
    (batch,) = through(query, ORDERS[0])
    row = batch.to_pylist()[0]
    assert (row["topic"], row["key"], row["partition"], row["timestamp"]) == ("ORDERS", "a", 7, 1)
    assert row["value"] == ORDERS[0]
    (batch,) = through("""SELECT name AS "record.key" FROM records""", ORDERS[0])
    assert batch.to_pylist()[0]["value"] == ORDERS[0]


@pytest.mark.parametrize("value", [
    {"a": 1, "record.topic": "other", "record.key": "k", "record.partition": "x", "record.headers": 5}, {"value": 5},
    {"__row": 7, "a": 1}, {"*.value": 1, "value": 2, "*.a": 3, "record.timestamp": 9}, {"record.topic": None},
])
def test_a_star_selects_fields_whatever_their_names_are(value):
    """A record could choose its topic."""
    (batch,) = through("SELECT * FROM records", value)
    (row,) = batch.to_pylist()
    assert (row["topic"], row["partition"], row["key"], row["value"]) == ("orders", 3, None, value)
    (batch,) = through("""SELECT *, 'set' AS "record.topic" FROM records""", value)
    assert [(row["topic"], row["value"]) for row in batch.to_pylist()] == [("set", value)]


def test_a_record_without_a_topic_is_a_bad_record():
    query = """SELECT *, CASE WHEN name <> 'b' THEN name END AS "record.topic" FROM records"""
    with pytest.raises(ToleranceExceededError, match=r'offset 1: the query sets "record.topic" to NULL; set a topic'):
        through(query, *ORDERS)
    assert [row["topic"] for batch in through(query, ORDERS[0], ORDERS[2]) for row in batch.to_pylist()] == ["a", "c"]


def test_unnest_yields_several_records_from_one():
    value = {"items": [{"sku": "x"}, {"sku": "y"}], "to": {"city": "Bern"}}
    assert selected("SELECT unnest(items)['sku'] AS sku, to['city'] AS city FROM records", value) == [
        {"sku": "x", "city": "Bern"}, {"sku": "y", "city": "Bern"}]  # fmt: skip


@pytest.mark.parametrize(("values", "expected"), [
    ([[1, 2], None, [3, 4, 5], None], [(0, 1), (0, 2), (1, None), (2, 3), (2, 4), (2, 5), (3, None)]),
    ([[1, 2], None, [3], [], None], [(0, 1), (0, 2), (1, None), (2, 3), (4, None)]),
    ([[1, 2], None, [], None], [(0, 1), (0, 2), (1, None), (3, None)]),
])
def test_unnest_behind_a_predicate_keeps_all_records_in_their_order(values, expected):
    """Records were lost, and others had the wrong place."""
    query = "SELECT unnest(items) AS item FROM records"
    behind = {"transforms.q.query": query, "transforms.q.predicate": "p", "transforms.q.negate": "true",
              "predicates": "p", "predicates.p.type": "RecordIsTombstone"}  # fmt: skip
    raw = [None if items is None else json.dumps({"items": items}).encode() for items in values]
    found = SinkPipeline(worker(), {**SCHEMALESS, **behind}).to_connect_batches("orders", 3, raw_batch(raw))
    assert [(row["offset"], row["value"] and row["value"]["item"]) for batch in found for row in batch.to_pylist()
            ] == expected


def test_after_unnest_the_bad_record_is_the_one_with_the_bad_item():
    """As many records as before do not mean that each is in its place."""
    config = {**SCHEMALESS, "topic": "t", "transforms": "q,c", "transforms.c.spec": "item:int64",
              "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value",
              "transforms.q.query": "SELECT unnest(items) AS item FROM records"}  # fmt: skip
    values = [{"items": []}, {"items": ["1"]}, {"items": ["x", "2"]}]
    refused: list[Failure] = []
    raw = raw_batch([json.dumps(value).encode() for value in values])
    found = list(in_order(SinkPipeline(worker(), config).to_connect_by_schema("t", 3, raw, refused.append)))
    assert [value for batch in found for value in batch.column("value").to_pylist()] == [{"item": 1}]
    assert [failure.row for failure in refused] == [2]
    batch, refused = pa.record_batch({"value": values}), []
    assert [raw.column("value").to_pylist() for _, _, raw in SourcePipeline(worker(), config).to_raw(
        batch, refused.append)] == [[b'{"item":1}']]
    assert [failure.row for failure in refused] == [2]


def test_a_key_that_no_record_has_is_null():
    assert selected("SELECT coalesce(discount, 0) AS discount FROM records", {"a": 1}) == [{"discount": 0}]


def test_values_of_different_types_are_queried_separately():
    values = [{"a": 1}, {"a": "x"}, {"a": 2}, "text", 5]
    assert selected("SELECT * FROM records WHERE a IS NOT NULL", *values) == [{"a": 1}, {"a": "x"}, {"a": 2}]


def test_a_selected_tombstone_remains_a_tombstone():
    assert selected("SELECT topic FROM records", {"a": 1}, None) == [{"topic": "orders"}, None]
    assert selected("SELECT * FROM records WHERE a = 1", {"a": 1}, None) == [{"a": 1}]


@pytest.mark.parametrize(("query", "value"), [
    ("SELECT date_trunc('day', a) AS x FROM records", {"a": "2026-01-02T03:04:05Z"}),
    ("SELECT date_part('year', a) AS x FROM records", {"a": "2026-01-02"}),
    ("SELECT array_length(a) AS x FROM records", {"a": [1, 2]}),
    ("SELECT coalesce(array_length(a), 0) AS x, date_part('year', b) AS y, trunc(c) AS z FROM records",
     {"a": [1, 2], "b": "2026-01-02", "c": 1.5}),
    ("SELECT unnest(a) AS x FROM records", {"a": [1, 2]}),
    ("SELECT unnest(a)['b'] AS x FROM records", {"a": [{"b": 1}]}),
    ("SELECT upper(b) AS x FROM records WHERE array_length(a) > 1 OR a IS NULL", {"a": [1], "b": "x"}),
    ("SELECT unnest(a['b']) AS x FROM records", {"a": {"b": [1, 2]}}),
    ("SELECT unnest(a['b''s']['c'])['d'] AS x, a['e'] AS e FROM records", {"a": {"b's": {"c": [{"d": 1}]}, "e": 2}}),
    ("SELECT date_trunc('day', a['at']) AS x, array_length(\"a\"['b']) AS n FROM records",
     {"a": {"at": "2026-01-02T03:04:05Z", "b": [1]}}),
    ("SELECT array_length(a[1]['b']) AS x FROM records", {"a": [{"b": [1, 2]}]}),
    ("SELECT a, array_length(a['b']) AS x, trunc(c) AS z FROM records", {"a": {"b": [1]}, "c": 1.5}),
    ("SELECT unnest(value['a']['b']) AS x FROM records", {"a": {"b": [1, 2]}}),
])  # fmt: skip
def test_a_record_alone_has_the_result_that_it_has_beside_others(query, value):
    """Some functions take no column of nulls only, such as that of a tombstone that is alone in its batch."""
    others = [None, {"other": 1}, dict.fromkeys(value)]
    together = selected(query, value, *others)
    alone = [one for other in others for one in selected(query, other)]
    assert together[len(together) - len(alone) :] == alone
    assert selected(query, *others) == alone


@pytest.mark.parametrize(("query", "value", "expected"), [
    ("SELECT a['b'] AS x FROM records", {"a": {"c": 1}}, {}),
    ("SELECT a, a['b']['d'] AS x FROM records", {"a": {"c": 1}}, {"a": {"c": 1}, "x": None}),
    ("SELECT *, a['b'] AS x FROM records", {"a": {"b": None}}, {"a": {"b": None}, "x": None}),
    ("SELECT array_length(a['b']) AS x FROM records", {"a": {}}, {"x": None}),
    ("SELECT *, date_trunc('day', a[1]['b']) AS x FROM records", {"a": [{"c": 1}, {}]}, {
        "a": [{"c": 1}, {}], "x": None}),
    ("SELECT value['a']['b'] AS x FROM records", {"c": 1}, {"x": None}),
])  # fmt: skip
def test_fields_in_fields_that_no_record_of_a_batch_has_are_no_error(query, value, expected):
    """Like fields that only some records have, they are null, and absent if they are selected as they are."""
    (batch,) = through(query, value)
    assert to_python(batch.column("value"), batch.schema.field("value").metadata) == [expected]


def test_what_a_record_does_not_have_inside_a_field_stays_absent():
    values = [{"a": {"c": 1}}, {"a": {"b": 1}}, {"a": {"l": [{"x": 1}, {"y": None}]}}]
    for query in ("SELECT * FROM records", "SELECT a FROM records"):
        assert values == [value for batch in through(query, *values) for value in to_python(
            batch.column("value"), batch.schema.field("value").metadata)]


def test_a_bad_record_among_records_without_the_field_is_found():
    values = [{"a": [1]}, *[{"b": 1}] * 20, {"b": "x"}, *[{"a": None}] * 20]
    with pytest.raises(ToleranceExceededError, match=r"offset 21: .*[Cc]ast"):
        through("SELECT array_length(a) AS a, CAST(b AS BIGINT) AS b FROM records", *values)


def test_a_bad_record_among_records_with_structs_in_structs_is_found():
    """A slice of the batch is queried then."""
    values = [{"a": {"b": {"c": n}}, "n": str(n)} for n in range(10)]
    values[6]["n"] = "x"
    with pytest.raises(ToleranceExceededError, match=r"offset 6: .*[Cc]ast"):
        through("SELECT a['b'] AS b, CAST(n AS BIGINT) AS n FROM records", *values)
    del values[6]
    assert selected("SELECT a['b']['c'] AS c FROM records", *values) == [{"c": n} for n in range(10) if n != 6]


def test_schemas_of_selected_fields_are_kept_and_others_created():
    config = {**SCHEMALESS, "value.converter.schemas.enable": "true",
              "transforms.q.query": "SELECT name, at, amount * 2 AS double, now() AS now FROM records"}  # fmt: skip
    value = {"schema": STRUCT, "payload": {"name": "a", "amount": 4, "at": 1_000}}
    (batch,) = SinkPipeline(worker(), config).to_connect_batches("t", 0, raw_batch([json.dumps(value).encode()]))
    schema = from_text(batch.schema.field("value").metadata[SCHEMA_KEY])
    fields = {field.name: field.schema for field in schema.fields}
    assert list(fields) == ["name", "at", "double", "now"]
    assert (fields["name"].doc, fields["name"].optional) == ("who", False)
    assert fields["at"].name == fields["now"].name == "org.apache.kafka.connect.data.Timestamp"
    assert fields["double"].optional
    assert batch.column("value").to_pylist()[0]["double"] == 8


@pytest.mark.parametrize(("query", "why"), [
    ("DELETE FROM records", "does not begin with SELECT"),
    ("", "does not begin with SELECT"),
    ("SELECT 1", "has no FROM records"),
    ("SELECT * FROM '/etc/passwd'", "FROM must be followed by records"),
    ("SELECT * FROM records, (SELECT 1)", "a SELECT inside another"),
    ("SELECT a FROM records, records AS others", "it has a second table"),
    ("SELECT name, count(*) FROM records GROUP BY name", "GROUP combines several records"),
    ("SELECT DISTINCT name FROM records", "DISTINCT combines several records"),
    ("SELECT DISTINCT FROM records", "has no FROM records"),
    ("SELECT name FROM records OFFSET 1", "OFFSET combines several records"),
    ("SELECT a,, FROM records", "Expected: an expression, found: , at Line: 1, Column: 10;"),
    ("SELECT *, a,, FROM records", "Expected: an expression, found: ,;"),
    ("SELECT 'a FROM records", "Unterminated string literal"),
    ("SELECT a FROM records WHERE", "Expected: an expression, found: EOF"),
    ("SELECT a FROM records; DROP TABLE records", "only supports a single SQL statement"),
    ("SELECT n, n FROM records", "unique expression names"),
    ("SELECT n, upper(n) AS n FROM records", "ambiguous"),
    ("SELECT *, * FROM records", "unique expression names"),
    ("SELECT r.* FROM records r", "for all fields of the value, without a name before it"),
    ("SELECT nope(x) AS y FROM records", "Invalid function 'nope'"),
    ("SELECT upper(a, b) AS y FROM records", "expects 1 arguments but received 2"),
    ("SELECT count(*) AS n FROM records", "combines several records"),
    ("SELECT sum(a) AS n FROM records", "combines several records"),
    ("SELECT a INTO b FROM records", "DDL not supported"),
    ("SELECT CAST(a AS FOO) AS b FROM records", "Unsupported SQL type FOO"),
    ("SELECT repeat(s, n) AS x FROM records", "the second argument of repeat must have a limit"),
    ("SELECT upper(\"Rpad\" (s, length(t), 'x')) AS x FROM records", "the second argument of rpad must"),
    ("SELECT s FROM records WHERE lpad(s, n + 1) = 'x'", "the second argument of lpad must"),
    ("SELECT array_repeat(array_repeat(1, n), 3) AS x FROM records", "the second argument of array_repeat must"),
    ("SELECT list_resize([1, 2], least(n, m), 0) AS x FROM records", "the second argument of list_resize must"),
])  # fmt: skip
def test_invalid_queries_are_refused(query, why):
    with pytest.raises(ConfigError, match=why):
        Sql().configure({"query": query})
    assert [error for value in Sql.config_def.validate({"query": query}) for error in value.errors if why in error]


@pytest.mark.parametrize("query", [
    "SELECT *, value FROM records", "SELECT *, a FROM records", "SELECT unnest(items)['sku'] AS sku FROM records",
    "SELECT a['b']['c'] AS c, key['d'] AS d, headers[1]['key'] AS h FROM records", "SELECT 2.*a AS b FROM records",
    "SELECT lpad(s, 8, '0') AS l, repeat(concat(s, ',', t), least(abs(n), 10)) AS r FROM records",
    "SELECT repeat, lpad(s, LEAST(10, array_length([1, n]))) AS l, array_repeat([1, 2], 1000) AS a FROM records",
    "SELECT array_max(a) AS m, map_keys(b) AS k, to_timestamp(c) AS t, d + interval '1 day' AS e FROM records",
])  # fmt: skip
def test_queries_that_depend_on_the_types_are_accepted(query):
    Sql().configure({"query": query})


def test_without_datafusion_a_query_is_parsed_only(monkeypatch):
    monkeypatch.setattr("spark_tasks.pipeline.transforms.sql_query.find_spec", lambda _: None)
    assert Sql.config_def.parse({"query": "SELECT a,, FROM records"})
    with pytest.raises(ConfigError, match="has no FROM"):
        Sql.config_def.parse({"query": "SELECT a"})


def test_aggregations_over_records_are_refused():
    with pytest.raises(ConfigError, match="combines several records"):
        through("SELECT count(*) AS n FROM records", {"a": 1})


def test_the_bad_record_is_named():
    values = [{"a": str(n)} for n in range(100)]
    values[70] = {"a": "x"}
    with pytest.raises(ToleranceExceededError, match=r"offset 70: .*[Cc]ast"):
        through("SELECT CAST(a AS BIGINT) AS a FROM records", *values)


def test_the_reason_for_a_bad_record_is_the_cause_of_datafusions_error():
    with pytest.raises(ToleranceExceededError, match=r"offset 0: Error during planning: Cannot infer common argument"):
        through("SELECT a FROM records WHERE a IS NOT DISTINCT FROM (b OR a = 1)", {"a": 1, "b": 1})


def test_a_query_that_cannot_be_planned_says_why():
    with pytest.raises(ConfigError, match="no_such_function"):
        through("SELECT no_such_function(a) AS a FROM records", {"a": 1})


@given(st.lists(st.integers(-5, 5) | st.none(), max_size=40), st.integers(-5, 5))
def test_a_filter_selects_the_same_records_as_python(numbers, least):
    schema = pa.schema([("offset", pa.int64()), ("value", pa.struct([("n", pa.int64())])), ("headers", HEADERS_TYPE)])
    rows = [{"offset": at, "value": {"n": n}, "headers": None} for at, n in enumerate(numbers)]
    transform = Sql()
    transform.configure({"query": f"SELECT n + 1 AS m FROM records WHERE n >= {least}"})  # noqa: S608 - a number
    found = transform.apply(pa.RecordBatch.from_pylist(rows, schema=schema))
    expected = [(at, n + 1) for at, n in enumerate(numbers) if n is not None and n >= least]
    assert [(row["offset"], row["value"]["m"]) for batch in found for row in batch.to_pylist()] == expected


def test_the_example_in_the_documentation_works():
    config = re.search(r"<!-- test: config -->\n```json\n(.*?)```", Path("docs/sql.md").read_text(), re.DOTALL)
    query = json.loads(config[1])["transforms.q.query"]
    assert selected(query, *ORDERS[:2], {"name": "x"}) == [{"name": "B", "double": 4}]


def test_unnest_does_not_copy_the_value_for_each_item():
    """400,000 copies of 4 MB need 1.6 TB."""
    value = {"items": [1] * 400_000, "name": "n" * 4_000_000}
    [found] = through("SELECT unnest(items) AS item FROM records", value)
    assert len(found) == 400_000
    assert found.column("value")[0].as_py() == {"item": 1}


def test_a_panic_of_the_library_makes_a_bad_record(monkeypatch):
    """A panic in Rust is not an Exception in Python. regexp_replace panics for a result of more than 2 GB."""
    class PanicException(BaseException):
        pass

    collect = DataFrame.collect

    def panicking(frame):
        found = collect(frame)
        if any("bad" in str(batch) for batch in found):
            raise PanicException("byte array offset overflow")
        return found

    monkeypatch.setattr(DataFrame, "collect", panicking)
    with pytest.raises(ToleranceExceededError, match=r"offset 2: a library cannot process .*: byte array offset"):
        through("SELECT name FROM records", {"name": "a"}, {"name": "b"}, {"name": "bad"}, {"name": "c"})


def test_a_lack_of_memory_makes_no_bad_record(monkeypatch):
    """With errors.tolerance=all, the records were lost."""
    def lacking(*_, **__):
        raise pa.lib.ArrowMemoryError("malloc failed")

    monkeypatch.setattr(pa, "concat_batches", lacking)
    with pytest.raises(MemoryError):
        selected("SELECT * FROM records", *ORDERS)
