"""Names that Confluent's Avro converter uses in schemas, and the options of the mapping."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from spark_tasks.data.schema import Schema, Type

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
DEFAULT_FULL_NAME = f"{NAMESPACE}.{DEFAULT_NAME}"
MAP_ENTRY = "MapEntry"
UNION = f"{NAMESPACE}.Union"
ENUM = f"{NAMESPACE}.Enum"
RECORD_DOC = f"{NAMESPACE}.record.doc"
ENUM_DOC = f"{NAMESPACE}.enum.doc."
FIELD_DOC = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT = f"{NAMESPACE}.field.default"
ENUM_DEFAULT = f"{NAMESPACE}.enum.default."
CONNECT_RECORD_DOC = "connect.record.doc"
CONNECT_ENUM_DOC = "connect.enum.doc"
CONNECT_NAME = "connect.name"
CONNECT_DOC = "connect.doc"
CONNECT_VERSION = "connect.version"
CONNECT_DEFAULT = "connect.default"
CONNECT_PARAMETERS = "connect.parameters"
CONNECT_TYPE = "connect.type"
INTERNAL_TYPE = "connect.internal.type"
FIXED_SIZE = "connect.fixed.size"
SUM_ENUM = "org.apache.kafka.connect.data.Enum"
SUM_UNION = "org.apache.kafka.connect.data.Union"
DEFAULT_PRECISION = 64

AVRO_NAMES = {
    Type.INT32: "int", Type.INT64: "long", Type.FLOAT32: "float", Type.FLOAT64: "double", Type.BOOLEAN: "boolean",
    Type.STRING: "string", Type.BYTES: "bytes", Type.ARRAY: "array", Type.MAP: "map", Type.INT8: "int",
    Type.INT16: "int",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """The options of the mapping, each with its key in the converter's configuration."""

    enhanced: bool = False  # enhanced.avro.schema.support
    scrub: bool = False  # scrub.invalid.names
    metadata: bool = True  # connect.meta.data
    discard: bool = False  # discard.type.doc.default
    optional_keys: bool = False  # allow.optional.map.keys
    flatten: bool = True  # flatten.singleton.unions
    sums: bool = False  # generalized.sum.type.support
    ignore_defaults: bool = False  # ignore.default.for.nullables

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> AvroOptions:
        """Returns the options of a parsed configuration."""
        return cls(
            values["enhanced.avro.schema.support"], values["scrub.invalid.names"], values["connect.meta.data"],
            values["discard.type.doc.default"], values["allow.optional.map.keys"], values["flatten.singleton.unions"],
            values["generalized.sum.type.support"], values["ignore.default.for.nullables"],
        )  # fmt: skip

    def name(self, name: str) -> str:
        """Returns the name; with scrub.invalid.names, an invalid name becomes one that Avro allows."""
        if not self.scrub or not name or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            return name
        encoded = quote_plus(name, safe="*").replace("~", "%7E")  # as Java encodes it
        encoded = f"x{encoded}" if encoded[0].isdigit() else encoded
        return re.sub(r"[^A-Za-z0-9_]", "_", encoded)

    def split(self, full: str) -> tuple[str | None, str]:
        """Returns the namespace (or None) and the name."""
        space, _, name = ".".join(self.name(part) for part in full.split(".")).rpartition(".")
        return space or None, name

    def full_name(self, full: str) -> str:
        """Returns namespace and name, separated by a dot."""
        return ".".join(part for part in self.split(full) if part is not None)

    @property
    def enum(self) -> str:
        """The schema parameter of strings that are enums."""
        return SUM_ENUM if self.sums else ENUM


def is_enum(schema: Schema) -> bool:
    """Returns whether a string is an enum in Avro."""
    parameters = dict(schema.parameters)
    return schema.type is Type.STRING and (SUM_ENUM in parameters or ENUM in parameters)


def is_fixed(schema: Schema) -> bool:
    """Returns whether bytes are a fixed in Avro."""
    return schema.type is Type.BYTES and schema.name is not None and FIXED_SIZE in dict(schema.parameters)


def is_union(schema: Schema) -> bool:
    """Returns whether a struct is a union: exactly one of its fields is not null."""
    return schema.type is Type.STRUCT and (schema.name == UNION or SUM_UNION in dict(schema.parameters))
