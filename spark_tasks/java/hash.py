"""The iteration order of Java's HashMap, which shows in the output of FileStreamSink and in the order of the members
that JsonConverter writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from spark_tasks.arrays.buffers import frozen
from spark_tasks.arrays.jit import kernel as jit

_MAX_KEYS, _MAX_LENGTH, _MAX_KEY = 64, 4096, 128  # of what is cached: names are few and short, but keys may be data


@lru_cache(maxsize=10_000)
def string_hash(text: str) -> int:
    """Returns Java's String.hashCode as an unsigned 32-bit integer."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (value * 31 + units[i] + 256 * units[i + 1]) & 0xFFFFFFFF
    return value


def table_size(entries: int, capacity: int = 16) -> int:
    """Returns the number of buckets of a table of initially `capacity` buckets after `entries` single insertions."""
    while entries > capacity * 3 // 4:
        capacity *= 2
    return capacity


def capacity_for(wanted: int) -> int:
    """Returns the number of buckets of `new HashMap(wanted)`."""
    return 1 << max(wanted - 1, 0).bit_length() if wanted > 0 else 1


def copy_capacity(entries: int) -> int:
    """Returns the number of buckets of `new HashMap(map)` for a map of `entries` entries."""
    return capacity_for(int(entries / 0.75 + 1.0)) if entries else 16


def hash_order(keys: Iterable[str], capacity: int = 16) -> list[str]:
    """Returns the iteration order of a new table of `capacity` buckets into which `keys` are put in this order. Ignores
    tree bins, which need eight keys in one bucket of a table of 64.
    """
    names = tuple(keys)
    few = len(names) <= _MAX_KEYS and len("".join(names)) <= _MAX_LENGTH
    return list((_ordered if few else _ordered.__wrapped__)(names, capacity))


@lru_cache(maxsize=1000)
def _ordered(keys: tuple[str, ...], capacity: int) -> tuple[str, ...]:
    distinct = dict.fromkeys(keys)
    mask = table_size(len(distinct), capacity) - 1
    return tuple(sorted(distinct, key=lambda key: _spread(key) & mask))


def _spread(key: str) -> int:
    hashed = (string_hash if len(key) <= _MAX_KEY else string_hash.__wrapped__)(key)
    return hashed ^ (hashed >> 16)


def copied(keys: Sequence[str], *added: str) -> list[str]:
    """Returns the iteration order of `new HashMap(map)` after `added` keys are put into it. `keys`: of the map."""
    return hash_order([*keys, *added], copy_capacity(len(keys)))


def entry_order(data: Any, ends: Any, offsets: Any) -> Any:
    """Returns the permutation (int32) that puts the entries of each of many maps with string keys into HashMap order.

    Key i is data[ends[i]:ends[i + 1]] (UTF-8). Map m has the entries offsets[m] to offsets[m + 1].
    """
    largest = int(np.max(np.diff(offsets), initial=0))
    order, buckets = np.empty(int(offsets[-1]), np.int32), np.empty(largest, np.int64)
    places = np.empty(table_size(largest), np.int64)
    _entry_order(frozen(data), frozen(ends), frozen(offsets), buckets, places, order)
    return order


@jit
def _entry_order(data: Any, ends: Any, offsets: Any, buckets: Any, places: Any, out: Any) -> None:
    """Fills `out`. `buckets` has space for the entries of the largest map, `places` for its table."""
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1]
        size = 16
        while (last - first) * 4 > size * 3:
            size *= 2
        places[:size] = 0
        for i in range(first, last):
            h = _hash(data, ends[i], ends[i + 1])
            bucket = np.int64((h ^ (h >> np.uint32(16))) & np.uint32(size - 1))
            buckets[i - first] = bucket
            places[bucket] += 1
        place = first
        for each in range(size):
            count = places[each]
            places[each] = place
            place += count
        for i in range(first, last):  # entries of a bucket keep the order of insertion
            bucket = buckets[i - first]
            out[places[bucket]] = i
            places[bucket] += 1


@jit
def _hash(data: Any, at: int, end: int) -> Any:
    """Returns String.hashCode of the UTF-8 bytes from `at` to `end`."""
    h = np.uint32(0)
    while at < end:
        c = np.uint32(data[at])
        if c < 0x80:
            at += 1
        elif c < 0xE0:
            c = np.uint32(((c & 31) << 6) | (data[at + 1] & 63))
            at += 2
        elif c < 0xF0:
            c = np.uint32(((c & 15) << 12) | ((data[at + 1] & 63) << 6) | (data[at + 2] & 63))
            at += 3
        else:
            c = np.uint32(((c & 7) << 18) | ((data[at + 1] & 63) << 12))
            c |= np.uint32(((data[at + 2] & 63) << 6) | (data[at + 3] & 63))
            c -= np.uint32(0x10000)
            h = np.uint32(np.uint32(h * np.uint32(31)) + np.uint32(0xD800 + (c >> np.uint32(10))))
            c = np.uint32(0xDC00 + (c & np.uint32(0x3FF)))
            at += 4
        h = np.uint32(np.uint32(h * np.uint32(31)) + c)
    return h
