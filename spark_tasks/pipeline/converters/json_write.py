"""Writes Connect columns as JSON texts, like JsonConverter: compact, with members in the order of the fields."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import list_offsets
from spark_tasks.arrays.concatenation import JoinedField, join, join_members, null_like
from spark_tasks.data.arrow_types import EXACT
from spark_tasks.data.columns import Metadata, is_json, metadata_of, moment_numbers, nulls_are_absent
from spark_tasks.data.key_orders import each_order
from spark_tasks.data.schema import Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.hash import hash_order
from spark_tasks.java.json import java_json
from spark_tasks.java.numbers import float_texts, integer_texts
from spark_tasks.pipeline.converters.json_mixed import write_mixed
from spark_tasks.pipeline.converters.json_strings import literal, literals


class JsonWriter:
    """Writes columns. `numeric_decimals`: decimal.format=NUMERIC; `replace_nulls`: replace.null.with.default."""

    def __init__(self, *, numeric_decimals: bool = False, replace_nulls: bool = True) -> None:
        self._numeric_decimals = numeric_decimals
        self._replace_nulls = replace_nulls

    def write(self, array: pa.Array, schema: Schema | None, metadata: Metadata | None = None) -> pa.Array:
        """Returns a string array without nulls: a null value becomes the text null, or the schema's default. Raises
        DataError if a required value is null.
        """
        if schema is None:
            return pc.fill_null(self._schemaless(array, metadata), "null")
        found = self._typed(array, schema)
        if not found.null_count:
            return found
        if schema.default is not None and self._replace_nulls:
            return pc.fill_null(found, schema.default)
        if not schema.optional:
            raise DataError("Conversion error: null value for field that is required and has no default value")
        return pc.fill_null(found, "null")

    def _typed(self, array: pa.Array, schema: Schema) -> pa.Array:
        """Returns the texts, null for null values."""
        kind = array.type
        if schema.type is Type.STRUCT and pa.types.is_struct(kind):
            names = [field.name for field in kind]
            children = array.flatten()
            members = []
            for field in schema.fields:
                child = children[names.index(field.name)]
                # the fields of a null struct are null: the check for required values must not reject those
                only = array.null_count and child.null_count == array.null_count
                text = self.write(child, field.schema.as_optional() if only else field.schema)
                members.append(JoinedField(literal(field.name) + ":", text, optional=False))
            return null_like(array, join_members(members, "{", ",", "}", len(array)))
        if schema.type is Type.MAP and pa.types.is_map(kind) and schema.key and schema.value:
            return self._map(array, schema.key, schema.value)
        if schema.type is Type.ARRAY and schema.value and pa.types.is_list(kind):
            return lists(array, self.write(array.flatten(), schema.value))
        return self._scalar(array)

    def _map(self, array: pa.Array, key: Schema, value: Schema) -> pa.Array:
        offsets = np.asarray(array.offsets)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        keys = self.write(array.keys.slice(first, count), key)
        values = self.write(array.items.slice(first, count), value)
        if key.type is Type.STRING:
            return lists(array, join(keys, ":", values), "{", "}")
        return lists(array, join("[", keys, ",", values, "]"))

    def _schemaless(self, array: pa.Array, metadata: Metadata | None) -> pa.Array:
        if is_json(metadata):
            return json_literals(array)
        if pa.types.is_struct(array.type):
            return each_order(array, metadata, self._members)
        if pa.types.is_list(array.type):
            inner = self._schemaless(array.flatten(), metadata_of(array.type.value_field))
            return lists(array, pc.fill_null(inner, "null"))
        if pa.types.is_map(array.type):
            offsets = np.asarray(array.offsets)
            first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
            keys = self._scalar(array.keys.slice(first, count))
            values = pc.fill_null(self._schemaless(array.items.slice(first, count), None), "null")
            if pa.types.is_string(array.type.key_type):
                return lists(array, join(keys, ":", values), "{", "}")
            return lists(array, join("[", keys, ",", values, "]"))
        return self._scalar(array)

    def _members(self, array: pa.Array) -> pa.Array:
        """Returns schemaless maps without absent keys."""
        members = []
        for field, child in zip(array.type, array.flatten(), strict=True):
            described = metadata_of(field)
            optional = child.null_count > 0 and nulls_are_absent(described)
            members.append(JoinedField(literal(field.name) + ":", self._schemaless(child, described), optional))
        return null_like(array, join_members(members, "{", ",", "}", len(array)))

    def _scalar(self, array: pa.Array) -> pa.Array:
        kind = array.type
        if pa.types.is_decimal(kind):
            return self._decimals(array)
        for belongs, write in _SCALARS:
            if belongs(kind):
                return write(array)
        return array.cast(pa.string())

    def _decimals(self, array: pa.Array) -> pa.Array:
        if self._numeric_decimals:
            return pa.array([None if v is None else str(v) for v in array.to_pylist()], pa.string())
        scale = array.type.scale
        return pa.array([None if v is None else decimal_base64(v, scale) for v in array.to_pylist()], pa.string())


def decimal_base64(value: Any, scale: int) -> str:
    """Returns the bytes of a Connect decimal (the unscaled value, big-endian, minimal) in quoted Base64."""
    unscaled = int(value.scaleb(scale, EXACT))
    size = (unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()) // 8 + 1
    return f'"{base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()}"'


def _floats(array: pa.Array) -> pa.Array:
    written = float_texts(array)
    finite = pc.is_finite(array)
    if pc.all(finite).as_py() in (True, None):
        return written
    return pc.if_else(finite, written, join('"', written, '"'))  # Jackson quotes NaN and the infinities


def _bytes(array: pa.Array) -> pa.Array:
    encoded = [None if v is None else f'"{base64.b64encode(v).decode()}"' for v in array.to_pylist()]
    return pa.array(encoded, pa.string())


def _moment(array: pa.Array) -> pa.Array:
    numbers = moment_numbers(array)
    return integer_texts(numbers) if pa.types.is_int64(numbers.type) else numbers.cast(pa.string())


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_string, literals),
    (pa.types.is_floating, _floats),
    (pa.types.is_integer, integer_texts),
    (pa.types.is_binary, _bytes),
    (pa.types.is_date, _moment),
    (pa.types.is_time, _moment),
    (pa.types.is_timestamp, _moment),
)


def lists(array: pa.Array, items: pa.Array, opening: str = "[", closing: str = "]") -> pa.Array:
    """Returns one text for each list of `array`: `items`, the texts of its items, separated by commas."""
    joined = pc.binary_join(pa.ListArray.from_arrays(list_offsets(array), items), ",")
    return null_like(array, join(opening, joined, closing))


def json_literals(array: pa.Array) -> pa.Array:
    """Returns FORM_JSON values as JsonConverter writes them."""
    writer = JsonWriter()
    return write_mixed(array, lambda values, metadata: writer.write(values, None, metadata),
                       partial(java_json, order=hash_order))
