"""Single Connect values with their Java classes, for transforms that cannot change whole columns.

Long is int; Integer, Short and Byte are numpy's int32, int16 and int8; Double is float, Float is numpy's float32,
BigDecimal is Decimal, java.util.Date is Moment, and Struct is Struct. Texts, bytes, booleans, lists and maps have
Python's types. A dict has the order in which Java iterates over the map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from spark_tasks.data.columns import Metadata, is_json, metadata_of, moment_numbers, nulls_are_absent
from spark_tasks.data.key_orders import orders_of
from spark_tasks.data.schema import DECIMAL, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.hash import hash_order
from spark_tasks.pipeline.converters import json_text

Found = TypeVar("Found")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class JavaError(DataError):
    """An error whose class in Java, `java_class`, is not DataException."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


@dataclass(frozen=True, slots=True)
class Moment:
    """A java.util.Date. `millis`: milliseconds since the epoch."""

    millis: int

    @classmethod
    def of(cls, value: date | time) -> Self:
        """Returns a date, a time or a datetime of Python, in UTC unless it has a time zone, as a Moment."""
        if isinstance(value, time):
            value = datetime.combine(_EPOCH, value)
        if not isinstance(value, datetime):
            value = datetime.combine(value, time())
        return cls(((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1))


def _null_in(location: str, schema: Schema) -> DataError:
    return DataError(f"Invalid value: null used for required {location}, schema type: {schema.type.name}")


def _check(schema: Schema, value: Any, location: str) -> None:
    """Raises DataError as ConnectSchema.validateValue does, also for what an array or a map contains."""
    if value is None:
        if not schema.optional:
            raise _null_in(location, schema)
        return
    if not _fits(schema, value):
        named = f'"{schema.name}" ' if schema.name is not None else ""
        raise DataError(f"Invalid Java object for schema {named}with type {schema.type.name}: class "
                        f"{class_name(value)} for {location}")
    if isinstance(value, Struct):
        if value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif isinstance(value, list) and schema.value is not None:
        for element in value:
            _check(schema.value, element, f"element of array {location}")
    elif isinstance(value, dict) and schema.key is not None and schema.value is not None:
        for key, element in value.items():
            _check(schema.key, key, f"key of map {location}")
            _check(schema.value, element, f"value of map {location}")


class Struct:
    """A value of a struct schema."""

    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema, values: dict[str, Any] | None = None) -> None:
        self.schema = schema
        self.values = {} if values is None else values

    def get(self, name: str, *, defaults: bool = True) -> Any:
        """Returns the field's value, or with `defaults` its default instead of null. Raises DataError for an unknown
        field.
        """
        schema = field_schema(self.schema, name)
        if schema is None:
            raise DataError(f"{name} is not a valid field name")
        value = self.values.get(name)
        return default_of(schema) if value is None and defaults else value

    def put(self, name: str, value: Any) -> None:
        """Sets a field. Raises DataError for an unknown field, null in a required field, or a value of another type."""
        schema = field_schema(self.schema, name)
        if schema is None:
            raise DataError(f"{name} is not a valid field name")
        _check(schema, value, f'field: "{name}"')
        self.values[name] = value

    def validate(self) -> None:
        """Raises DataError if a required field has neither a value nor a default, here or in a struct within."""
        for field in self.schema.fields:
            value = self.values.get(field.name)
            if isinstance(value, Struct):
                value.validate()
            elif value is None and not field.schema.optional and field.schema.default is None:
                raise _null_in(f'field: "{field.name}"', field.schema)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and (self.schema, self.values) == (other.schema, other.values)

    __hash__ = None  # type: ignore[assignment]  # its values can change


def by_identity(function: Callable[[Schema], Found]) -> Callable[[Schema], Found]:
    """Caches the function's results by the identity of the schema, because hashing a schema is slow."""
    known: dict[int, tuple[Schema, Found]] = {}

    def remembered(schema: Schema) -> Found:
        entry = known.get(id(schema))
        if entry is None or entry[0] is not schema:
            if len(known) >= 1000:
                known.clear()
            entry = known[id(schema)] = schema, function(schema)
        return entry[1]

    return remembered


@by_identity
def _by_name(schema: Schema) -> dict[str, Schema]:
    return {field.name: field.schema for field in schema.fields}


def field_schema(schema: Schema, name: str) -> Schema | None:
    """Returns the schema of a struct's field, or None. Raises DataError if the schema is not a struct."""
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot look up fields on non-struct type")
    return _by_name(schema).get(name)


def default_of(schema: Schema) -> Any:
    """Returns the schema's default as a value, or None."""
    return None if schema.default is None else _default(schema)


@by_identity
def _default(schema: Schema) -> Any:
    from spark_tasks.pipeline.converters.json_typed import default_value  # noqa: PLC0415 - imports numba's kernels

    return typed_values(default_value(schema), schema)[0]


_CLASSES: dict[type, tuple[str, Type | None]] = {
    bool: ("java.lang.Boolean", Type.BOOLEAN),
    np.int8: ("java.lang.Byte", Type.INT8),
    np.int16: ("java.lang.Short", Type.INT16),
    np.int32: ("java.lang.Integer", Type.INT32),
    int: ("java.lang.Long", Type.INT64),
    np.float32: ("java.lang.Float", Type.FLOAT32),
    float: ("java.lang.Double", Type.FLOAT64),
    str: ("java.lang.String", Type.STRING),
    bytes: ("[B", Type.BYTES),
    list: ("java.util.ArrayList", Type.ARRAY),
    dict: ("java.util.HashMap", Type.MAP),
    Decimal: ("java.math.BigDecimal", None),
    Moment: ("java.util.Date", None),
    Struct: ("org.apache.kafka.connect.data.Struct", Type.STRUCT),
}


def _fits(schema: Schema, value: Any) -> bool:
    if schema.logical is not None:
        return isinstance(value, Decimal if schema.logical == DECIMAL else Moment)
    return schema_type(value) is schema.type


def class_name(value: Any) -> str:
    """Returns the name of the value's Java class for error messages."""
    return "null" if value is None else _CLASSES[type(value)][0]


def schema_type(value: Any) -> Type | None:
    """Returns the Connect type of a value's class, or None for the classes of logical types."""
    return _CLASSES[type(value)][1]


def is_number(value: Any) -> bool:
    """Returns whether the value is a java.lang.Number."""
    return isinstance(value, int | float | np.integer | np.floating | Decimal) and not isinstance(value, bool)


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """Returns the value. Raises DataError if it is not a map."""
    if not isinstance(value, dict):
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {class_name(value)}")
    return value


def require_struct(value: Any, purpose: str) -> Struct:
    """Returns the value. Raises DataError if it is not a Struct."""
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {class_name(value)}")
    return value


_DAY = 86_400_000
_NARROW = {
    pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.float32(): np.float32, pa.uint8(): np.int16,
    pa.uint16(): np.int32,
}  # fmt: skip


def typed_values(array: pa.Array, schema: Schema) -> list[Any]:
    """Returns the values of a column with a schema."""
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
    """Returns the values of a column without a schema."""
    kind = array.type
    if is_json(metadata):
        return [None if text is None else _hashed(json_text.parse(text.encode())) for text in array.to_pylist()]
    if pa.types.is_struct(kind):
        rows: list[dict[str, Any]] = [{} for _ in range(len(array))]
        for field, child in zip(kind, array.flatten(), strict=True):
            optional, present = nulls_are_absent(metadata_of(field)), child.is_valid().to_pylist()
            for row, value, is_there in zip(rows, values(child, metadata_of(field)), present, strict=True):
                if is_there or not optional:
                    row[field.name] = value
        orders = orders_of(metadata)
        if orders:
            rows = [{name: row[name] for name in orders.get(frozenset(row), row)} for row in rows]
        return [row if present else None for row, present in zip(rows, array.is_valid().to_pylist(), strict=True)]
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
    """Returns the value with the keys of maps in the order of JsonConverter's HashMaps."""
    if isinstance(value, dict):
        return {key: _hashed(value[key]) for key in hash_order(value)}
    return [_hashed(item) for item in value] if isinstance(value, list) else value


def scalars(array: pa.Array) -> list[Any]:
    """Returns the values of a column whose type is not nested."""
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
    numbers = moment_numbers(array)
    if not pa.types.is_date(array.type):
        return numbers
    return pa.array([None if day is None else day * _DAY for day in numbers.to_pylist()], pa.int64())
