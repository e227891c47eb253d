"""ReplaceField."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_tasks.config_def import Check, ConfigDef, ConfigKey, Type
from spark_tasks.converters.java_hash import capacity_for, hash_order
from spark_tasks.errors import ConfigError
from spark_tasks.schema import Field
from spark_tasks.transforms.field_transform import REPLACE_NULLS, Changed, FieldTransform, for_key


def _renames(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        parts = pair.split(":")
        if len(parts) != 2:
            raise ConfigError(f"Invalid value {list(pairs)} for configuration renames: Invalid rename mapping: {pair}")
        found[parts[0]] = parts[1]
    return found


def _check_renames(_name: str, value: Any) -> None:
    _renames(value or ())


class ReplaceField(FieldTransform):
    """Leaves fields out, and gives others new names."""

    purpose = "field replacement"
    config_def = ConfigDef(
        ConfigKey("exclude", Type.LIST, default=(), doc="Fields to leave out; stronger than include."),
        ConfigKey("include", Type.LIST, default=(), doc="The only fields to keep; empty for all."),
        ConfigKey(
            "renames", Type.LIST, default=(), doc="Pairs old:new.",
            validator=Check(_check_renames, "list of colon-delimited pairs"),
        ),
        REPLACE_NULLS,
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """See Transform."""
        values = self.config_def.parse(configs)
        self._exclude, self._include = set(values["exclude"]), set(values["include"])
        self._renames, self.fills_defaults = _renames(values["renames"]), values["replace.null.with.default"]

    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:  # noqa: ARG002 - base's
        """See FieldTransform."""
        columns = self._columns(array, field)
        kept = [name for name in columns.children if self._keeps(name)]
        children = {self._renames.get(name, name): columns.children[name] for name in kept}
        fields = {self._renames.get(name, name): columns.fields[name] for name in kept}
        capacity = capacity_for(len(columns.children))
        columns.children, columns.fields = children, fields
        if columns.schema is None:
            return columns.build(hash_order(children, capacity), None)
        of_schema = (f for f in columns.schema.fields if self._keeps(f.name))
        schema = replace(
            columns.schema, fields=tuple(Field(self._renames.get(f.name, f.name), f.schema) for f in of_schema)
        )
        return columns.build([f.name for f in schema.fields], schema)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)


ReplaceFieldKey = for_key(ReplaceField)
