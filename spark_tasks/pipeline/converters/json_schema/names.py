"""Names that Confluent's JSON Schema converter uses in schemas, and the options of the mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_tasks.data.schema import Schema, Type

NAMESPACE = "io.confluent.connect.json"
ENUM = f"{NAMESPACE}.Enum"
ONE_OF = f"{NAMESPACE}.OneOf"
SUM_ENUM = "org.apache.kafka.connect.data.Enum"
SUM_UNION = "org.apache.kafka.connect.data.Union"
NULL = "<NULL>"  # the symbol of an enum for null
CONNECT_TYPE = "connect.type"
CONNECT_VERSION = "connect.version"
CONNECT_PARAMETERS = "connect.parameters"
CONNECT_INDEX = "connect.index"


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions:
    """The options of the mapping, each with its key in the converter's configuration."""

    additional: bool = True  # object.additional.properties
    optional: bool = False  # use.optional.for.nonrequired
    numeric: bool = False  # decimal.format=NUMERIC
    flatten: bool = True  # flatten.singleton.unions
    sums: bool = False  # generalized.sum.type.support
    ignore_defaults: bool = False  # ignore.default.for.nullables

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> JsonSchemaOptions:
        """Returns the options of a parsed configuration."""
        return cls(
            values["object.additional.properties"], values["use.optional.for.nonrequired"],
            str(values["decimal.format"]).upper() == "NUMERIC", values["flatten.singleton.unions"],
            values["generalized.sum.type.support"], values["ignore.default.for.nullables"],
        )  # fmt: skip

    @property
    def enum(self) -> str:
        """The schema parameter of strings that are enums."""
        return SUM_ENUM if self.sums else ENUM


def is_union(schema: Schema) -> bool:
    """Returns whether a struct is a union: one of its fields is not null."""
    return schema.type is Type.STRUCT and (schema.name == ONE_OF or SUM_UNION in dict(schema.parameters))


def has_text_keys(schema: Schema) -> bool:
    """Returns whether a map is an object in JSON; otherwise it is an array of objects with key and value."""
    return schema.key is not None and schema.key.type is Type.STRING and not schema.key.optional
