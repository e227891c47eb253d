"""Sets of offsets as runs, and their form in the metadata of a consumer group's offset. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

MAX_METADATA: Final = 4096
"""Characters of metadata: Kafka's default offset.metadata.max.bytes."""
_MAX_BYTES: Final = 1 << 20  # of decompressed data, which anybody could have committed to Kafka
_MAX_BITS: Final = 70  # of a number, in groups of seven
_MAX_OFFSET: Final = 2**63 - 1

Run = tuple[int, int]
"""The first offset, and the end (exclusive)."""


def merged(runs: Iterable[Run]) -> Iterator[Run]:
    """Yields sorted runs, those that touch or overlap as one."""
    before: Run | None = None
    for first, end in runs:
        if before is not None and first <= before[1]:
            before = before[0], max(before[1], end)
            continue
        if before is not None:
            yield before
        before = first, end
    if before is not None:
        yield before


def packed(runs: Iterable[Run], start: int = 0) -> bytes:
    """Returns runs above `start`, which are sorted and do not overlap, as compressed data that `unpacked` reads: for
    each run, the distance from the end of the one before, and the length.
    """
    data, before = bytearray(), start
    for first, end in runs:
        data += _varint(first - before) + _varint(end - first)
        before = end
    return zlib.compress(bytes(data), 9)


def unpacked(data: bytes, start: int = 0) -> list[Run]:
    """Returns the runs. Raises ValueError if `packed` has not written the data."""
    reader = zlib.decompressobj()
    try:
        numbers = list(_numbers(reader.decompress(data, _MAX_BYTES)))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not reader.eof:
        raise ValueError("the data is incomplete or too large")
    runs, end = list[Run](), start
    for gap, length in zip(numbers[::2], numbers[1::2], strict=False):
        runs.append((end + gap, end + gap + length))
        end += gap + length
    if end > _MAX_OFFSET:
        raise ValueError("an offset has more than 63 bits")
    return runs


def _varint(number: int) -> bytes:
    """Seven bits in each byte, the lowest first; the highest bit means that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MAX_BITS:
            raise ValueError(f"a number has more than {_MAX_BITS} bits")
        if not byte & 0x80:
            yield number
            number = shift = 0
