"""Builds Connect columns from values of Java classes (java_values)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.data.arrow_types import MAX_DIGITS, MAX_DIGITS_128, decimal_type, fitting_decimal, to_arrow
from spark_tasks.data.columns import ABSENT_KEY, ABSENT_NULL, FORM_JSON, FORM_KEY, SCHEMA_KEY, struct_array
from spark_tasks.data.key_orders import are_compatible, own_orders, with_orders
from spark_tasks.data.schema import Schema, Type, to_text
from spark_tasks.errors import DataError
from spark_tasks.java.hash import hash_order
from spark_tasks.pipeline.converters import json_text, long_decimals
from spark_tasks.pipeline.converters.base import Column
from spark_tasks.pipeline.converters.java_values import Moment, Struct
from spark_tasks.pipeline.converters.json_columns import max_members

# The nulls of a column with this key are null values of a required schema; they do not mean "no key" or "no value".
NULLS_KEY = b"connect.nulls"
_DAY = 86_400_000
_FEW = 64  # values
_JSON = (bool, int, float, str, list, dict)
_ARROW: dict[type, pa.DataType] = {
    bool: pa.bool_(), np.int8: pa.int8(), np.int16: pa.int16(), np.int32: pa.int32(), int: pa.int64(),
    np.float32: pa.float32(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
}  # fmt: skip


class IncompatibleValuesError(Exception):
    """The values do not fit into one column."""


Rows = Sequence[tuple[Schema | None, Any]]
Plain = Callable[[Any], Any]


def runs(rows: Rows) -> list[int]:
    """Returns the end (exclusive) of each run of rows that fit into one column."""
    ends: list[int] = []
    begin = 0
    for at in range(1, len(rows) + 1):
        if at == len(rows) or rows[at][0] != rows[begin][0]:
            ends += [begin + end for end in _unmixed(rows[begin:at])]
            begin = at
    return ends


def _unmixed(rows: Rows) -> list[int]:
    """Returns the ends of runs for rows that all have the same schema, or no schema."""
    if len(rows) > 1 and rows[0][0] is None:
        values = [value for _, value in rows]
        try:
            _check_orders(values)
            if _is_wide(values):
                _pure(values)
            untyped(values)
        except IncompatibleValuesError:
            half = len(rows) // 2
            return [*_unmixed(rows[:half]), *(half + end for end in _unmixed(rows[half:]))]
    return [len(rows)]


def _check_orders(found: Sequence[Any]) -> None:
    """Raises IncompatibleValuesError if one column cannot have the order of each map: some maps have the same keys in
    different orders, or an order other than that of JSON's maps, and there are values of other types, which make the
    column JSON.
    """
    if len(found) > _FEW:
        return  # one order for all costs less than very many batches
    orders = {tuple(value) for value in found if isinstance(value, dict)}
    others = any(value is not None and not isinstance(value, dict) for value in found)
    if not are_compatible(orders) or (others and any(list(order) != hash_order(order) for order in orders)):
        raise IncompatibleValuesError


def column(rows: Rows) -> Column:
    """Returns the column of one run and its metadata."""
    schema = rows[0][0] if rows else None
    values = [value for _, value in rows]
    if schema is None:
        return untyped(values)
    metadata = {SCHEMA_KEY: to_text(schema).encode()}
    if not schema.optional and any(value is None for value in values):
        metadata[NULLS_KEY] = b"values"
    return typed(values, schema), metadata


def typed(found: Sequence[Any], schema: Schema) -> pa.Array:
    """Returns a column of values with the same schema. Raises DataError for a value that does not have its type."""
    return long_decimals.built(partial(_built, found), schema)


def _built(found: Sequence[Any], schema: Schema) -> pa.Array:
    kind = to_arrow(schema)
    try:
        return _typed(found, schema, kind)
    except (pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
        raise DataError(f"a value does not fit schema type {schema.type.name}: {error}") from error


def _typed(found: Sequence[Any], schema: Schema, kind: pa.DataType) -> pa.Array:
    present = [value is not None for value in found]
    nulls = None if all(present) else pa.array([not is_present for is_present in present])
    if schema.type is Type.STRUCT:
        children = []
        for field in schema.fields:
            inner = [value.values.get(field.name) if isinstance(value, Struct) else None for value in found]
            children.append(_built(inner, field.schema))
        fields = [field.with_type(child.type) for field, child in zip(kind, children, strict=True)]
        return struct_array(children, fields, len(found), nulls)
    if schema.type is Type.ARRAY and schema.value:
        items = _built([item for value in found if value is not None for item in value], schema.value)
        return pa.ListArray.from_arrays(_offsets(found), items, type=kind)
    if schema.type is Type.MAP and schema.key and schema.value:
        keys = _built([key for value in found if value is not None for key in value], schema.key)
        entries = _built([item for value in found if value is not None for item in value.values()], schema.value)
        return pa.MapArray.from_arrays(_offsets(found), keys, entries, type=kind)
    if pa.types.is_decimal(kind):
        kind = _own_type(found, kind)
    return pa.array([_plain(value, kind) for value in found], _plain_type(kind)).cast(kind)


def _own_type(found: Sequence[Any], kind: pa.DataType) -> pa.DataType:
    """Returns the type of decimals that all have a scale other than their schema's (transforms/scales.py), or else
    `kind`, the schema's.
    """
    scales = {-int(value.as_tuple().exponent) for value in found if isinstance(value, Decimal) and value.is_finite()}
    if len(scales) != 1 or kind.scale in scales:
        return kind
    scale = scales.pop()
    return decimal_type(max(kind.precision, MAX_DIGITS_128), scale) if abs(scale) <= MAX_DIGITS else kind


def _offsets(found: Sequence[Any]) -> pa.Array:
    ends = np.cumsum([0, *(len(value) if value is not None else 0 for value in found)]).tolist()
    return pa.array([None if value is None else at for value, at in zip([*found, ()], ends, strict=True)], pa.int32())


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the Arrow type of the results of `_plain`."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_temporal(kind) else kind


def _plain(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, Moment):
        return _days(value.millis) if pa.types.is_date(kind) else value.millis
    if isinstance(value, np.generic):
        return value.item()
    return fitting_decimal(value, kind) if isinstance(value, Decimal) and pa.types.is_decimal(kind) else value


def _days(millis: int) -> int:
    """Returns days since the epoch. As in Java, a larger number keeps its low 32 bits. Raises DataError for a time
    other than midnight, such as the smallest 64-bit number of milliseconds.
    """
    if millis % _DAY:
        raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
    return (millis // _DAY + 2**31) % 2**32 - 2**31


def untyped(found: Sequence[Any], plain: Plain | None = None) -> Column:
    """Returns a column of values without a schema. `plain`: returns a value as one that JSON has, for values that do
    not fit into one column; without it, raises IncompatibleValuesError for those.
    """
    try:
        return _untyped(found, plain)
    except IncompatibleValuesError:
        if plain is None:
            raise
    return _untyped([plain(value) for value in found], plain)


def _untyped(found: Sequence[Any], plain: Plain | None) -> Column:
    kinds = {type(value) for value in found if value is not None}
    if not kinds:
        return pa.nulls(len(found)), {}
    if len(kinds) > 1:
        return _as_json(found)
    kind = kinds.pop()
    if kind in (dict, list):
        return _maps(found, plain) if kind is dict else _lists(found, plain)
    build = _BUILD.get(kind)
    if build:
        return build(found)
    return pa.array([_plain(value, pa.null()) for value in found], _ARROW[kind]), {}


def _as_json(found: Sequence[Any]) -> Column:
    texts = [None if value is None else json_text.canonical(_pure(value)) for value in found]
    return pa.array(texts, pa.string()), {FORM_KEY: FORM_JSON}


def _pure(value: Any) -> Any:
    """Returns the value. Raises IncompatibleValuesError unless it remains the same when written and read as JSON."""
    if value is not None and type(value) not in _JSON:
        raise IncompatibleValuesError
    if isinstance(value, dict):
        return {key: _pure(one) for key, one in value.items()}
    return [_pure(item) for item in value] if isinstance(value, list) else value


def _lists(found: Sequence[Any], plain: Plain | None) -> Column:
    items, metadata = untyped([item for value in found if value is not None for item in value], plain)
    item = pa.field("item", items.type, metadata=metadata or None)
    return pa.ListArray.from_arrays(_offsets(found), items, type=pa.list_(item)), {}


def _is_wide(found: Sequence[Any], fewest: int = 2) -> bool:
    """Returns whether the maps have so many different keys that these must be data: a column for each key would have a
    cell for each map. Fewer than `fewest` maps are never wide.
    """
    names: set[Any] = set()
    for value in found:
        if isinstance(value, dict):
            names.update(value)
    return len(found) >= fewest and len(names) > max_members(len(found))


def _maps(found: Sequence[Any], plain: Plain | None) -> Column:
    if any(type(key) is not str for value in found if value is not None for key in value):
        raise IncompatibleValuesError
    if plain is not None and _is_wide(found, 1):
        return _as_json([plain(value) for value in found])
    if _is_wide(found):
        with suppress(IncompatibleValuesError):
            return _as_json(found)
    children, fields = [], []
    rows = sum(value is not None for value in found)
    names = _names([value for value in found if value is not None])
    orders = own_orders(names, dict.fromkeys(tuple(value) for value in found if value is not None))
    for name in names:
        cells = [None if value is None else value.get(name) for value in found]
        present = sum(value is not None and name in value for value in found)
        array, metadata = untyped(cells, plain)
        if present < rows:
            metadata = {**metadata, ABSENT_KEY: ABSENT_NULL}
            if any(value is not None and name in value and value[name] is None for value in found):
                texts = [
                    None if value is None or name not in value else json_text.canonical(
                        _pure(value[name] if plain is None else plain(value[name])))
                    for value in found
                ]
                array, metadata[FORM_KEY] = pa.array(texts, pa.string()), FORM_JSON
        children.append(array)
        fields.append(pa.field(name, array.type, metadata=metadata or None))
    nulls = None if rows == len(found) else pa.array([value is None for value in found])
    return struct_array(children, fields, len(found), nulls), with_orders({}, orders)


def _names(found: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the keys in an order that is that of every row, if possible, or else of most."""
    longest = max(found, key=len)
    if all(longest.keys() >= one.keys() for one in found):
        return list(longest)
    return hash_order(dict.fromkeys(key for one in found for key in one))


def _moments(found: Sequence[Any]) -> Column:
    millis = pa.array([None if value is None else value.millis for value in found], pa.int64())
    return millis.cast(pa.timestamp("ms", tz="UTC")), {}


def _decimals(found: Sequence[Any]) -> Column:
    scales = {value.as_tuple().exponent for value in found if value is not None}
    if len(scales) > 1:
        raise IncompatibleValuesError
    try:
        kind = decimal_type(MAX_DIGITS, max(-int(scales.pop()), 0))
        return pa.array([None if value is None else fitting_decimal(value, kind) for value in found], kind), {}
    except ValueError as error:
        raise DataError(f"a Decimal has no Arrow type: {error}") from error


_BUILD: dict[type, Callable[[Sequence[Any]], Column]] = {Moment: _moments, Decimal: _decimals}
