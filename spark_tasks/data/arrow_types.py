"""Converts Connect schemas to Arrow types, and Arrow types to Connect schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow
from typing import Final

import pyarrow as pa

from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.errors import DataError

_PLAIN = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
# A logical name changes the Arrow type only on its own base type; on any other type it has no meaning.
_LOGICAL = {
    (DATE, Type.INT32): pa.date32(),
    (TIME, Type.INT32): pa.time32("ms"),
    (TIMESTAMP, Type.INT64): pa.timestamp("ms", tz="UTC"),
}
PRECISION = "connect.decimal.precision"  # the schema parameter in which JDBC connectors store the precision
DEFAULT_PRECISION = 38
EXACT: Final = Context(prec=100, traps=[Inexact, InvalidOperation, Overflow])
"""For arithmetic with decimals: Arrow's have up to 76 digits, but Python's default context rounds to 28."""
MAX_DIGITS: Final = 76
"""Of Arrow's decimals, and their largest scale."""
MAX_DIGITS_128: Final = 38
"""The same for those with 128 bits."""
MAX_DECIMAL_BITS: Final = 256
"""Of Arrow's decimals. Check it first: it takes minutes to convert a hostile number of a million bits to digits."""


def to_arrow(schema: Schema) -> pa.DataType:
    """Returns the Arrow type of the schema's values. Raises DataError for a Decimal that Arrow does not support,
    and for a list or map without types of elements.
    """
    if schema.type is Type.ARRAY and schema.value:
        return pa.list_(pa.field("item", to_arrow(schema.value), nullable=schema.value.optional))
    if schema.type is Type.MAP and schema.key and schema.value:
        return pa.map_(
            pa.field("key", to_arrow(schema.key), nullable=False),
            pa.field("value", to_arrow(schema.value), nullable=schema.value.optional),
        )
    if schema.type is Type.STRUCT:
        return pa.struct([pa.field(f.name, to_arrow(f.schema), nullable=f.schema.optional) for f in schema.fields])
    if schema.name == DECIMAL and schema.type is Type.BYTES:
        return _decimal(schema)
    if schema.type not in _PLAIN:
        raise DataError(f"the schema of this {schema.type.name} has no element, key or value type")
    return _LOGICAL.get((schema.name or "", schema.type), _PLAIN[schema.type])


def _decimal(schema: Schema) -> pa.DataType:
    digits = DEFAULT_PRECISION if schema.scale <= DEFAULT_PRECISION else MAX_DIGITS
    precision = dict(schema.parameters).get(PRECISION, digits)
    try:
        return decimal_type(int(precision), schema.scale)
    except (ValueError, OverflowError) as error:
        raise DataError(f"Decimal({precision}, {schema.scale}) has no Arrow type: {error}") from error


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Returns Arrow's type of decimals. Raises ValueError if there is none. PyArrow also makes types of larger scales,
    and then reads past its tables, which can end the process.
    """
    if abs(scale) > MAX_DIGITS:
        raise ValueError(f"the scale must be from -{MAX_DIGITS} to {MAX_DIGITS}")
    precision = max(precision, scale)  # else PyArrow would not even accept a zero
    is_narrow = precision <= MAX_DIGITS_128 and abs(scale) <= MAX_DIGITS_128
    return pa.decimal128(precision, scale) if is_narrow else pa.decimal256(precision, scale)


def fitting_decimal(value: Decimal, kind: pa.DataType) -> Decimal:
    """Returns the same number with the scale of Arrow's type `kind`. Raises ValueError if the type does not have that
    number. PyArrow would convert it, too, but may end the process if the two scales are far apart.
    """
    if not value.is_finite():
        raise ValueError(f"{value} is not a number")
    try:
        found = value.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    except DecimalException:
        raise ValueError(f"{str(value)[:100]} is not a number with the scale {kind.scale}") from None
    if found and found.adjusted() + 1 + max(kind.scale, 0) > kind.precision:  # PyArrow counts a negative scale's zeros
        raise ValueError(f"it has more than {kind.precision} digits")
    return found


# Arrow has more types than Connect: an unsigned integer becomes the next larger signed one, and so on.
_FROM_PLAIN: dict[pa.DataType, Type] = {
    **{arrow: kind for kind, arrow in _PLAIN.items()},
    pa.uint8(): Type.INT16,
    pa.uint16(): Type.INT32,
    pa.uint32(): Type.INT64,
    pa.uint64(): Type.INT64,
    pa.float16(): Type.FLOAT32,
    pa.large_string(): Type.STRING,
    pa.string_view(): Type.STRING,
    pa.large_binary(): Type.BYTES,
    pa.binary_view(): Type.BYTES,
    pa.null(): Type.STRING,
}
_FROM_FAMILY: tuple[tuple[Callable[[pa.DataType], bool], Schema], ...] = (
    (pa.types.is_date, Schema(Type.INT32, name=DATE, version=1)),
    (pa.types.is_time, Schema(Type.INT32, name=TIME, version=1)),
    (pa.types.is_timestamp, Schema(Type.INT64, name=TIMESTAMP, version=1)),
    (pa.types.is_duration, Schema(Type.INT64)),
    (pa.types.is_fixed_size_binary, Schema(Type.BYTES)),
)


def from_arrow(arrow: pa.DataType, optional: bool = True) -> Schema:
    """Returns the Connect schema for values of an Arrow type. Raises DataError if there is none."""
    schema = _from_arrow(arrow)
    return replace(schema, optional=optional)


def _from_arrow(arrow: pa.DataType) -> Schema:
    if arrow in _FROM_PLAIN:
        return Schema(_FROM_PLAIN[arrow])
    for belongs, schema in _FROM_FAMILY:
        if belongs(arrow):
            return schema
    if pa.types.is_decimal(arrow):
        parameters = (("scale", str(arrow.scale)), (PRECISION, str(arrow.precision)))
        return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters)
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return _from_arrow(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):  # such as uuid and json of Parquet files
        return _from_arrow(arrow.storage_type)
    if pa.types.is_struct(arrow):
        fields = tuple(Field(f.name, from_arrow(f.type, f.nullable)) for f in arrow)
        return Schema(Type.STRUCT, fields=fields)
    if pa.types.is_map(arrow):
        value = from_arrow(arrow.item_type, arrow.item_field.nullable)
        return Schema(Type.MAP, key=from_arrow(arrow.key_type, optional=False), value=value)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return Schema(Type.ARRAY, value=from_arrow(arrow.value_type, arrow.value_field.nullable))
    raise DataError(f"Arrow type {arrow} has no equivalent in Kafka Connect")


def with_child_types(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Returns a struct, map or list whose children have the types that `change` returns for theirs; another type as it
    is.
    """
    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(change(field.type))

    if pa.types.is_struct(kind):
        return pa.struct(map(changed, kind))
    if pa.types.is_map(kind):
        return pa.map_(changed(kind.key_field), changed(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(changed(kind.value_field))
    return kind
