"""Decimals of more than 38 digits whose schema has no precision, from a record to a sink."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heeler import transform
from spark_tasks.connectors.parquet.connector import ParquetSinkConnector
from spark_tasks.data.arrow_types import PRECISION
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.rows import spark_rows
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type, to_text
from spark_tasks.pipeline.converters.base import BadRowError, schema_of
from spark_tasks.pipeline.converters.java_columns import typed
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.json_write import decimal_base64
from spark_tasks.pipeline.converters.long_decimals import built, with_long_decimals
from spark_tasks.pipeline.converters.nested import filled
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.transforms.chain import Stage
from tests.rigs.chains import T
from tests.rigs.raw_records import JSON, raw_batch, worker

MONEY = Schema(Type.BYTES, optional=True, name=DECIMAL, version=1, parameters=(("scale", "3"),))
ORDER = Schema(Type.STRUCT, fields=(Field("price", MONEY), Field("id", Schema(Type.INT32))))
LONG, SHORT = Decimal("123456789" * 5 + ".125"), Decimal("7.500")
LONG_TYPE, SHORT_TYPE = pa.decimal256(76, 3), pa.decimal128(38, 3)


def payloads(*prices: Decimal | None, schema: Schema = ORDER) -> list[bytes]:
    rows = [f'{{"price":{"null" if price is None else price},"id":{i}}}' for i, price in enumerate(prices)]
    return [f'{{"schema":{to_text(schema)},"payload":{row}}}'.encode() for row in rows]


def through(*steps: tuple[str, dict[str, str]], prices=(LONG, None, SHORT), **more: str) -> list[pa.RecordBatch]:
    config = {"value.converter": JSON, "transforms": ",".join(f"t{i}" for i in range(len(steps))), **more}
    for i, (name, options) in enumerate(steps):
        config |= {f"transforms.t{i}.type": name, **{f"transforms.t{i}.{key}": one for key, one in options.items()}}
    return list(SinkPipeline(worker(), config).to_connect_batches("t", 3, raw_batch(payloads(*prices))))


def values(batches, name="price"):
    return [row[name] for batch in batches for row in batch.column("value").to_pylist()]


def test_only_schemas_with_decimals_without_a_precision_have_another_one():
    exact = Schema(Type.BYTES, name=DECIMAL, parameters=(("scale", "2"), (PRECISION, "10")))
    counts = Schema(Type.MAP, key=exact, value=exact)
    for schema in (exact, Schema(Type.BYTES), Schema(Type.STRING, name=DECIMAL), counts):
        assert with_long_decimals(schema) == schema
    [price, number] = with_long_decimals(ORDER).fields
    assert (price.schema.parameters, number) == ((("scale", "3"), (PRECISION, "76")), ORDER.fields[1])


def test_an_error_that_has_nothing_to_do_with_decimals_is_raised_at_once():
    seen = []

    def build(schema):
        seen.append(schema)
        raise BadRowError(1, "bad")

    for schema, attempts in ((Schema(Type.STRING), 1), (ORDER, 2)):
        with pytest.raises(BadRowError, match="bad"):
            built(build, schema)
        assert len(seen) == attempts
        seen.clear()


def test_only_the_batch_with_a_long_decimal_has_longer_columns():
    [usual], [longer] = through(prices=(SHORT, None)), through(prices=(SHORT, LONG))
    assert [one.column("value").type.field("price").type for one in (usual, longer)] == [SHORT_TYPE, LONG_TYPE]
    assert [schema_of(one.schema.field("value").metadata) for one in (usual, longer)] == [ORDER, ORDER]


@pytest.mark.parametrize(("name", "options", "expected"), [
    ("Cast$Value", {"spec": "price:string"}, [str(LONG), None, "7.500"]),
    ("MaskField$Value", {"fields": "price"}, [Decimal(0), None, Decimal(0)]),
    ("MaskField$Value", {"fields": "price", "replacement": "9" * 45}, [Decimal("9" * 45), None, Decimal("9" * 45)]),
    ("InsertField$Value", {"static.field": "x", "static.value": "y"}, [LONG, None, SHORT]),
    ("HeaderFrom$Value", {"fields": "price", "headers": "h", "operation": "copy"}, [LONG, None, SHORT]),
    ("ReplaceField$Value", {"exclude": "id"}, [LONG, None, SHORT]),
])  # fmt: skip
def test_transforms_keep_all_digits(name, options, expected):
    assert values(through((T + name, options))) == expected


def test_a_replacement_may_be_longer_than_the_numbers_that_it_masks():
    [found] = through((T + "MaskField$Value", {"fields": "price", "replacement": "9" * 45}), prices=(SHORT, None))
    assert values([found]) == [Decimal("9" * 45), None]


def test_headers_have_all_digits():
    [found] = through((T + "HeaderFrom$Value", {"fields": "price", "headers": "h", "operation": "copy"}),
                      **{"header.converter": JSON, "header.converter.schemas.enable": "false",
                         "header.converter.decimal.format": "NUMERIC"})  # fmt: skip
    assert found.column("headers")[0][0]["value"].as_py() == str(LONG).encode()


def test_a_query_that_selects_a_decimal_keeps_its_schema():
    [found] = through(("Sql", {"query": "SELECT price, id FROM records"}))
    assert values([found]) == [LONG, None, SHORT]
    assert schema_of(found.schema.field("value").metadata).fields[0] == ORDER.fields[0]


def test_a_function_may_set_a_long_decimal():
    @transform
    def raised(record):
        record.value["price"] = Decimal("1e60")
        return record

    plugin = raised()
    plugin.configure({})
    [batch] = through(prices=(SHORT,))
    [found] = Stage("t", "raised", plugin).apply(batch)
    assert values([found]) == [Decimal("1e60")]


def test_values_of_java_classes_may_be_long():
    assert typed([LONG, None], MONEY).type == LONG_TYPE
    assert typed([SHORT, None], MONEY).type == SHORT_TYPE


def test_defaults_may_be_longer_than_values_and_values_longer_than_defaults():
    """A long default made each record bad."""
    for default, found in ((LONG, SHORT), (SHORT, LONG), (SHORT, SHORT)):
        schema = replace(MONEY, optional=False, default=decimal_base64(default, 3))
        kind = LONG_TYPE if found == LONG else SHORT_TYPE
        assert filled(pa.array([found, None], kind), schema).to_pylist() == [found, default]
        order = Schema(Type.STRUCT, fields=(Field("price", schema), *ORDER.fields[1:]))
        converter = JsonConverter()
        converter.configure({"schemas.enable": "true"}, is_key=False)
        read, metadata = converter.to_connect("t", pa.array(payloads(found, None, schema=order), pa.binary()))
        assert [row["price"] for row in read.to_pylist()] == [found, default]
        written = converter.from_connect("t", read, metadata).to_pylist()
        assert converter.to_connect("t", pa.array(written, pa.binary()))[0] == read
        assert json.loads(written[0])["payload"]["id"] == 0


def test_sinks_get_all_digits(tmp_path):
    """Parquet files have one type of column each: a batch with long decimals begins another file."""
    batches = [*through(prices=(SHORT,)), *through(prices=(LONG, SHORT))]
    writer = ParquetSinkConnector.data_source({"path": str(tmp_path)}).writer(None, overwrite=False)
    second = batches[1].set_column(batches[1].schema.get_field_index("offset"), "offset", pa.array([1, 2]))
    writer.commit([writer.write(iter([batches[0], second]))])
    tables = [pq.read_table(path) for path in sorted(tmp_path.glob("t-*.parquet"))]
    assert [table.schema.field("price").type for table in tables] == [SHORT_TYPE, LONG_TYPE]
    assert [price for table in tables for price in table.column("price").to_pylist()] == [SHORT, LONG, SHORT]
    assert [row.value.price for row in spark_rows(second)] == [LONG, SHORT]
    assert SCHEMA_KEY in second.schema.field("value").metadata
