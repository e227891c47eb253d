"""JsonConverter's options: schema.content (KIP-1054), decimal.format, replace.null.with.default."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type, from_text, to_text
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json import JsonConverter

PRICE = Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))
ROW = Schema(Type.STRUCT, fields=(
    Field("a", Schema(Type.INT32)), Field("b", Schema(Type.STRING, optional=True, default='"x"'))))


def converter(**config):
    found = JsonConverter()
    found.configure(config, is_key=False)
    return found


def test_schema_content_is_the_schema_of_every_payload():
    fixed = converter(**{"schema.content": to_text(ROW)})
    found, metadata = fixed.to_connect("t", pa.array([b'{"a":1,"b":"y"}', None, b'{"a":2}', b'{"a":3,"b":null}']))
    assert from_text(metadata[SCHEMA_KEY]) == ROW
    assert found.to_pylist() == [{"a": 1, "b": "y"}, None, {"a": 2, "b": "x"}, {"a": 3, "b": "x"}]
    with pytest.raises(BadRowError) as bad:  # an envelope is no payload
        fixed.to_connect("t", pa.array([b'{"a":1}', b'{"schema":null,"payload":{"a":1}}']))
    assert bad.value.row == 1


def test_schema_content_has_no_effect_on_writing():
    values = pa.array([{"a": 1, "b": None}], to_arrow(ROW))
    metadata = {SCHEMA_KEY: to_text(ROW).encode()}
    plain, fixed = converter(), converter(**{"schema.content": to_text(ROW)})
    assert fixed.from_connect("t", values, metadata) == plain.from_connect("t", values, metadata)


def test_without_schemas_there_is_no_schema():
    found, metadata = converter(**{"schemas.enable": "false", "schema.content": to_text(ROW)}).to_connect(
        "t", pa.array([b'{"a":1}']))
    assert (found.to_pylist(), SCHEMA_KEY in metadata) == ([{"a": 1}], False)


@pytest.mark.parametrize("text", ["{", '{"type":"map"}', "null"])
def test_an_invalid_schema_content_is_refused(text):
    with pytest.raises(ConfigError, match=r"schema\.content"):
        converter(**{"schema.content": text})


@pytest.mark.parametrize(("form", "written"), [("BASE64", '"BNI="'), ("numeric", "12.34")])
def test_decimals_are_bytes_or_numbers(form, written):
    """Written in the one form, read in both."""
    said = converter(**{"decimal.format": form})
    metadata = {SCHEMA_KEY: to_text(PRICE).encode()}
    text = said.from_connect("t", pa.array([Decimal("12.34")], to_arrow(PRICE)), metadata)[0].as_py().decode()
    assert text == f'{{"schema":{to_text(PRICE)},"payload":{written}}}'
    fixed = converter(**{"schema.content": to_text(PRICE), "decimal.format": form})
    assert fixed.to_connect("t", pa.array([b'"BNI="', b"12.34"]))[0].to_pylist() == [Decimal("12.34")] * 2


def test_nulls_may_be_kept_instead_of_defaults():
    keeping = converter(**{"schema.content": to_text(ROW), "replace.null.with.default": "false"})
    assert keeping.to_connect("t", pa.array([b'{"a":1,"b":null}']))[0].to_pylist() == [{"a": 1, "b": None}]
    written = keeping.from_connect("t", pa.array([{"a": 1, "b": None}], to_arrow(ROW)),
                                   {SCHEMA_KEY: to_text(ROW).encode()})[0].as_py()
    assert json.loads(written)["payload"] == {"a": 1, "b": None}
    with pytest.raises(DataError, match="required"):
        keeping.to_connect("t", pa.array([b'{"a":null}']))
