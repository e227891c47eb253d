"""Parts of a batch with the members of the whole again.

Parts that were changed separately have only the members of their own records. Of a member that no record of a part has,
the whole has a column of nulls that mean absent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_tasks.data.columns import ABSENT_KEY, ABSENT_NULL, SCHEMA_KEY, metadata_of, nulls_are_absent, struct_array
from spark_tasks.data.key_orders import (
    ORDERS_KEY,
    Order,
    are_compatible,
    kinds_of_maps,
    orders_of,
    own_orders,
    with_orders,
)
from spark_tasks.java.hash import hash_order
from spark_tasks.pipeline.converters.json_columns import max_members


@dataclass(frozen=True)
class _Shape:
    """What a column has. `members`: of a schemaless map; other columns have none. `metadata`: without ABSENT_KEY.
    `lacks`: some maps do not have this member; `nulls`: in some, it is null. `orders`: the different orders of keys.
    """

    kind: pa.DataType
    metadata: dict[bytes, bytes]
    lacks: bool = False
    nulls: bool = False
    members: dict[str, _Shape] | None = None
    orders: tuple[Order, ...] = ()
    known: pa.Field = field(init=False)  # the nameless Arrow field

    def __post_init__(self) -> None:
        metadata = {**self.metadata, ABSENT_KEY: ABSENT_NULL} if self.lacks else self.metadata
        if self.members is not None:
            metadata = with_orders(metadata, own_orders(list(self.members), self.orders))
        object.__setattr__(self, "known", pa.field("", self.kind, metadata=metadata or None))


def widened(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns the batches. Adjacent ones get the same schema if they differ only in members of schemaless maps that no
    record of some of them has, or in columns of nulls without a type.
    """
    if len(batches) < 2:
        return list(batches)
    groups: list[tuple[list[pa.RecordBatch], list[_Shape]]] = []
    for batch in batches:
        shapes = [_shape(batch.column(i), one, 0) for i, one in enumerate(batch.schema)]
        if groups and groups[-1][0][0].schema.names == batch.schema.names:
            group, so_far = groups[-1]
            rows = sum(map(len, group)) + len(batch)
            both = [_merged(one, other, rows) for one, other in zip(so_far, shapes, strict=True)]
            known = [one for one in both if one is not None]
            if len(known) == len(both):
                groups[-1] = ([*group, batch], known)
                continue
        groups.append(([batch], shapes))
    return [_as(batch, shapes) if len(group) > 1 else batch for group, shapes in groups for batch in group]


def _shape(array: pa.Array, its: pa.Field, missing: int) -> _Shape:
    """`missing`: the number of null maps, which have no members."""
    metadata, members, orders = metadata_of(its), None, tuple[Order, ...]()
    lacks = nulls_are_absent(metadata)
    if lacks:
        del metadata[ABSENT_KEY]
    if pa.types.is_struct(array.type) and SCHEMA_KEY not in metadata:
        members = {one.name: _shape(child, one, array.null_count)
                   for child, one in zip(array.flatten(), array.type, strict=True)}  # fmt: skip
        own = orders_of(metadata)
        orders = tuple(own.get(frozenset(names), names) for names in kinds_of_maps(array))
        metadata.pop(ORDERS_KEY, None)
    return _Shape(array.type, metadata, lacks, not lacks and array.null_count > missing, members, orders)


def _merged(one: _Shape, other: _Shape, rows: int) -> _Shape | None:
    """Returns the shape of a column with the records of both, or None if they do not fit into one."""
    lacks, nulls = one.lacks or other.lacks, one.nulls or other.nulls
    if lacks and nulls:
        return None
    if one.members is None and other.members is None and one.known.equals(other.known, check_metadata=True):
        return one if one.nulls else other
    if _is_untyped(one) or _is_untyped(other):
        typed = other if _is_untyped(one) else one
        return None if SCHEMA_KEY in typed.metadata else replace(typed, lacks=lacks, nulls=nulls)
    if one.metadata != other.metadata:
        return None
    if one.members is None or other.members is None:
        same = one.kind.equals(other.kind, check_metadata=True)
        return replace(one, lacks=lacks, nulls=nulls) if same else None
    members: dict[str, _Shape] = {}
    names = _names(list(one.members), list(other.members))
    orders = tuple(dict.fromkeys(one.orders + other.orders))
    if len(names) > max_members(rows) or not are_compatible(orders):
        return None
    for name in names:
        in_one, in_other = one.members.get(name), other.members.get(name)
        if in_one is not None and in_other is not None:
            both = _merged(in_one, in_other, rows)
        else:
            only = in_one or in_other
            both = None if only is None or only.nulls else replace(only, lacks=True)
        if both is None:
            return None
        members[name] = both
    kind = pa.struct([shape.known.with_name(name) for name, shape in members.items()])
    return _Shape(kind, one.metadata, lacks, nulls, members, orders)


def _is_untyped(shape: _Shape) -> bool:
    return pa.types.is_null(shape.kind) and not shape.metadata


def _names(one: list[str], other: list[str]) -> list[str]:
    """Returns the names in an order that is that of both, if there is one: if possible in that of Java's HashMap, as in
    most maps.
    """
    if one == other:
        return one
    union = dict.fromkeys(_interleaved(one, other))  # of names in the same bucket, the first one is first there
    in_table = hash_order(union)
    choices = (one, other, in_table, list(union))
    return next((names for names in choices
                 if len(names) == len(union) and _keeps(names, one) and _keeps(names, other)), in_table)


def _keeps(names: list[str], order: list[str]) -> bool:
    own = set(order)
    return [name for name in names if name in own] == order


def _interleaved(one: list[str], other: list[str]) -> list[str]:
    """Returns the names of both. Before each one that they share come those that only `other` has there."""
    names, rest, known = [], deque(other), set(other)
    for name in one:
        while name in known and rest:
            if (first := rest.popleft()) == name:
                break
            names.append(first)
        names.append(name)
    return [*names, *rest]


def _as(batch: pa.RecordBatch, shapes: list[_Shape]) -> pa.RecordBatch:
    for index, shape in enumerate(shapes):
        own = batch.schema.field(index)
        known = shape.known.with_name(own.name).with_nullable(own.nullable)
        if not known.equals(own, check_metadata=True):
            batch = batch.set_column(index, known, _as_array(batch.column(index), shape))
    return batch


def _as_array(array: pa.Array, shape: _Shape) -> pa.Array:
    if array.type.equals(shape.kind, check_metadata=True):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), shape.kind)
    own = dict(zip((one.name for one in array.type), array.flatten(), strict=True))
    members = shape.members or {}
    children = [_as_array(own[name], one) if name in own else pa.nulls(len(array), one.kind)
                for name, one in members.items()]  # fmt: skip
    return struct_array(children, list(shape.kind), len(array), array.is_null() if array.null_count else None)
