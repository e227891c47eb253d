"""Converts between columns of plain Avro values (codec.wire_type) and columns of Connect values (arrow_types)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import list_offsets, valid
from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import struct_array
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters import long_decimals
from spark_tasks.pipeline.converters.avro import decimals
from spark_tasks.pipeline.converters.avro import names as n
from spark_tasks.pipeline.converters.avro.codec import branches, wire_default, wire_type
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_connect import is_map_entry
from spark_tasks.pipeline.converters.avro.tree import NO_DEFAULT, Node
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.maps import map_array, map_of
from spark_tasks.pipeline.converters.nested import filled, inside, mask_of, named, part
from spark_tasks.pipeline.converters.times import check_times

_MOMENTS = {(DATE, Type.INT32), (TIME, Type.INT32), (TIMESTAMP, Type.INT64)}


def to_connect(wire: pa.Array, node: Node, schema: Schema) -> pa.Array:
    """Converts plain values of the node to Connect values. `schema`: from to_connect.connect_schema. Raises
    BadRowError.
    """
    return long_decimals.built(partial(_to_connect, wire, node), schema)


def _to_connect(wire: pa.Array, node: Node, schema: Schema) -> pa.Array:
    inner = node.optional_of or (node.inner[0] if node.kind == "union" and len(node.inner) == 1
                                 and not n.is_union(schema) else None)
    if inner is not None:
        if node.optional_of is None:
            wire = wire.field(0)
        return _to_connect(wire, inner, schema)
    if node.kind == "union":
        parts = [one for _, one in branches(node)]
        return _struct(wire, parts, schema)
    if node.kind == "record":
        return _struct(wire, [member.node for member in node.members], schema)
    if node.kind == "array" and is_map_entry(node.inner[0]):
        return _entries(wire, node.inner[0], schema)
    if node.kind == "array":
        items = inside(wire, partial(_to_connect, wire.flatten(), node.inner[0], part(schema.value)))
        return pa.ListArray.from_arrays(list_offsets(wire), items, type=to_arrow(schema), mask=mask_of(wire))
    if node.kind == "map":
        offsets = np.asarray(wire.offsets)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        items = wire.items.slice(first, count)
        values = inside(wire, partial(_to_connect, items, node.inner[0], part(schema.value)))
        return map_array(schema, offsets - offsets[0], wire.keys.slice(first, count), values, valid(wire))
    if schema.type is Type.BYTES and schema.name == DECIMAL:
        return decimals.from_bytes(wire, to_arrow(schema))
    if schema.type is Type.INT32 and schema.name == TIME:
        check_times(wire)
    return wire.cast(to_arrow(schema), safe=False)


def _struct(wire: pa.Array, nodes: list[Node], schema: Schema) -> pa.Array:
    kind = to_arrow(schema)
    children = [
        named(field.name, partial(_to_connect, child, one, field.schema))
        for child, one, field in zip(wire.flatten(), nodes, schema.fields, strict=True)
    ]
    return struct_array(children, list(kind), len(wire), mask_of(wire))


def _entries(wire: pa.Array, node: Node, schema: Schema) -> pa.Array:
    """Returns a map column. In Avro such maps are arrays of records with key and value."""
    flat = wire.flatten()
    columns = {
        member.name: inside(wire, partial(
            to_connect, child, member.node, part(schema.key if member.name == "key" else schema.value)))
        for child, member in zip(flat.flatten(), node.members, strict=True)
    }  # fmt: skip
    return map_array(schema, np.asarray(list_offsets(wire)), columns["key"], columns["value"], valid(wire))


def from_connect(array: pa.Array, schema: Schema, node: Node, options: AvroOptions) -> pa.Array:
    """Converts Connect values to plain values of the node, without nulls unless the node is optional. `schema`: that of
    the values; the node may be that schema in Avro or another, compatible one. Raises BadRowError, DataError.
    """
    return _Writer(options).column(array, schema, node)


class _Writer:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options

    def field(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        return self.column(self._got(array, schema), schema, node)

    def _got(self, array: pa.Array, schema: Schema) -> pa.Array:
        """Returns a struct's field, in which the default replaces null, as Java's Struct.get does. An item of a list or
        a map remains null.
        """
        fill = schema.default is not None and array.null_count and not self._options.ignore_defaults
        return filled(array, schema) if fill else array

    def column(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        optional = node.kind == "union" and any(branch.kind == "null" for branch in node.inner)
        if not array.null_count:
            return self._values(array, schema, node)
        if not optional:
            row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
            raise BadRowError(row, "Found null value for non-optional schema")
        valid = array.is_valid()
        places = np.cumsum(valid.to_numpy(zero_copy_only=False)) - 1
        rows = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
        try:
            values = self._values(array.filter(valid), schema, node)
        except BadRowError as bad:
            raise BadRowError(int(rows[bad.row]), bad) from None
        return values.take(pa.array(places, mask=~valid.to_numpy(zero_copy_only=False)))

    def _values(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        """Converts an array without nulls."""
        if n.is_union(schema):
            return self._union(array, schema, node)
        node = node.optional_of or node
        if node.kind == "union":
            return self._in_union(array, schema, node)
        if schema.type is Type.STRUCT and node.kind == "record" and pa.types.is_struct(array.type):
            return self._record(array, schema, node)
        if schema.type is Type.ARRAY and node.kind == "array":
            items = inside(array, partial(self.column, array.flatten(), part(schema.value), node.inner[0]))
            return pa.ListArray.from_arrays(list_offsets(array), items, type=wire_type(node))
        if schema.type is Type.MAP and node.kind in ("array", "map") and pa.types.is_map(array.type):
            return self._map(array, schema, node)
        return self._leaf(array, schema, node)

    def _record(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        children = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        fields = {self._options.name(field.name): field for field in schema.fields}
        columns = []
        for member in node.members:
            field = fields.pop(member.name, None)
            if field is not None:
                columns.append(named(field.name, partial(
                    self.field, children[field.name], field.schema, member.node)))
            elif member.default is not NO_DEFAULT:
                default = wire_default(member.node, member.default)
                columns.append(pa.repeat(pa.scalar(default, wire_type(member.node)), len(array)))
            else:
                raise DataError(f"the schema to write with requires the field {member.name}, which the records do "
                                "not have")
        kind = wire_type(node)
        return struct_array(columns, list(kind), len(array), None)

    def _union(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        """Converts the structs of a union, in each of which the first field that is not null has the value."""
        children = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        unused = dict(branches(node)) if node.kind == "union" else {0: node}
        columns: dict[int, pa.Array] = {}
        free = np.ones(len(array), np.bool_)
        for field in schema.fields:
            values = self._got(children[field.name], field.schema)
            if not free.all():
                values = values.take(pa.array(np.arange(len(array)), mask=~free))
            used = values.is_valid().to_numpy(zero_copy_only=False)
            index = self._branch(field.schema, unused)
            if index is not None:
                optional = Node("union", inner=(Node("null"), unused.pop(index)))
                columns[index] = named(field.name, partial(self.column, values, field.schema, optional))
            elif used.any():
                raise BadRowError(int(np.argmax(used)), f"the union to write with has no branch for {field.name}")
            free &= ~used
        if free.any() and all(branch.kind != "null" for branch in (node.inner if node.kind == "union" else (node,))):
            raise BadRowError(int(np.argmax(free)), "a union has no value")
        if node.kind == "union" and node.optional_of is None:
            return branched(node, columns, len(array), pa.array(free) if free.any() else None)
        return next(iter(columns.values()), pa.nulls(len(array), wire_type(node)))

    def _in_union(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        """Converts values that are not unions themselves to a union of several types."""
        one = dict(branches(node))
        index = self._branch(schema, one)
        if index is None:
            raise DataError(f"the schema to write with has a union without a branch for {schema.type.value}")
        return branched(node, {index: self._values(array, schema, one[index])}, len(array), None)

    def _branch(self, schema: Schema, choices: Mapping[int, Node]) -> int | None:
        """Returns the index of the branch for values of this schema: the first one of their type and name."""
        exact = (index for index, one in choices.items() if self._is_of(schema, one))
        loose = {Type.STRING: ("string", "enum"), Type.BYTES: ("bytes", "fixed")}.get(schema.type, ())
        alike = (index for kind in loose for index, one in choices.items() if one.kind == kind)
        return next(exact, next(alike, None))

    def _is_of(self, schema: Schema, node: Node) -> bool:
        """Returns whether a branch has the type of the values and, if the type has a name, the name."""
        if schema.type is Type.MAP:
            return node.kind == "map" or (node.kind == "array" and is_map_entry(node.inner[0]))
        if node.kind == "array" and is_map_entry(node.inner[0]):
            return False
        if schema.type is Type.STRUCT:
            kind, name = "record", schema.name
        elif n.is_enum(schema):
            kind, name = "enum", dict(schema.parameters).get(self._options.enum)
        elif n.is_fixed(schema):
            kind, name = "fixed", schema.name
        else:
            return node.kind == n.AVRO_NAMES[schema.type]
        if node.kind != kind:
            return False
        if name is None:
            return str(node.name).startswith(n.DEFAULT_FULL_NAME)
        return node.name == self._options.full_name(name) or node.props.get(n.CONNECT_NAME) == schema.name

    def _map(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        key, value = part(schema.key), part(schema.value)
        offsets = np.asarray(array.offsets)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        keys, items = array.keys.slice(first, count), array.items.slice(first, count)
        kind, starts = wire_type(node), offsets - offsets[0]
        if node.kind == "map":
            values = inside(array, partial(self.column, items, value, node.inner[0]))
            return map_of(kind, starts, keys.cast(pa.string()), values)
        columns = []
        for member in node.inner[0].members:
            inner_schema, column = (key, keys) if member.name == "key" else (value, items)
            columns.append(inside(array, partial(self.column, column, inner_schema, member.node)))
        records = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
        return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(starts)], children=[records])

    def _leaf(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        kind = wire_type(node)
        if schema.type in (Type.STRUCT, Type.ARRAY, Type.MAP) or pa.types.is_nested(kind):
            raise DataError(f"values of {schema.type.value} cannot be written as Avro's {node.kind}")
        if schema.type is Type.BYTES and schema.name == DECIMAL:
            return self._decimal(array, schema, node)
        if (schema.name, schema.type) in _MOMENTS:
            plain = pa.int64() if schema.type is Type.INT64 else pa.int32()
            array = array if pa.types.is_integer(array.type) else array.cast(to_arrow(schema), safe=False).cast(plain)
        if (schema.type in (Type.STRING, Type.BYTES)) != (node.kind in ("string", "enum", "bytes", "fixed")):
            raise DataError(f"values of {schema.type.value} cannot be written as Avro's {node.kind}")
        cast = array.cast(kind)
        if node.kind == "enum":
            return _checked(cast, pc.is_in(cast, pa.array(node.symbols, pa.string())),
                            f"the text is not a symbol of the enum {node.name}")
        if node.kind == "fixed":
            return _checked(cast, pc.equal(pc.binary_length(cast), node.size),
                            f"the value does not have the {node.size} bytes that the fixed {node.name} requires")
        return cast

    def _decimal(self, array: pa.Array, schema: Schema, node: Node) -> pa.Array:
        if not pa.types.is_decimal(array.type) or array.type.scale != schema.scale:
            array = array.cast(to_arrow(schema))
        if node.kind not in ("bytes", "fixed"):
            raise DataError(f"a Decimal cannot be written as Avro's {node.kind}")
        return decimals.to_bytes(array, node.size if node.kind == "fixed" else None)


def branched(node: Node, columns: Mapping[int, pa.Array], rows: int, mask: pa.Array | None) -> pa.Array:
    """Returns the values of a union. `columns`: of its branches, by index; the others have no values."""
    kind = wire_type(node)
    children = [columns[index] if index in columns else pa.nulls(rows, field.type)
                for (index, _), field in zip(branches(node), kind, strict=True)]
    return struct_array(children, list(kind), rows, mask)


def _checked(array: pa.Array, good: pa.Array, reason: str) -> pa.Array:
    wrong = ~good.to_numpy(zero_copy_only=False)
    if wrong.any():
        raise BadRowError(int(np.argmax(wrong)), reason)
    return array
