"""MaskField."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.columns import is_json, metadata_of, struct_array
from spark_tasks.config_def import REQUIRED, Check, ConfigDef, ConfigKey, NonEmpty, Type
from spark_tasks.converters.java_hash import copied, hash_order
from spark_tasks.converters.json_columns import parse_columns
from spark_tasks.converters.json_write import JsonWriter
from spark_tasks.errors import DataError
from spark_tasks.transforms.field_transform import REPLACE_NULLS, Changed, FieldTransform, for_key


def _check_replacement(name: str, value: Any) -> None:
    if value is not None:
        NonEmpty()(name, value)


class MaskField(FieldTransform):
    """Puts an empty value, or a given one, in place of fields' values."""

    purpose = "mask fields"
    config_def = ConfigDef(
        ConfigKey("fields", Type.LIST, default=REQUIRED, doc="The fields to mask."),
        ConfigKey(
            "replacement", Type.STRING, default=None, doc="What to put there instead, for numbers and texts.",
            validator=Check(_check_replacement, "non-empty string"),
        ),
        REPLACE_NULLS,
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """See Transform."""
        values = self.config_def.parse(configs)
        self._fields, self._replacement = list(values["fields"]), values["replacement"]
        self.fills_defaults = values["replace.null.with.default"]

    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:  # noqa: ARG002 - base's
        """See FieldTransform."""
        columns = self._columns(array, field)
        missing = [name for name in hash_order(self._fields) if name not in columns.children]
        for name in self._fields:
            if name in columns.children:
                child, its = columns.children[name], columns.fields[name]
                mixed = is_json(metadata_of(its))
                child = self._masked_json(child) if mixed else self._masked(child, columns.schema is None)
                columns.children[name] = child
                columns.fields[name] = its.with_type(child.type)
            elif columns.schema is None:
                columns.put(name, pa.nulls(columns.length))  # Java puts the key with a null
        if columns.schema is None:
            before = [n for n in columns.children if n not in missing]
            order = copied(before, *missing)
            return columns.build(order, None)
        return columns.build(list(columns.children), columns.schema)

    def _masked(self, child: pa.Array, schemaless: bool) -> pa.Array:
        """The same value in each row that is not null."""
        if pa.types.is_null(child.type):
            return child
        if pa.types.is_struct(child.type) and schemaless and self._replacement is None:
            return struct_array([], [], len(child), pc.invert(child.is_valid()))  # an empty map
        value = self._value(child.type)
        whole = pa.array([value], child.type).take(pa.array(np.zeros(len(child), np.int32)))
        if not child.null_count:
            return whole
        return pc.if_else(child.is_valid(), whole, pa.scalar(None, child.type))

    def _value(self, kind: pa.DataType) -> Any:
        if self._replacement is None:
            return _empty(kind)
        for belongs, read in _REPLACEMENTS:
            if belongs(kind):
                try:
                    return read(self._replacement)
                except ValueError:
                    raise DataError(f"Unable to convert {self._replacement} to {kind}") from None
        raise DataError(f"Cannot mask value of type {kind} with custom replacement.")

    def _masked_json(self, child: pa.Array) -> pa.Array:
        """Values of mixed types: each with the empty value of its own type, in JSON."""
        masked = []
        for text in child.to_pylist():
            if text is None or text == "null":
                masked.append(text)
                continue
            array, _ = parse_columns(pa.array([text.encode()]))
            found = self._masked(array, schemaless=True)
            masked.append(JsonWriter().write(found, None)[0].as_py())
        return pa.array(masked, pa.string())


_REPLACEMENTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...] = (
    (pa.types.is_string, str),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
)


def _empty(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_boolean(kind):
        return False
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return []
    if pa.types.is_struct(kind) or pa.types.is_binary(kind):
        raise DataError(f"Cannot mask value of type: {kind}")
    return 0


MaskFieldKey = for_key(MaskField)
