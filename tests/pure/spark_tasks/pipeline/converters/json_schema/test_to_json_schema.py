"""Connect schemas as JSON Schemas: numbers in defaults."""

import json
from decimal import Decimal

import pytest

from spark_tasks.data.schema import DECIMAL, STRING, Field, Schema, Type
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions
from spark_tasks.pipeline.converters.json_schema.to_connect import connect_schema
from spark_tasks.pipeline.converters.json_schema.to_json_schema import json_schema_text

NUMERIC = JsonSchemaOptions(numeric=True)
PRICE = Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "3"),))
LONG = "12345678901234567890.123"


@pytest.mark.parametrize(("schema", "default"), [
    (Schema(Type.INT64, default="9223372036854775807"), 2**63 - 1),
    (Schema(Type.INT64, default="-9223372036854775808"), -(2**63)),
    (Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "3"),), default=LONG), Decimal(LONG)),
    (Schema(Type.ARRAY, value=PRICE, default=f"[{LONG}]"), [Decimal(LONG)]),
    (Schema(Type.MAP, key=STRING, value=PRICE, default=f'{{"k":{LONG}}}'), {"k": Decimal(LONG)}),
    (Schema(Type.STRUCT, default=f'{{"a":{LONG},"b":0.1}}', fields=(
        Field("a", PRICE), Field("b", Schema(Type.FLOAT64)))), {"a": Decimal(LONG), "b": Decimal("0.1")}),
])
def test_defaults_keep_all_digits(schema, default):
    """Those of decimals within a default were rounded to a double."""
    text = json_schema_text(schema, NUMERIC)
    assert json.loads(text, parse_float=Decimal)["default"] == default
    assert json_schema_text(connect_schema(text, {}, NUMERIC), NUMERIC) == text
