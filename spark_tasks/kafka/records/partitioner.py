"""Java's built-in partitioner (KIP-480, KIP-794): murmur2 for records with a key, sticky for those without."""

from __future__ import annotations

import secrets
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import frozen
from spark_tasks.arrays.jit import inlined, kernel
from spark_tasks.kafka.records.flat import binary_column

Array = np.ndarray[Any, Any]

STICKY_BYTES: Final = 16_384
"""Java's default `batch.size`: the bytes of records without a key that go to a partition before another is chosen."""

_RECORD_OVERHEAD = 10  # the approximate size of a record without key and value, in bytes


@inlined
def _murmur2(data: Any, at: Any, size: Any) -> Any:
    """Austin Appleby's murmur2 (public domain) with the seed of Kafka's clients."""
    multiplier = np.uint32(0x5BD1E995)
    hashed = np.uint32(0x9747B28C) ^ np.uint32(size)
    end = at + (size & ~3)
    while at < end:
        word = np.uint32(data[at]) | np.uint32(data[at + 1]) << np.uint32(8)
        word |= np.uint32(data[at + 2]) << np.uint32(16) | np.uint32(data[at + 3]) << np.uint32(24)
        word = np.uint32(word * multiplier)
        word ^= word >> np.uint32(24)
        word = np.uint32(word * multiplier)
        hashed = np.uint32(hashed * multiplier) ^ word
        at += 4
    left = size & 3
    if left >= 3:
        hashed ^= np.uint32(data[at + 2]) << np.uint32(16)
    if left >= 2:
        hashed ^= np.uint32(data[at + 1]) << np.uint32(8)
    if left >= 1:
        hashed = np.uint32(np.uint32(hashed ^ np.uint32(data[at])) * multiplier)
    hashed ^= hashed >> np.uint32(13)
    hashed = np.uint32(hashed * multiplier)
    return hashed ^ (hashed >> np.uint32(15))


@kernel
def assign_rows(
    keys: Any, values: Any, partitions: int, available: Any, sticky_bytes: int, state: Any, out: Any
) -> None:
    """Fills the negative entries of `out`. `state`: the sticky partition (-1: none), its bytes so far, the random
    state.
    """
    key_ends, key_data, key_valid, key_base = keys
    value_ends, _, _, _ = values
    for row in range(out.shape[0]):
        if out[row] >= 0:
            continue
        bit = row + key_base
        key_at = np.int64(key_ends[row])
        key_size = np.int64(key_ends[row + 1]) - key_at
        if key_valid.shape[0] == 0 or (key_valid[bit >> 3] >> (bit & 7)) & 1:
            out[row] = np.int64(_murmur2(key_data, key_at, key_size) & np.uint32(0x7FFFFFFF)) % partitions
            continue
        if state[0] < 0 or state[1] >= sticky_bytes:
            state[2] ^= state[2] << 13
            state[2] ^= (state[2] >> 7) & 0x01FFFFFFFFFFFFFF
            state[2] ^= state[2] << 17
            state[0] = available[(state[2] & 0x7FFFFFFFFFFFFFFF) % available.shape[0]]
            state[1] = 0
        out[row] = state[0]
        state[1] += np.int64(value_ends[row + 1]) - np.int64(value_ends[row]) + _RECORD_OVERHEAD


class Partitioner:
    """The partitioner of one topic. Keeps the sticky partition from one batch to the next. Not thread-safe."""

    def __init__(self, partitions: int, seed: int | None = None, sticky_bytes: int = STICKY_BYTES) -> None:
        self.partitions = partitions
        self._sticky_bytes = sticky_bytes
        seed = secrets.randbits(62) if seed is None else seed
        self._state: Array = np.array([-1, 0, seed | 1], np.int64)

    def assign(self, raw: pa.RecordBatch, chosen: Array | None = None, available: Array | None = None) -> Array:
        """Returns each row's partition (int32). `chosen`: the partitions of rows that already have one, -1 for the
        others. `available`: partitions with a leader, for records without a key. A record with a key always goes to the
        partition of its key.
        """
        rows = len(raw)
        out: Array = np.full(rows, -1, np.int32) if chosen is None else chosen.astype(np.int32)
        if available is None or len(available) == 0:
            available = np.arange(self.partitions, dtype=np.int32)
        elif self._state[0] not in available:
            self._state[0] = -1
        if rows:
            keys, values = binary_column(raw.column("key")), binary_column(raw.column("value"))
            drawn = frozen(available.astype(np.int32))
            assign_rows(keys, values, self.partitions, drawn, self._sticky_bytes, self._state, out)
        return out


def rows_by_partition(partitions: Array) -> list[tuple[int, Array]]:
    """Returns (partition, its rows in order) for each partition that occurs."""
    if len(partitions) == 0:
        return []
    # numpy sorts 16-bit numbers with a radix sort, which is stable and several times faster.
    small = partitions.astype(np.int16) if partitions.max() < 2**15 else partitions
    order = np.argsort(small, kind="stable").astype(np.int64)
    placed = partitions[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(placed)) + 1))
    return list(zip(placed[starts].tolist(), np.split(order, starts[1:]), strict=True))
