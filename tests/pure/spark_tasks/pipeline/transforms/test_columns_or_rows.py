"""A few records that lack a member, or have another type in it, do not make a whole batch go record by record."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.transforms.cast import Cast
from spark_tasks.pipeline.transforms.columns_or_rows import ColumnsOrRows
from spark_tasks.pipeline.transforms.extract_field import ExtractField
from spark_tasks.pipeline.transforms.header_from import HeaderFrom
from spark_tasks.pipeline.transforms.value_to_key import ValueToKey
from tests.rigs.chains import SCHEMALESS, chain, rows, sink

SIZE = 2048
CHAINS = [
    ("Cast$Value", {"spec": "amount:string"}),
    ("HeaderFrom$Value", {"fields": "amount,ts", "headers": "a,ts", "operation": "copy"}),
    ("HeaderFrom$Value", {"fields": "amount", "headers": "a", "operation": "move"}),
    ("MaskField$Value", {"fields": "name,amount"}),
    ("TimestampConverter$Value", {"field": "ts", "target.type": "string", "format": "yyyy-MM-dd"}),
    ("ValueToKey", {"fields": "amount,name"}),
]
RARE = [*CHAINS, ("Flatten$Value", {}), ("MaskField$Value", {"fields": "inner.a", "field.syntax.version": "V2"})]


def record(number, **more):
    return {"id": number, "name": f"n{number}", "amount": number + 0.5, "ts": 10**12, "inner": {"a": 1}, **more}


def without(number, *names):
    return {name: one for name, one in record(number).items() if name not in names}


@pytest.fixture
def one_by_one(monkeypatch):
    """The numbers of records that are changed one by one."""
    sizes, own = [], ColumnsOrRows.by_rows
    monkeypatch.setattr(
        ColumnsOrRows, "by_rows", lambda self, batch, *more: (sizes.append(len(batch)), own(self, batch, *more))[1]
    )
    return sizes


def outcome(step, records):
    batches = sink(chain(step), [json.dumps(one).encode() for one in records])
    return [*zip(*(written(batches, part) for part in ("key", "value")), rows(batches, "headers"), strict=True)]


def written(batches, part):
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"})
    texts = [converter.from_connect("t", one.column(part), one.schema.field(part).metadata) for one in batches]
    return [text and json.loads(text) for array in texts for text in array.to_pylist()]


def lacks(number):
    return without(number, "amount", "ts", "name")


def lacks_or_has_null(number):
    return record(number, amount=None, ts=None) if number % 3 else lacks(number)


@pytest.mark.parametrize("odd", [lacks, lacks_or_has_null])
@pytest.mark.parametrize("step", CHAINS)
def test_records_that_lack_a_member_are_changed_in_columns(one_by_one, step, odd):
    records = [odd(number) if number % 2 else record(number) for number in range(SIZE)]
    found = outcome(step, records)
    assert not one_by_one
    assert found[:8] == [outcome(step, [one])[0] for one in records[:8]]
    assert [value["id"] for _, value, _ in found] == list(range(SIZE))


@pytest.mark.parametrize("step", RARE)
def test_few_records_beside_one_of_another_type_are_changed_one_by_one(one_by_one, step):
    records = [record(number) for number in range(SIZE)]
    records[777] = without(777, "ts", "inner") | {"amount": "12", "name": 5}
    records[1300] = record(1300, ts=None, inner=None)
    found = outcome(step, records)
    assert sum(one_by_one) < SIZE / 10
    assert [value["id"] for _, value, _ in found] == list(range(SIZE))
    alone = {row: outcome(step, [records[row]])[0] for row in (0, 776, 777, 778, 1299, 1300, 1999)}
    assert {row: found[row] for row in alone} == alone


def test_a_member_that_is_no_json_is_not_the_error_of_another_record():
    """As a plugin's transform may leave it. The error named a record by the place of the text in a part of them."""
    records = [record(number) for number in range(SIZE)]
    records[777] = record(777, amount="12")
    (batch,) = sink(SCHEMALESS, [json.dumps(one).encode() for one in records])
    place = batch.schema.get_field_index("value")
    field, value = batch.schema.field(place), batch.column(place)
    texts = value.field("amount").to_pylist()
    texts[1900] = "{no json"
    children = [pa.array(texts) if one.name == "amount" else value.field(one.name) for one in field.type]
    broken = batch.set_column(place, field, pa.StructArray.from_arrays(children, fields=list(field.type)))
    cast = Cast()
    cast.configure({"spec": "amount:string"})
    with pytest.raises(DataError, match="not valid") as caught:
        cast.apply(broken)
    assert not isinstance(caught.value, BadRowError), "the chain looks for the record"


def with_rare_members(number):
    return record(number, **{f"rare{number % 7}": 1}, inner={"a": 1, f"rare{number % 3}": {"b": "x"}})


ONE_SCHEMA = [
    ("Cast$Value", {"spec": "amount:string"}),
    ("HeaderFrom$Value", {"fields": "amount", "headers": "a", "operation": "move"}),
]


@pytest.mark.parametrize("step", ONE_SCHEMA)
def test_pieces_that_lack_different_rare_members_become_few_batches(one_by_one, step):
    """One for each order of members: Java's maps with more than twelve have another order."""
    records = [record(number) if number % 40 else with_rare_members(number) for number in range(SIZE)]
    for odd in range(300, SIZE, 500):
        records[odd] = record(odd, amount="x")
    assert len(sink(chain(step), [json.dumps(one).encode() for one in records])) < 8
    assert 0 < sum(one_by_one) < SIZE / 4
    found = outcome(step, records)
    alone = {row: outcome(step, [records[row]])[0] for row in (*range(0, SIZE, 40), 1, 299, 300, 301, 1800)}
    assert {row: found[row] for row in alone} == alone


@pytest.fixture
def tried(monkeypatch):
    """The numbers of records that are tried in columns."""
    sizes = []
    for cls in (Cast, ExtractField, HeaderFrom, ValueToKey):
        monkeypatch.setattr(
            cls, "columns", lambda self, batch, own=cls.columns: (sizes.append(len(batch)), own(self, batch))[1]
        )
    return sizes


def test_a_batch_is_not_divided_further_once_too_many_pieces_cannot_be_changed_in_columns(one_by_one, tried):
    outcome(CHAINS[0], [record(number, amount="x") if number % 50 == 7 else record(number) for number in range(SIZE)])
    assert one_by_one == [SIZE]
    assert sum(tried) < 3 * SIZE


V2 = {"field.syntax.version": "V2"}


@pytest.mark.parametrize("step", [
    ("ExtractField$Value", {"field": "inner.a", **V2}),
    ("HeaderFrom$Value", {"fields": "inner.a,id", "headers": "a,id", "operation": "copy", **V2}),
    ("HeaderFrom$Value", {"fields": "inner.a,id", "headers": "a,id", "operation": "move", **V2}),
    ("ValueToKey", {"fields": "id,inner.a", **V2}),
])
def test_fields_named_by_paths_are_found_in_columns(one_by_one, step):
    assert len(outcome(step, [record(number) for number in range(SIZE)])) == SIZE
    assert one_by_one == []


def test_a_transform_that_is_never_done_in_columns_is_tried_only_once(one_by_one, tried):
    """Other converters than SimpleHeaderConverter write headers one by one."""
    config = chain(("HeaderFrom$Value", {"fields": "id", "headers": "a", "operation": "move"}))
    texts = [json.dumps(record(number, amount=None) if number == 7 else record(number)) for number in range(SIZE)]
    sink({**config, "header.converter": "org.apache.kafka.connect.json.JsonConverter"}, [t.encode() for t in texts])
    assert (tried, one_by_one) == ([SIZE], [SIZE])


def test_what_a_move_leaves_of_nested_structs_has_a_schema_without_their_fields(one_by_one):
    field = {"type": "int32", "optional": True, "field": "a"}
    inner = {"type": "struct", "optional": True, "field": "inner", "name": "In", "fields": [
        field, {**field, "field": "b", "default": 7}]}
    schema = {"type": "struct", "fields": [inner, {**field, "field": "c"}]}
    texts = [json.dumps({"schema": schema, "payload": {"inner": {"a": n, "b": None}, "c": n}}) for n in range(SIZE)]
    step = {"fields": "inner.a,c", "headers": "a,c", "operation": "move", **V2}
    config = {**chain(("HeaderFrom$Value", step)), "value.converter.schemas.enable": "true"}
    batches = sink(config, [text.encode() for text in texts])
    assert one_by_one == []
    left = JsonConverter()
    left.configure({})
    [batch] = batches
    found = json.loads(left.from_connect("t", batch.column("value"), batch.schema.field("value").metadata)[5].as_py())
    del inner["fields"][0]
    inner["fields"][0] = {"field": "b", "type": "int32", "optional": True, "default": 7}
    assert found == {"payload": {"inner": {"b": 7}}, "schema": {"type": "struct", "optional": False, "fields": [inner]}}
    assert batch.column("headers")[5].as_py() == [{"key": "a", "value": b"5"}, {"key": "c", "value": b"5"}]
