"""Converts between columns of plain Protobuf values (codec.wire_type) and columns of Connect values (arrow_types)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import list_offsets, valid
from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import struct_array
from spark_tasks.data.schema import DECIMAL, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters import long_decimals
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.maps import map_array
from spark_tasks.pipeline.converters.nested import filled, inside, mask_of, named, outer_row, part
from spark_tasks.pipeline.converters.protobuf import logical
from spark_tasks.pipeline.converters.protobuf import names as n
from spark_tasks.pipeline.converters.protobuf.codec import wire_type
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.protobuf.tree import Enum, Message, ProtobufField


def to_connect(wire: pa.Array, message: Message, schema: Schema, options: ProtobufOptions) -> pa.Array:
    """Converts plain values of the message to Connect values. `schema`: from to_connect.connect_schema. Raises
    BadRowError.
    """
    reader = _Reader(options)
    read = reader.struct if schema.type is Type.STRUCT else reader.wrapped
    return long_decimals.built(partial(read, wire, message), schema)


class _Reader:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def struct(self, wire: pa.Array, message: Message, schema: Schema) -> pa.Array:
        columns = dict(zip((member.name for member in wire.type), wire.flatten(), strict=True))
        nothing = mask_of(wire)
        fields = {field.name: field.schema for field in schema.fields}
        column_by_number: dict[int, pa.Array] = {}
        for member in message.members:
            column = columns[f"f{member.number}"]
            if member.required:
                _check_no_nulls(column, wire, f"Message missing required fields: {member.name}")
            if member.oneof is None or self._options.flatten:
                column_by_number[member.number] = named(
                    member.name, partial(self.member, column, member, fields[member.name]))
        if self._options.flatten:
            order = [member for i in range(len(message.oneofs)) for member in message.members if member.oneof == i]
            unions = [column_by_number[member.number] for member in order]
        else:
            unions = [self._union(columns, message, i, field.schema)
                      for i, field in enumerate(schema.fields[: len(message.oneofs)])]
        rest = [column_by_number[member.number] for member in message.members if member.oneof is None]
        return struct_array([*unions, *rest], list(to_arrow(schema)), len(wire), nothing)

    def _union(self, columns: dict[str, pa.Array], message: Message, index: int, schema: Schema) -> pa.Array:
        members = [member for member in message.members if member.oneof == index]
        wires = [columns[f"f{member.number}"] for member in members]
        children = [
            named(field.name, partial(self.member, column, member, field.schema))
            for field, column, member in zip(schema.fields, wires, members, strict=True)
        ]
        present = np.logical_or.reduce([wire.is_valid().to_numpy(zero_copy_only=False) for wire in wires])
        mask = None if present.all() else pa.array(~present)
        return struct_array(children, list(to_arrow(schema)), len(present), mask)

    def member(self, wire: pa.Array, member: ProtobufField, schema: Schema) -> pa.Array:
        if member.message is not None and member.is_map:
            return self._map(wire, member.message, schema)
        if member.repeated:
            return self._list(wire, member, schema)
        if wire.null_count and member.oneof is None:
            wire = self._filled(wire, member)
        return self._value(wire, member, schema)

    def _filled(self, wire: pa.Array, member: ProtobufField) -> pa.Array:
        """Replaces nulls by the default that Java reads for an absent field."""
        nullable = member.message is not None or (member.optional and (self._options.proto2 or not member.proto2))
        return wire if nullable and not self._options.structs else _with_spare(wire, member)

    def _list(self, wire: pa.Array, member: ProtobufField, schema: Schema) -> pa.Array:
        items = inside(wire, partial(self._value, wire.flatten(), member, part(schema.value)))
        return pa.ListArray.from_arrays(list_offsets(wire), items, type=to_arrow(schema), mask=mask_of(wire))

    def _map(self, wire: pa.Array, message: Message, schema: Schema) -> pa.Array:
        flat = wire.flatten()
        columns = [
            inside(wire, partial(self._value, _with_spare(flat.field(f"f{one.number}"), one), one, part(described)))
            for one, described in zip(message.members, (schema.key, schema.value), strict=True)
        ]
        return map_array(schema, np.asarray(list_offsets(wire)), columns[0], columns[1], valid(wire))

    def _value(self, wire: pa.Array, member: ProtobufField, schema: Schema) -> pa.Array:
        if member.enum is not None:
            return _enum_values(wire, member.enum, schema)
        if member.message is None:
            return _scalar(wire, schema)
        name = member.message.full_name
        if name == n.DECIMAL_MESSAGE:
            return logical.decimals_from(wire, to_arrow(schema))
        if schema.name in logical.FROM and schema.type is not Type.STRUCT:
            return logical.FROM[schema.name](wire)
        if self._options.wrapper and name in n.WRAPPERS:
            return self.wrapped(wire, member.message, schema)
        return self.struct(wire, member.message, schema)

    def wrapped(self, wire: pa.Array, message: Message, schema: Schema) -> pa.Array:
        return _scalar(wire.flatten()[0], schema) if message.members else pa.nulls(len(wire), to_arrow(schema))


def _with_spare(wire: pa.Array, member: ProtobufField) -> pa.Array:
    """Replaces nulls by the field's default, for a message by one without fields."""
    if not wire.null_count:
        return wire
    spare = pa.array([_empty(member.message) if member.message is not None else member.default], wire.type)
    present = wire.is_valid().to_numpy(zero_copy_only=False)
    return pa.concat_arrays([wire, spare]).take(pa.array(np.where(present, np.arange(len(wire)), len(wire))))


def _empty(message: Message) -> dict[str, Any]:
    """Returns the value of an empty message."""
    out: dict[str, Any] = {}
    for one in message.members:
        out[f"f{one.number}"] = [] if one.repeated else None if one.presence else one.default
    return out


def _scalar(wire: pa.Array, schema: Schema) -> pa.Array:
    kind = to_arrow(schema)
    return wire.view(pa.int64()) if wire.type == pa.uint64() else wire.cast(kind, safe=False)


def _enum_values(wire: pa.Array, enum: Enum, schema: Schema) -> pa.Array:
    """Returns texts or numbers. Numbers without a name in the enum get the names that Java gives them."""
    known: dict[int, str] = {}
    for name, number in enum.values:
        known.setdefault(number, name)
    numbers = pc.unique(wire).drop_null().to_pylist()
    if enum.closed:
        unknown = [one for one in numbers if one not in known]
        if unknown:
            wire = pc.if_else(pc.is_in(wire, pa.array(unknown, pa.int32())), pa.scalar(None, pa.int32()), wire)
    if schema.type is Type.INT32:
        return wire
    texts = [known.get(one, f"UNKNOWN_ENUM_VALUE_{enum.name}_{one}") for one in numbers]
    places = pc.index_in(wire, pa.array(numbers, pa.int32()))
    return pa.array(texts, pa.string()).take(places)


def from_connect(array: pa.Array, schema: Schema, message: Message, options: ProtobufOptions) -> pa.Array:
    """Converts Connect values, none of which is null, to plain values of the message. `schema`: that of the values; the
    message may be that schema in Protobuf or another, compatible one. Raises BadRowError, DataError.
    """
    writer = _Writer(options)
    if schema.type is not Type.STRUCT:
        return writer.wrapped(array, schema, message)
    return writer.struct(array, schema, message)


class _Writer:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def struct(self, array: pa.Array, schema: Schema, message: Message) -> pa.Array:
        if not pa.types.is_struct(array.type):
            raise DataError(f"values of {schema.type.value} cannot be written as the message {message.full_name}")
        found: dict[str, tuple[pa.Array, Schema]] = {}
        self._collect(array, schema, found)
        columns = {}
        for one in message.members:
            if one.name in found:
                column, described = found[one.name]
                columns[one.number] = named(one.name, partial(self._member, column, described, one))
            else:
                columns[one.number] = _absent(one, len(array))
        kind = wire_type(message)
        children = [columns[int(field.name[1:])] for field in kind]
        return struct_array(children, list(kind), len(array), mask_of(array))

    def _collect(self, array: pa.Array, schema: Schema, found: dict[str, tuple[pa.Array, Schema]]) -> None:
        """Adds the columns to `found` by the names of Protobuf's fields. Fields of unions are fields of the message."""
        children = array.flatten()
        for field, child in zip(schema.fields, children, strict=True):
            if not n.is_union(field.schema):
                found[self._options.name(field.name)] = (self._with_default(child, field.schema), field.schema)
                continue
            inner: dict[str, tuple[pa.Array, Schema]] = {}
            self._collect(child, field.schema, inner)
            taken = np.zeros(len(child), np.bool_)
            for name, (column, described) in inner.items():  # the first one that is not null
                found[name] = (_unless(column, taken), described)
                taken |= column.is_valid().to_numpy(zero_copy_only=False)
            wrong = ~taken & child.is_valid().to_numpy(zero_copy_only=False)
            if wrong.any():
                raise BadRowError(int(np.argmax(wrong)), f"field {field.name}: Cannot find non-null field")

    def _with_default(self, array: pa.Array, schema: Schema) -> pa.Array:
        if schema.default is None or not array.null_count or self._options.ignore_defaults:
            return array
        return filled(array, schema)

    def _member(self, array: pa.Array, schema: Schema, member: ProtobufField) -> pa.Array:
        if member.message is not None and member.is_map and schema.type is Type.MAP:
            return self._map(array, schema, member.message)
        if member.repeated:
            if schema.type is not Type.ARRAY:
                raise _type_mismatch(schema, member)
            items = array.flatten()
            if items.null_count:
                row = outer_row(array, int(np.argmax(items.is_null().to_numpy(zero_copy_only=False))))
                raise BadRowError(row, "an array contains a null, which Protobuf does not support")
            found = inside(array, partial(self._value, items, part(schema.value), member))
            return _list_of(array, found)
        found = self._value(array, schema, member)
        return found if member.presence else _without_nulls(found, member)

    def _value(self, array: pa.Array, schema: Schema, member: ProtobufField) -> pa.Array:
        if member.message is not None:
            return self._message(array, schema, member.message, member)
        if member.enum is not None:
            return self._enum(array, schema, member.enum)
        return _to_scalar(array, schema, member)

    def _message(self, array: pa.Array, schema: Schema, message: Message, member: ProtobufField) -> pa.Array:
        name = schema.name if schema.type is not Type.STRUCT else None
        if name in n.LOGICAL and n.LOGICAL[name][0] == message.full_name:
            if not (pa.types.is_decimal(array.type) and name == DECIMAL):
                array = array.cast(to_arrow(schema), safe=False)
            columns = logical.TO[name](array)
            kind = wire_type(message)
            return struct_array([_without_nulls(columns[field.name], one) for field, one in zip(
                kind, message.members, strict=True)], list(kind), len(array), mask_of(array))
        if message.full_name in n.WRAPPERS and schema.type is not Type.STRUCT:
            return self.wrapped(array, schema, message)
        if schema.type is not Type.STRUCT:
            raise _type_mismatch(schema, member)
        return self.struct(array, schema, message)

    def wrapped(self, array: pa.Array, schema: Schema, message: Message) -> pa.Array:
        """Returns messages with one field, the value."""
        one = message.members[0]
        child = _without_nulls(_to_scalar(array, schema, one), one)
        return struct_array([child], list(wire_type(message)), len(array), mask_of(array))

    def _enum(self, array: pa.Array, schema: Schema, enum: Enum) -> pa.Array:
        if schema.type in (Type.INT8, Type.INT16, Type.INT32):
            return array.cast(pa.int32())
        if schema.type is not Type.STRING:
            raise DataError(f"values of {schema.type.value} cannot be written as the enum {enum.name}")
        names = pa.array([name for name, _ in enum.values], pa.string())
        places = pc.index_in(array.cast(pa.string()), names)
        wrong = places.is_null().to_numpy(zero_copy_only=False) & array.is_valid().to_numpy(zero_copy_only=False)
        if wrong.any():
            raise BadRowError(int(np.argmax(wrong)), f"the text is not a name of the enum {enum.name}")
        return pa.array([number for _, number in enum.values], pa.int32()).take(places)

    def _map(self, array: pa.Array, schema: Schema, message: Message) -> pa.Array:
        offsets = np.asarray(array.offsets)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        key, value = message.members
        columns = {
            key.number: inside(array, partial(self._member, array.keys.slice(first, count), part(schema.key), key)),
            value.number: inside(
                array, partial(self._member, self._with_default(array.items.slice(first, count), part(schema.value)),
                               part(schema.value), value)),
        }
        kind = wire_type(message)
        entries = struct_array([columns[int(field.name[1:])] for field in kind], list(kind), count, None)
        return _list_of(array, entries)


def _unless(array: pa.Array, taken: np.ndarray[Any, Any]) -> pa.Array:
    """Returns the array with null for rows in which another field of the union is not null."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if not (taken & valid).any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=taken | ~valid))


def _list_of(array: pa.Array, items: pa.Array) -> pa.Array:
    """Returns lists of `items` with the offsets of `array`. Null lists become empty."""
    offsets = np.asarray(array.offsets if pa.types.is_map(array.type) else list_offsets(array))
    starts = pa.py_buffer((offsets - offsets[0]).astype(np.int32))
    kind = pa.list_(pa.field("item", items.type, nullable=False))
    return pa.Array.from_buffers(kind, len(array), [None, starts], children=[items])


def _absent(member: ProtobufField, size: int) -> pa.Array:
    if member.required:
        raise DataError(f"the schema to write with requires the field {member.name}, which the records do not have")
    kind = _kind(member)
    if member.presence:
        return pa.nulls(size, kind)
    return pa.repeat(pa.scalar([] if member.repeated else member.default, kind), size)


def _kind(member: ProtobufField) -> pa.DataType:
    return wire_type(Message("", "", (member,)))[0].type


def _without_nulls(array: pa.Array, member: ProtobufField) -> pa.Array:
    """Replaces nulls by the default of the member."""
    return pc.fill_null(array, pa.scalar(member.default, array.type)) if array.null_count else array


_NUMBERS = ("int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64")
_TYPES = {"float": (Type.FLOAT32, Type.FLOAT64), "double": (Type.FLOAT32, Type.FLOAT64), "bool": (Type.BOOLEAN,),
          "string": (Type.STRING,), "bytes": (Type.BYTES,)}  # fmt: skip
_WHOLE = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def _to_scalar(array: pa.Array, schema: Schema, member: ProtobufField) -> pa.Array:
    if schema.type not in _TYPES.get(member.kind, _WHOLE) or schema.logical == DECIMAL:
        raise _type_mismatch(schema, member)
    kind = _kind(member).value_type if member.repeated else _kind(member)
    if member.kind not in _NUMBERS:
        return array.cast(kind)
    if not pa.types.is_integer(array.type):
        array = array.cast(to_arrow(schema), safe=False)
        array = array.cast(pa.int64() if schema.type is Type.INT64 else pa.int32())
    if kind == pa.uint64():
        return array.cast(pa.int64()).view(kind)
    return array.cast(kind, safe=member.kind in ("int32", "sint32", "sfixed32"))


def _type_mismatch(schema: Schema, member: ProtobufField) -> DataError:
    return DataError(f"values of {schema.type.value} cannot be written as Protobuf's {member.kind} (field "
                     f"{member.name})")


def _check_no_nulls(column: pa.Array, parent: pa.Array, why: str) -> None:
    wrong = (column.is_null().to_numpy(zero_copy_only=False)
             & parent.is_valid().to_numpy(zero_copy_only=False))
    if wrong.any():
        raise BadRowError(int(np.argmax(wrong)), why)
