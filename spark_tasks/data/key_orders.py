"""The order of the keys of schemaless maps in a struct column.

Java's HashMap orders its keys by the size of its table, and so by how many keys the map has. In most columns the order
of the children fits all maps. If it does not, ORDERS_KEY in the metadata of the column's field has the orders of the
others, as JSON: each a list of names, for the maps that have these keys and no others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import ABSENT_KEY, Metadata, metadata_of, nulls_are_absent, struct_array

ORDERS_KEY = b"connect.orders"
Order = tuple[str, ...]
Array = np.ndarray[Any, Any]
_COUNTED: Final = 16  # children whose combinations are counted in an array


def orders_of(metadata: Metadata | None) -> Mapping[frozenset[str], Order]:
    """Returns the orders in a column's metadata, by the keys of the map."""
    text = (metadata or {}).get(ORDERS_KEY)
    return _parsed(text) if text else {}


@lru_cache(maxsize=100)
def _parsed(text: bytes) -> Mapping[frozenset[str], Order]:
    return {frozenset(names): tuple(names) for names in json.loads(text)}


def with_orders(metadata: Metadata, orders: Iterable[Order]) -> dict[bytes, bytes]:
    """Returns the metadata with these orders and no others."""
    own = {key: value for key, value in metadata.items() if key != ORDERS_KEY}
    listed = list(orders)
    return {**own, ORDERS_KEY: json.dumps(listed).encode()} if listed else own


def own_orders(names: Sequence[str], found: Iterable[Order]) -> list[Order]:
    """Returns those of the orders that `names`, the order of all keys, does not have. Of different orders of the same
    keys, the first one counts.
    """
    by_keys: dict[frozenset[str], Order] = {}
    for order in found:
        by_keys.setdefault(frozenset(order), order)
    return [order for keys, order in by_keys.items() if [name for name in names if name in keys] != list(order)]


def are_compatible(found: Iterable[Order]) -> bool:
    """Returns whether the same keys always have the same order."""
    orders = set(found)
    return len({frozenset(order) for order in orders}) == len(orders)


def alike(array: pa.StructArray) -> list[tuple[Order, Array]]:
    """Returns the rows of the maps of a column, without nulls, by the maps' keys, in the order of the children."""
    names = [field.name for field in array.type]
    codes, columns = _codes(array)
    if codes is None:
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        return [(tuple(names), rows)] if len(rows) else []
    if array.null_count:
        codes = np.where(array.is_valid().to_numpy(zero_copy_only=False), codes, -1)
    return [(tuple(name for name in names if name not in columns or code >> columns[name] & 1), rows)
            for code, rows in _rows_by_code(codes) if code >= 0]


def kinds_of_maps(array: pa.StructArray) -> list[Order]:
    """Returns the different keys of the maps of a column, each in the order of the column's children."""
    names = [field.name for field in array.type]
    codes, columns = _codes(array)
    if codes is None:
        return [tuple(names)]
    if array.null_count:
        codes = codes[array.is_valid().to_numpy(zero_copy_only=False)]
    if max(columns.values()) < _COUNTED:
        used = np.flatnonzero(np.bincount(codes)).tolist()
    else:
        used = [int(code) for code in np.unique(codes)]
    return [tuple(name for name in names if name not in columns or code >> columns[name] & 1) for code in used]


def _codes(array: pa.StructArray) -> tuple[Array | None, dict[str, int]]:
    """Returns for each map a number, whose bits show which keys it has, and the bit of each key that some lack. Keys
    that the same maps lack share a bit. Returns no numbers if no map lacks a key.
    """
    bits: dict[str, int] = {}
    present: dict[bytes, tuple[int, pa.Array]] = {}
    for field, child in zip(array.type, array.flatten(), strict=True):
        if child.null_count and nulls_are_absent(metadata_of(field)):
            bits[field.name], _ = present.setdefault(_validity(child), (len(present), child))
    if not bits:
        return None, {}
    codes: Array = np.zeros(len(array), np.int64 if len(present) < 63 else object)
    for bit, child in present.values():
        codes |= child.is_valid().to_numpy(zero_copy_only=False).astype(codes.dtype) << bit
    return codes, bits


def _validity(array: pa.Array) -> bytes:
    """Returns bytes that differ for arrays whose nulls are in different rows."""
    first, shift = divmod(array.offset, 8)
    bitmap = array.buffers()[0]
    if bitmap is None:  # all are null
        return b""
    return b"".join((bytes([shift]), bitmap[first : first + (shift + len(array) + 7) // 8]))


def _rows_by_code(codes: Array) -> list[tuple[int, Array]]:
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(codes[order][1:] != codes[order][:-1]) + 1
    return [(int(codes[rows[0]]), rows) for rows in np.split(order, ends) if len(rows)]


def with_keys(array: pa.StructArray, rows: Array, names: Sequence[str]) -> pa.StructArray:
    """Returns the maps in `rows`, which have these keys and no others, with the keys in this order. Nulls of the
    children remain as they are, but mean null.
    """
    children = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    index = pa.array(rows)
    fields, columns = [], []
    for name in names:
        field = array.type.field(name)
        kept = {key: value for key, value in metadata_of(field).items() if key != ABSENT_KEY}
        fields.append(field.with_metadata(kept or None))
        columns.append(children[name].take(index))
    return struct_array(columns, fields, len(rows), None)


def each_order(
    array: pa.StructArray, metadata: Metadata | None, write: Callable[[pa.StructArray], pa.Array]
) -> pa.Array:
    """Returns what `write` makes of the maps: texts with the keys in the order of the children. Maps with another order
    are written by themselves.
    """
    orders = orders_of(metadata)
    if not orders:
        return write(array)
    others = np.ones(len(array), np.bool_)
    texts, places = [], []
    for names, rows in alike(array):
        order = orders.get(frozenset(names))
        if order is not None:
            others[rows] = False
            texts.append(write(with_keys(array, rows, order)))
            places.append(rows)
    places.append(np.flatnonzero(others))
    texts.append(write(array.take(pa.array(places[-1]))))
    back = np.empty(len(array), np.int64)
    back[np.concatenate(places)] = np.arange(len(array))
    return pa.concat_arrays(texts).take(pa.array(back))
