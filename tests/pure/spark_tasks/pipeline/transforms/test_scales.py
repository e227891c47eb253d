"""Masked decimals: within a chain they have their own scale, as in Java; after it, their schema's."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type, to_text
from spark_tasks.pipeline.transforms.chain import TransformError, make_chain
from spark_tasks.plugins import Plugins
from tests.rigs.chains import chain

PRICE = Schema(Type.BYTES, optional=True, name=DECIMAL, version=1, parameters=(("scale", "2"),))
KIND = pa.decimal128(38, 2)
SHORT = Schema(Type.STRUCT, fields=(Field("price", PRICE), Field("id", Schema(Type.INT32))))


def batch(schema=SHORT, prices=("1.50", None, "2.25")):
    found = pa.array([None if price is None else Decimal(price) for price in prices], KIND)
    inner = pa.StructArray.from_arrays(
        [found, pa.array(range(len(prices)), pa.int32())],
        fields=[pa.field("price", KIND), pa.field("id", pa.int32(), nullable=False)])
    field = pa.field("value", inner.type, metadata={SCHEMA_KEY: to_text(schema).encode()})
    topics = pa.array(["t"] * len(prices)).dictionary_encode()
    return pa.RecordBatch.from_arrays([topics, inner], schema=pa.schema([pa.field("topic", topics.type), field]))


def masked(*more, replacement=None):
    own = {"fields": "price"} if replacement is None else {"fields": "price", "replacement": replacement}
    return list(make_chain(Plugins(), chain(("MaskField$Value", own), *more)).apply(batch()))


def prices(batches):
    return [row["price"] for one in batches for row in one.column("value").to_pylist()]


def test_after_the_chain_a_masked_decimal_has_the_scale_of_its_schema():
    [found] = masked()
    assert found.column("value").type.field("price").type == KIND
    assert [str(price) for price in prices([found])] == ["0.00", "None", "0.00"]
    assert [str(price) for price in prices(masked(replacement="7"))] == ["7.00", "None", "7.00"]
    assert [str(price) for price in prices(masked(replacement="1e1"))] == ["10.00", "None", "10.00"]


@pytest.mark.parametrize(("replacement", "text"), [(None, "0"), ("7", "7"), ("-1.500", "-1.500"), ("1e1", "1E+1")])
def test_a_transform_that_follows_prints_a_masked_decimal_as_java_does(replacement, text):
    cast = ("Cast$Value", {"spec": "price:string"})
    assert prices(masked(cast, replacement=replacement)) == [text, None, text]


def test_between_transforms_that_change_single_records_the_scale_remains():
    nest = ("HoistField$Value", {"field": "h"})
    by_rows = ("HeaderFrom$Value", {"fields": "price", "headers": "p", "operation": "copy"})
    flat = ("Flatten$Value", {"delimiter": "."})
    found = masked(by_rows, nest, flat, ("Cast$Value", {"spec": "h.price:string"}))
    assert [row[0]["value"] for one in found for row in one.column("headers").to_pylist()] == [b"0", None, b"0"]
    assert [row["h.price"] for one in found for row in one.column("value").to_pylist()] == ["0", None, "0"]
    [nested] = masked(nest)
    assert [str(row["h"]["price"]) for row in nested.column("value").to_pylist()] == ["0.00", "None", "0.00"]


def test_only_what_is_left_at_the_end_has_to_fit_the_schema():
    again = ("MaskField$Value", {"fields": "price"})
    assert [str(price) for price in prices(masked(again, replacement="0.125"))] == ["0.00", "None", "0.00"]
    with pytest.raises(TransformError, match=r"0\.125 is not a number with the scale 2") as bad:
        masked(("InsertField$Value", {"topic.field": "topic"}), replacement="0.125")
    assert bad.value.alias == "t0"
    assert bad.value.part.row == 0


def test_a_whole_value_and_keys_are_settled_too():
    [found] = masked(("ValueToKey", {"fields": "price"}), ("ExtractField$Value", {"field": "price"}))
    assert [str(price) for price in found.column("value").to_pylist()] == ["0.00", "None", "0.00"]
    assert [str(row["price"]) for row in found.column("key").to_pylist()] == ["0.00", "None", "0.00"]
