"""The records of a batch by the keys of their maps, for transforms after which maps with other keys have another order.

Such a transform copies each map into a new one, as Java's do. See data/key_orders.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import SCHEMA_KEY, metadata_of
from spark_tasks.data.key_orders import (
    ORDERS_KEY,
    Order,
    alike,
    are_compatible,
    kinds_of_maps,
    orders_of,
    own_orders,
    with_keys,
)
from spark_tasks.pipeline.transforms.narrowing import narrowed

Reorder = Callable[[list[str]], list[str]]
"""Returns the keys of a changed map for those of a map, each in the order in which Java iterates over the map."""

Rows = np.ndarray[Any, Any]
MOST_KINDS = 64  # of maps that are changed apart; if there are more, all have the order of a map with all keys
_FEW = 8  # records with the same keys, for which columns are not worthwhile


class Group(NamedTuple):
    """Records that are changed together, and their rows. `one_by_one`: because their maps have many different keys."""

    rows: Rows
    records: pa.RecordBatch
    one_by_one: bool = False


def has_maps(array: pa.Array, field: pa.Field) -> bool:
    """Returns whether a column has schemaless maps as structs."""
    return bool(pa.types.is_struct(array.type)) and SCHEMA_KEY not in (field.metadata or {})


def others(array: pa.StructArray, field: pa.Field, reorder: Reorder | None) -> list[Order]:
    """Returns the keys of those maps that do not have the order of the others after the change, or already before."""
    orders = orders_of(field.metadata)
    if reorder is None and not orders:
        return []
    found = kinds_of_maps(array)
    own = {names for names in found if frozenset(names) in orders}
    if reorder is None:
        return [names for names in found if names in own]
    whole = reorder([one.name for one in array.type])
    return [names for names in found if names in own or not keeps(whole, reorder(list(names)))]


def orders_after(array: pa.StructArray, field: pa.Field, reorder: Reorder) -> list[Order] | None:
    """Returns the orders of changed maps that differ from the order of all keys, or None if the maps cannot be in one
    column: some would have the same keys in different orders.
    """
    orders = orders_of(field.metadata)
    changed = [tuple(reorder(list(orders.get(frozenset(names), names)))) for names in kinds_of_maps(array)]
    return own_orders(reorder([one.name for one in array.type]), changed) if are_compatible(changed) else None


def keeps(whole: Sequence[str], order: Sequence[str]) -> bool:
    """Returns whether the order of all keys is that of a map with these."""
    keys = set(order)
    return [name for name in whole if name in keys] == list(order)


def grouped(batch: pa.RecordBatch, part: str, apart: Sequence[Order]) -> list[Group]:
    """Returns the groups of a batch. Maps with keys of `apart` are in groups of their own, whose column has only these
    keys, in the order of the map.
    """
    index = batch.schema.get_field_index(part)
    array, field = batch.column(index), batch.schema.field(index)
    orders, wanted = orders_of(field.metadata), set(apart)
    rest = np.ones(len(batch), np.bool_)
    groups, few = list[Group](), list[Rows]()
    for names, rows in alike(array):
        if names not in wanted:
            continue
        rest[rows] = False
        if len(rows) < _FEW < len(batch):
            few.append(rows)
            continue
        own = with_keys(array, rows, orders.get(frozenset(names), names))
        some = batch.take(pa.array(rows))
        groups.append(Group(rows, narrowed(some.set_column(index, pa.field(part, own.type), own), [part])))
    if few:
        rows = np.sort(np.concatenate(few))
        groups.append(Group(rows, batch.take(pa.array(rows)), one_by_one=True))
    left = np.flatnonzero(rest)
    if len(left):
        plain = {key: value for key, value in metadata_of(field).items() if key != ORDERS_KEY}
        some = batch.set_column(index, field.with_metadata(plain or None), array).take(pa.array(left))
        groups.append(Group(left, some))
    return groups


def in_rows(pieces: Sequence[tuple[Rows, pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Returns the records of the pieces in the order of their rows: in one batch if all have the same schema."""
    batches = [batch for _, batch in pieces]
    rows = np.concatenate([rows for rows, _ in pieces])
    if all(batch.schema.equals(batches[0].schema, check_metadata=True) for batch in batches[1:]):
        back = np.argsort(rows, kind="stable")
        return [pa.concat_batches(batches).take(pa.array(back))]
    which = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])[np.argsort(rows, kind="stable")]
    ends = [*(np.flatnonzero(np.diff(which)) + 1).tolist(), len(which)]
    found, begins, begin = [], [0] * len(batches), 0
    for end in ends:
        number = int(which[begin])
        found.append(batches[number].slice(begins[number], end - begin))
        begins[number] += end - begin
        begin = end
    return found
