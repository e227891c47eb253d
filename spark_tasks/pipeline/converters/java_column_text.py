"""Converts Connect values to the text of Java's toString, for FileStreamSink and StringConverter.

Differences: bytes become Base64 (in Java an address), and dates are in UTC (in Java in the worker's time zone).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import list_offsets
from spark_tasks.arrays.concatenation import JoinedField, join, join_members, null_like
from spark_tasks.data.columns import SCHEMA_KEY, Metadata, is_json, metadata_of, milliseconds, nulls_are_absent
from spark_tasks.data.key_orders import each_order
from spark_tasks.java.calendar import CUTOVER, DAY
from spark_tasks.java.double import java_double
from spark_tasks.java.hash import hash_order
from spark_tasks.java.numbers import float_texts, integer_texts
from spark_tasks.pipeline.converters.java_value_text import date_text
from spark_tasks.pipeline.converters.json_mixed import write_mixed

_DATE_FORMAT = "%a %b %d %H:%M:%S UTC %Y"
_PLAIN = (CUTOVER * DAY, 253_402_300_800_000)  # before: Java's Julian calendar; after: years with five digits


def to_texts(array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
    """Returns a string array; null values remain null."""
    described = metadata or {}
    if is_json(described):
        return json_texts(array)
    return _texts(array, schemaless=SCHEMA_KEY not in described, metadata=described)


def _texts(array: pa.Array, *, schemaless: bool, metadata: Metadata | None = None) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind):
        return each_order(array, metadata, _map_texts) if schemaless else _struct_texts(array)
    if pa.types.is_map(kind):
        return _entries_texts(array, schemaless=schemaless)
    if pa.types.is_list(kind):
        return _list_texts(array, schemaless=schemaless)
    for belongs, write in _SCALARS:
        if belongs(kind):
            return write(array)
    return array.cast(pa.string())


def _same(array: pa.Array) -> pa.Array:
    return array


def _base64(array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()], pa.string())


def _date(array: pa.Array) -> pa.Array:
    if pa.types.is_time(array.type):
        array = array.cast(pa.time32("ms")).cast(pa.int32()).cast(pa.int64())
    stamps = array if pa.types.is_timestamp(array.type) else array.cast(pa.timestamp("ms"))
    millis = milliseconds(stamps)
    ends = pc.min_max(millis)
    if ends["min"].is_valid and not _PLAIN[0] <= ends["min"].as_py() <= ends["max"].as_py() < _PLAIN[1]:
        return pa.array([None if moment is None else date_text(moment) for moment in millis.to_pylist()], pa.string())
    seconds = pc.floor(pc.divide(millis.cast(pa.float64()), 1000.0)).cast(pa.int64())  # -1 ms is in 1969
    return pc.strftime(seconds.cast(pa.timestamp("s")), format=_DATE_FORMAT)


def _decimal(array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else str(v) for v in array.to_pylist()], pa.string())


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_string, _same),
    (pa.types.is_boolean, lambda array: pc.if_else(array, "true", "false")),  # a cast takes more than twice as long
    (pa.types.is_floating, float_texts),
    (pa.types.is_integer, integer_texts),
    (pa.types.is_binary, _base64),
    (pa.types.is_temporal, _date),
    (pa.types.is_decimal, _decimal),
)


def _child_texts(field: pa.Field, child: pa.Array, *, schemaless: bool) -> pa.Array:
    metadata = metadata_of(field)
    if is_json(metadata):
        return json_texts(child)
    return _texts(child, schemaless=schemaless, metadata=metadata)


def _map_texts(array: pa.Array) -> pa.Array:
    """Returns schemaless maps as {k=v, k2=v2}, with the keys in the order of the columns."""
    members = []
    for field, child in zip(array.type, array.flatten(), strict=True):
        optional = child.null_count > 0 and nulls_are_absent(metadata_of(field))
        members.append(JoinedField(field.name + "=", _child_texts(field, child, schemaless=True), optional))
    return null_like(array, join_members(members, "{", ", ", "}", len(array)))


def _struct_texts(array: pa.Array) -> pa.Array:
    """Returns structs as Struct{a=1,b=x}, without null fields."""
    members = []
    for field, child in zip(array.type, array.flatten(), strict=True):
        text = _child_texts(field, child, schemaless=False)
        members.append(JoinedField(field.name + "=", text, text.null_count > 0))
    return null_like(array, join_members(members, "Struct{", ",", "}", len(array)))


def _list_texts(array: pa.Array, *, schemaless: bool) -> pa.Array:
    items = _child_texts(array.type.value_field, array.flatten(), schemaless=schemaless)
    return _bracketed(array, items, "[", "]")


def _entries_texts(array: pa.Array, *, schemaless: bool) -> pa.Array:
    offsets = np.asarray(array.offsets)
    keys = array.keys.slice(offsets[0], offsets[-1] - offsets[0])
    values = array.items.slice(offsets[0], offsets[-1] - offsets[0])
    names = _texts(keys, schemaless=schemaless)
    return _bracketed(array, join(names, "=", _texts(values, schemaless=schemaless)), "{", "}")


def _bracketed(array: pa.Array, items: pa.Array, opening: str, closing: str) -> pa.Array:
    """Returns one text for each list of `array`, joined from `items`, the texts of the items."""
    lists = pa.ListArray.from_arrays(list_offsets(array), pc.fill_null(items, "null"))
    return null_like(array, join(opening, pc.binary_join(lists, ", "), closing))


def json_texts(array: pa.Array) -> pa.Array:
    """Returns FORM_JSON values as the text of Java's toString; a JSON null becomes the text null."""
    return write_mixed(array, to_texts, java_string)


def java_string(value: Any) -> str:
    """Returns what toString returns for a value of JsonConverter: Long, Double, String, Boolean, ArrayList, HashMap."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={java_string(value[key])}" for key in hash_order(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(java_string, value)) + "]"
    return str(value)
