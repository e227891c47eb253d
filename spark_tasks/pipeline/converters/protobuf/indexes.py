"""Reads and writes message indexes, which are between schema id and payload and identify the record's message in its
file. An index is a list of positions, one for each level of nested messages, as zigzag varints after their number. The
index of the first message is one 0 byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.errors import DataError
from spark_tasks.limits import MAX_DEPTH
from spark_tasks.pipeline.converters.base import BadRowsError

FIRST = (0,)


@dataclass(frozen=True, slots=True)
class Indexed:
    """Payloads with their message indexes. `codes`: for each row the position of its index in `indexes`. `payloads`:
    without the indexes, binary.
    """

    indexes: list[tuple[int, ...]]
    codes: np.ndarray[Any, Any]
    payloads: pa.Array


def written(index: tuple[int, ...]) -> bytes:
    """Returns the bytes of an index."""
    return b"\0" if index == FIRST else b"".join(map(_varint, (len(index), *index)))


def read(payloads: list[bytes], skip: int) -> Indexed:
    """Reads the indexes. `skip`: the bytes before each. Raises BadRowsError with all invalid indexes."""
    array = pa.array(payloads, pa.binary())
    if _all_first(array, skip):
        return Indexed([FIRST], np.zeros(len(array), np.int64), pc.binary_replace_slice(array, 0, skip + 1, b""))
    known: dict[tuple[int, ...], int] = {}
    codes, others = [], []
    bad: list[tuple[int, Exception]] = []
    for row, payload in enumerate(payloads):
        try:
            index, end = _index(payload, skip)
        except ValueError as error:
            bad.append((row, DataError(f"Error deserializing Protobuf message: {error}")))
            continue
        codes.append(known.setdefault(index, len(known)))
        others.append(payload[end:])
    if bad:
        raise BadRowsError(bad)
    return Indexed(list(known), np.array(codes, np.int64), pa.array(others, pa.binary()))


def _all_first(array: pa.Array, skip: int) -> bool:
    """Returns whether the byte after `skip` bytes is 0 in all payloads."""
    if not len(array):
        return False
    offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1]
    if (np.diff(offsets) <= skip).any():
        return False
    return not np.frombuffer(array.buffers()[2], np.uint8)[offsets[:-1] + skip].any()


def _index(payload: bytes, begin: int) -> tuple[tuple[int, ...], int]:
    """Returns the index and the position after it. Raises ValueError."""
    count, at = _number(payload, begin)
    if count == 0:
        return FIRST, at
    if not 0 < count <= MAX_DEPTH:
        raise ValueError(f"a message index of {count} numbers")
    numbers = []
    for _ in range(count):
        number, at = _number(payload, at)
        numbers.append(number)
    return tuple(numbers), at


def _number(payload: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(payload):
            raise ValueError("the record ends within the message index")
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a number of the message index has more than 5 bytes")


def _varint(number: int) -> bytes:
    value, out = (number << 1) ^ (number >> 31), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
