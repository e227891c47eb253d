"""Connect columns to values, each of its Java class (java_values)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.columns import Metadata, is_json, metadata_of, nulls_are_absent
from spark_tasks.converters import json_text
from spark_tasks.converters.java_hash import hash_order
from spark_tasks.schema import Schema, Type
from spark_tasks.transforms.java_values import Moment, Struct

_DAY = 86_400_000
_NARROW = {
    pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.float32(): np.float32, pa.uint8(): np.int16,
    pa.uint16(): np.int32,
}  # fmt: skip


def typed_values(array: pa.Array, schema: Schema) -> list[Any]:
    """The values of a column with a schema."""
    kind = array.type
    if schema.type is Type.STRUCT and pa.types.is_struct(kind):
        children = dict(zip((f.name for f in kind), array.flatten(), strict=True))
        columns = [(f.name, typed_values(children[f.name], f.schema)) for f in schema.fields]
        return [
            Struct(schema, {name: values[i] for name, values in columns}) if there else None
            for i, there in enumerate(array.is_valid().to_pylist())
        ]
    if schema.type is Type.MAP and pa.types.is_map(kind) and schema.key and schema.value:
        key, value = schema.key, schema.value
        return _each(array, lambda row: dict(zip(typed_values(row.field(0), key), typed_values(row.field(1), value),
                                                 strict=True)))
    if schema.type is Type.ARRAY and schema.value and _is_list(kind):
        item = schema.value
        return _each(array, lambda row: typed_values(row, item))
    return scalars(array)


def values(array: pa.Array, metadata: Metadata | None) -> list[Any]:
    """The values of a column without a schema."""
    kind = array.type
    if is_json(metadata):
        return [None if text is None else _hashed(json_text.parse(text.encode())) for text in array.to_pylist()]
    if pa.types.is_struct(kind):
        rows: list[dict[str, Any]] = [{} for _ in range(len(array))]
        for field, child in zip(kind, array.flatten(), strict=True):
            optional, there = nulls_are_absent(metadata_of(field)), child.is_valid().to_pylist()
            for row, value, is_there in zip(rows, values(child, metadata_of(field)), there, strict=True):
                if is_there or not optional:
                    row[field.name] = value
        return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind):
        return _each(array, lambda row: dict(zip(values(row.field(0), None), values(row.field(1), None), strict=True)))
    if _is_list(kind):
        described = metadata_of(kind.value_field)
        return _each(array, lambda row: values(row, described))
    return scalars(array)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _each(array: pa.Array, read: Callable[[pa.Array], Any]) -> list[Any]:
    return [read(row.values) if row.is_valid else None for row in array]


def _hashed(value: Any) -> Any:
    """Maps in the order of Java's HashMap, as JsonConverter makes them."""
    if isinstance(value, dict):
        return {key: _hashed(value[key]) for key in hash_order(value)}
    return [_hashed(one) for one in value] if isinstance(value, list) else value


def scalars(array: pa.Array) -> list[Any]:
    """The values of a column that is neither list nor map nor struct."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return scalars(array.cast(kind.value_type))
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return [None if millis is None else Moment(millis) for millis in _millis(array).to_pylist()]
    narrow = _NARROW.get(kind)
    if narrow:
        return [None if value is None else narrow(value) for value in array.to_pylist()]
    return list(array.to_pylist())


def _millis(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    if pa.types.is_time(kind):
        return array.cast(pa.time32("ms"), safe=False).cast(pa.int32())
    days = array.cast(pa.date32()).cast(pa.int32())
    return pa.array([None if day is None else day * _DAY for day in days.to_pylist()], pa.int64())
