"""Reads records that were written with one schema as those of another one, by Avro's rules of schema resolution: names
and aliases of fields, defaults, wider types, branches of unions, symbols of enums.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import list_offsets
from spark_tasks.data.columns import struct_array
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.avro.codec import branches, wire_default, wire_type
from spark_tasks.pipeline.converters.avro.columns import branched
from spark_tasks.pipeline.converters.avro.tree import NAMED, NO_DEFAULT, AvroField, Node
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.maps import map_of
from spark_tasks.registry.errors import UnusableSchemaError

Rows = np.ndarray[Any, Any]

_WIDER = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "string": ("bytes",),
          "bytes": ("string",)}  # fmt: skip


def resolved(wire: pa.Array, written: Node, wanted: Node) -> pa.Array:
    """Converts plain values (codec.wire_type) of the node `written` to values of `wanted`. Raises BadRowsError with all
    rows that do not fit, and UnusableSchemaError for an invalid default.
    """
    resolution = _Resolution()
    found = resolution.column(wire, written, wanted, np.arange(len(wire)))
    if resolution.bad:
        raise BadRowsError([(row, DataError(why)) for row, why in sorted(resolution.bad.items())])
    return found


class _Resolution:
    """`rows`, in all methods: for each value the row that it belongs to. Values that do not fit become null."""

    def __init__(self) -> None:
        self.bad: dict[int, str] = {}

    def column(self, wire: pa.Array, written: Node, wanted: Node, rows: Rows) -> pa.Array:
        """Has nulls only for the branch null of a union."""
        if written.kind == "union":
            return self._of_union(wire, written, wanted, rows)
        if wanted.kind == "union":
            return self._as_branch(wire, written, wanted, rows)
        if written.kind == "record" == wanted.kind:
            return self._record(wire, written, wanted, rows)
        if written.kind in ("array", "map") and written.kind == wanted.kind:
            return self._items(wire, written, wanted, rows)
        if written.kind == wanted.kind and _may_be_read(written, wanted):
            return self._symbols(wire, written, wanted, rows) if written.kind == "enum" else wire
        if wanted.kind in _WIDER.get(written.kind, ()):
            return _widened(wire, wanted)
        return self._unfit(wanted, rows, f"{_shown(written)} was written, which cannot be read as {_shown(wanted)}")

    def _of_union(self, wire: pa.Array, written: Node, wanted: Node, rows: Rows) -> pa.Array:
        """Converts the values of each branch and puts them back in order."""
        single = written.optional_of
        parts = [(single, wire)] if single is not None else [
            (one, child) for (_, one), child in zip(branches(written), wire.flatten(), strict=True)]
        places = np.full(len(wire), -1)
        pieces: list[pa.Array] = []
        for one, values in parts:
            used = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            if len(used):
                places[used] = np.arange(len(used)) + sum(map(len, pieces))
                pieces.append(self.column(values.drop_null(), one, wanted, rows[used]))
        nulls = places < 0
        if nulls.any() and not _may_be_null(wanted):
            self._unfit(wanted, rows[nulls], f"null was written, which cannot be read as {_shown(wanted)}")
        if len(pieces) == 1 and not nulls.any():
            return pieces[0]
        found = pa.concat_arrays(pieces) if pieces else pa.nulls(0, wire_type(wanted))
        return found.take(pa.array(places, mask=nulls))

    def _as_branch(self, wire: pa.Array, written: Node, wanted: Node, rows: Rows) -> pa.Array:
        index = _branch_for(written, wanted)
        if index is None:
            return self._unfit(wanted, rows, f"{_shown(written)} was written, for which {_shown(wanted)} has no branch")
        values = self.column(wire, written, wanted.inner[index], rows)
        if wanted.optional_of is not None or wanted.inner[index].kind == "null":
            return values if values.type == wire_type(wanted) else pa.nulls(len(values), wire_type(wanted))
        return branched(wanted, {index: values}, len(wire), None)

    def _record(self, wire: pa.Array, written: Node, wanted: Node, rows: Rows) -> pa.Array:
        children = {member.name: (member.node, child)
                    for member, child in zip(written.members, wire.flatten(), strict=True)}
        columns = []
        for member in wanted.members:
            name = _written_name(member, children, _is_same(written, wanted))
            if name is not None:
                node, child = children[name]
                columns.append(self.column(child, node, member.node, rows))
            elif member.default is NO_DEFAULT:
                columns.append(self._unfit(member.node, rows, f"the field {member.name} was not written, and has no "
                                           "default in the schema to read with"))
            else:
                columns.append(_default(member, len(wire)))
        return struct_array(columns, list(wire_type(wanted)), len(wire), None)

    def _items(self, wire: pa.Array, written: Node, wanted: Node, rows: Rows) -> pa.Array:
        kind = wire_type(wanted)
        if written.kind == "array":
            offsets = np.asarray(list_offsets(wire))
            items = self.column(wire.flatten(), written.inner[0], wanted.inner[0], np.repeat(rows, np.diff(offsets)))
            return pa.ListArray.from_arrays(pa.array(offsets), items, type=kind)
        offsets = np.asarray(wire.offsets)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        values = self.column(wire.items.slice(first, count), written.inner[0], wanted.inner[0],
                             np.repeat(rows, np.diff(offsets)))
        return map_of(kind, offsets - offsets[0], wire.keys.slice(first, count), values)

    def _symbols(self, wire: pa.Array, written: Node, wanted: Node, rows: Rows) -> pa.Array:
        if set(written.symbols) <= set(wanted.symbols):
            return wire
        known = pc.is_in(wire, pa.array(wanted.symbols, pa.string()))
        if wanted.default_symbol is not None:
            return pc.if_else(known, wire, wanted.default_symbol)
        unknown = ~known.to_numpy(zero_copy_only=False)
        self._unfit(wanted, rows[unknown], f"a symbol was written that the enum {wanted.name} to read with lacks")
        return wire

    def _unfit(self, wanted: Node, rows: Rows, why: str) -> pa.Array:
        for row in np.unique(rows).tolist():
            self.bad.setdefault(row, why)
        return pa.nulls(len(rows), wire_type(wanted))


def _branch_for(written: Node, union: Node) -> int | None:
    """Returns the index of the branch to read values as: of the same type and name; for records, else the one with
    fitting fields, if possible with the same name in another namespace; else the first one that is wider.
    """
    fitting: list[int] = []
    for index, one in enumerate(union.inner):
        if one.kind == written.kind:
            if _is_same(written, one):
                return index
            if one.kind == "record" and _fits(written, one):
                fitting.append(index)
    if fitting:
        alike = [index for index in fitting if _short(union.inner[index]) == _short(written)]
        return alike[-1] if alike else fitting[0]
    wider = _WIDER.get(written.kind, ())
    return next((index for index, one in enumerate(union.inner) if one.kind in wider), None)


def _fits(written: Node, wanted: Node) -> bool:
    """Returns whether every record can be read: a union's branch need only exist, as in Java."""
    if written.kind == "union":
        return True
    if wanted.kind == "union":
        return _branch_for(written, wanted) is not None
    if written.kind != wanted.kind:
        return wanted.kind in _WIDER.get(written.kind, ())
    if written.kind != "record":
        return _may_be_read(written, wanted)
    nodes = {member.name: member.node for member in written.members}
    for member in wanted.members:
        name = _written_name(member, nodes, _is_same(written, wanted))
        if member.default is NO_DEFAULT if name is None else not _fits(nodes[name], member.node):
            return False
    return True


def _written_name(member: AvroField, written: dict[str, Any], same: bool) -> str | None:
    """Returns the name that a field has in the schema that was written with, or None. `same`: whether the two records
    are the same one; only then fields have aliases, as in Java.
    """
    return next((name for name in (member.name, *(member.aliases if same else ())) if name in written), None)


def _may_be_null(node: Node) -> bool:
    return node.kind == "null" or (node.kind == "union" and any(one.kind == "null" for one in node.inner))


def _is_same(written: Node, wanted: Node) -> bool:
    """Returns whether types of the same kind have the same full name, if they have any."""
    return written.kind not in NAMED or written.name in (wanted.name, *wanted.aliases)


def _may_be_read(written: Node, wanted: Node) -> bool:
    """Returns whether types of the same kind, other than records, may be read as each other: outside of unions, Java
    ignores namespaces.
    """
    return written.size == wanted.size and (_is_same(written, wanted) or _short(written) == _short(wanted))


def _short(node: Node) -> str:
    return (node.name or "").rpartition(".")[2]


def _shown(node: Node) -> str:
    return f"the {node.kind} {node.name}" if node.name else f"Avro's {node.kind}"


def _widened(wire: pa.Array, wanted: Node) -> pa.Array:
    try:
        return wire.cast(wire_type(wanted), safe=wanted.kind == "string")
    except pa.ArrowInvalid:  # bytes that are not UTF-8, which Java replaces
        return pa.array([value.decode("utf-8", "replace") for value in wire.to_pylist()], pa.string())


def _default(member: AvroField, count: int) -> pa.Array:
    kind = wire_type(member.node)
    try:
        return pa.repeat(pa.scalar(wire_default(member.node, member.default), kind), count)
    except (DataError, pa.ArrowInvalid, TypeError) as error:
        text = json.dumps(member.default)[:100]
        raise UnusableSchemaError(f"the default {text} of the field {member.name} is not of its type") from error
