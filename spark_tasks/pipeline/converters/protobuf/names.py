"""Names that Confluent's Protobuf converter uses in schemas, and the options of the mapping."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote_plus

from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

NAMESPACE = "io.confluent.connect.protobuf"
DEFAULT_NAME = "ConnectDefault"
ENUM = f"{NAMESPACE}.Enum"
UNION = f"{NAMESPACE}.Union"
TAG = f"{NAMESPACE}.Tag"
KIND = f"{NAMESPACE}.Type"
WRAPPER = f"{NAMESPACE}.Wrapper"
SUM_ENUM = "org.apache.kafka.connect.data.Enum"
SUM_UNION = "org.apache.kafka.connect.data.Union"
PRECISION = "connect.decimal.precision"
CONNECT_TYPE = "connect.type"

DECIMAL_MESSAGE = "confluent.type.Decimal"
DATE_MESSAGE = "google.type.Date"
TIME_MESSAGE = "google.type.TimeOfDay"
TIMESTAMP_MESSAGE = "google.protobuf.Timestamp"
# the messages for Connect's logical types, and their files
LOGICAL = {
    DECIMAL: (DECIMAL_MESSAGE, "confluent/type/decimal.proto"),
    DATE: (DATE_MESSAGE, "google/type/date.proto"),
    TIME: (TIME_MESSAGE, "google/type/timeofday.proto"),
    TIMESTAMP: (TIMESTAMP_MESSAGE, "google/protobuf/timestamp.proto"),
}
WRAPPERS_FILE = "google/protobuf/wrappers.proto"
META_FILE = "confluent/meta.proto"
# wrapper types: messages with one field, `value`, for a nullable value; in the order of their file
WRAPPERS = {
    "google.protobuf.DoubleValue": Type.FLOAT64, "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64, "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32, "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN, "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}  # fmt: skip
_FLAGS = {
    "enhanced": "enhanced.protobuf.schema.support", "scrub": "scrub.invalid.names", "int_enums": "int.for.enums",
    "optional": "optional.for.nullables", "proto2": "optional.for.proto2", "wrapper": "wrapper.for.nullables",
    "raw": "wrapper.for.raw.primitives", "structs": "generate.struct.for.nulls",
    "indexes": "generate.index.for.unions", "flatten": "flatten.unions", "sums": "generalized.sum.type.support",
    "ignore_defaults": "ignore.default.for.nullables",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProtobufOptions:
    """The options of the mapping. _FLAGS has their keys in the converter's configuration."""

    enhanced: bool = False
    scrub: bool = False
    int_enums: bool = False
    optional: bool = False
    proto2: bool = True
    wrapper: bool = False
    raw: bool = True
    structs: bool = False
    indexes: bool = True
    flatten: bool = False
    sums: bool = False
    ignore_defaults: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ProtobufOptions:
        """Returns the options of a parsed configuration."""
        return cls(**{field.name: values[_FLAGS[field.name]] for field in fields(cls)})

    def name(self, name: str) -> str:
        """Returns the name; with scrub.invalid.names, an invalid name becomes one that Protobuf allows."""
        if not self.scrub or not name or re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            return name
        encoded = quote_plus(name, safe="*").replace("~", "%7E")  # as Java encodes it
        encoded = f"x{encoded}" if encoded[0].isdigit() or encoded[0] == "_" else encoded
        return re.sub(r"[^A-Za-z0-9_]", "_", encoded)

    @property
    def enum(self) -> str:
        """The schema parameter of values that are enums."""
        return SUM_ENUM if self.sums else ENUM


def is_enum(schema: Schema) -> bool:
    """Returns whether values of the schema are an enum in Protobuf."""
    parameters = dict(schema.parameters)
    return (schema.type is Type.STRING and SUM_ENUM in parameters) or (
        schema.type in (Type.STRING, Type.INT32) and ENUM in parameters)


def is_union(schema: Schema) -> bool:
    """Returns whether a struct is a oneof: one of its fields is not null."""
    return schema.type is Type.STRUCT and (
        (schema.name or "").startswith(UNION) or SUM_UNION in dict(schema.parameters))


def is_wrapped(schema: Schema, options: ProtobufOptions, *, in_oneof: bool) -> bool:
    """Returns whether a value is written in a wrapper message, so that it is nullable."""
    marked = dict(schema.parameters).get(WRAPPER, "").lower() == "true"
    return options.wrapper and schema.optional and (not in_oneof or marked)


def entry_name(name: str) -> str:
    """Returns the name of the message for a map's entries. `name`: that of the map."""
    return ("".join(part.capitalize() for part in name.split("_")) if "_" in name else name) + "Entry"


def map_name(entry: str) -> str:
    """Returns the name of the map whose entries are messages with the name `entry`."""
    space, dot, last = entry.rpartition(".")
    return space + dot + re.sub(r"(?<!^)(?=[A-Z])", "_", last.removesuffix("Entry")).lower()
