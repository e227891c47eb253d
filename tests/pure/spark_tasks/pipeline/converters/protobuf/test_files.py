"""Schemas as Confluent's converter registers them."""

import pyarrow as pa
import pytest

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.protobuf import columns
from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec
from spark_tasks.pipeline.converters.protobuf.files import files_of
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.protobuf.to_connect import connect_schema
from spark_tasks.pipeline.converters.protobuf.to_protobuf import protobuf_file
from spark_tasks.pipeline.converters.protobuf.tree import Schemas

# from https://github.com/redpanda-data/console/issues/1184, shortened
REGISTERED = """syntax = "proto3";
package test.db_test.dbo.User_Setup;

import "confluent/type/decimal.proto";

message Value {
  int32 Register_Time = 5 [(confluent.field_meta) = {
    params: [
      {
        key: "connect.type",
        value: "int16"
      }
    ]
  }];
  confluent.type.Decimal Max_Auto_Value = 6 [(confluent.field_meta) = {
    params: [
      {
        value: "38",
        key: "precision"
      },
      {
        value: "20",
        key: "scale"
      }
    ]
  }];
} // the end"""


def of(text, references):
    message = Schemas(files_of(text, references)).message((0,))
    return [field.schema for field in connect_schema(message, ProtobufOptions()).fields]


@pytest.mark.parametrize("imported", [
    "", 'import "confluent/meta.proto";', "import public\n'confluent/meta.proto' ;", 'import"confluent/meta.proto";',
    'import /*x*/ "confluent/meta.proto";'])
def test_confluents_options_need_no_import(imported):
    """Its converter registers schemas without it. Without the options, integers and decimals have other types."""
    small, decimal = of(REGISTERED.replace("message Value", f"{imported}\nmessage Value"), {})
    assert small.type is Type.INT16
    assert (decimal.name, dict(decimal.parameters)["scale"]) == (DECIMAL, "20")


def test_references_need_no_import_for_confluents_options():
    text = """syntax = "proto3"; import "value.proto"; message M { test.db_test.dbo.User_Setup.Value v = 1; }"""
    [value] = of(text, {"value.proto": REGISTERED})
    assert value.fields[0].schema.type is Type.INT16


def test_entries_of_maps_have_no_optional_fields():
    """As in the schemas that Confluent's converter registers: a migrated connector registers no other version."""
    schema = Schema(Type.STRUCT, name="M", fields=(Field("m", Schema(
        Type.MAP, name="N", optional=True, key=Schema(Type.STRING, optional=True),
        value=Schema(Type.STRUCT, name="V", optional=True, fields=(Field("x", Schema(Type.STRING, optional=True)),)))),
    ))  # fmt: skip
    options = ProtobufOptions(optional=True)
    files, text, _ = protobuf_file(schema, options)
    assert text == """syntax = "proto3";

message M {
  repeated NEntry m = 1;

  message NEntry {
    string key = 1;
    V value = 2;

    message V {
      optional string x = 1;
    }
  }
}
"""
    message = Schemas(files).message((0,))
    wire = columns.from_connect(pa.array([{"m": [("a", None), ("b", {"x": None})]}], to_arrow(schema)), schema, message,
                                options)
    assert ProtobufCodec(message).encode(wire).to_pylist() == [b"\x0a\x03\x0a\x01a\x0a\x05\x0a\x01b\x12\0"]


def test_other_options_need_their_import():
    with pytest.raises(DataError, match="unknown"):
        of('syntax = "proto3"; message M { int32 x = 1 [(acme.field_meta) = {}]; }', {})
