"""The compressed part of a record batch: all records of the batch as one block, by the codec in its attributes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import cramjam

from spark_tasks.records.errors import UnsupportedFormatError

Bytes = bytes | memoryview

CODECS: Final = {None: 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's `compression.type` to the number in a batch's attributes."""

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_LENGTH = struct.Struct(">i")

# Kafka's LZ4 reader wants independent blocks, which libraries do not write by default: version 1, independent blocks,
# no checksums, 64 KiB blocks, and the checksum of these two bytes.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_PLAIN = 0x80000000
_LZ4_LENGTH = struct.Struct("<I")


def codec_number(name: str | None) -> int:
    """The codec's number in a batch's attributes. Raises UnsupportedFormatError for a name that Kafka has not."""
    try:
        return CODECS[name]
    except KeyError:
        known = ", ".join(str(codec) for codec in CODECS if codec)
        raise UnsupportedFormatError(f"compression {name!r} is none of {known}") from None


def compress(codec: int, data: Bytes) -> bytes:
    """The records' bytes as a batch holds them."""
    return _COMPRESS[codec](data)


def decompress(codec: int, data: Bytes) -> bytes:
    """Undo `compress`. Raises UnsupportedFormatError for an unknown codec, DecompressError for damaged data."""
    function = _DECOMPRESS.get(codec)
    if function is None:
        raise UnsupportedFormatError(f"records compressed by codec {codec}, which does not exist")
    try:
        return function(data)
    except (cramjam.DecompressionError, ValueError, OSError, OverflowError, MemoryError) as error:
        raise DecompressError(str(error)) from error


class DecompressError(ValueError):
    """The block is no valid output of its codec."""


def _snappy_compress(data: Bytes) -> bytes:
    """Xerial's framing (what snappy-java writes): a header, then blocks with their length before them."""
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _lz4_compress(data: Bytes) -> bytes:
    view = memoryview(data)
    parts = [_LZ4_HEADER]
    for at in range(0, len(view), _LZ4_BLOCK):
        plain = view[at : at + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_LENGTH.pack(len(plain) | _LZ4_PLAIN), bytes(plain))
    parts.append(_LZ4_LENGTH.pack(0))
    return b"".join(parts)


def _snappy_decompress(data: Bytes) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_HEADER[:8]:  # librdkafka and others write one plain block
        return bytes(cramjam.snappy.decompress_raw(view))
    parts, at = [], len(_XERIAL_HEADER)
    while at < len(view):
        if len(view) - at < _LENGTH.size:
            raise DecompressError("a snappy block's length is cut off")
        (size,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if not 0 <= size <= len(view) - at:
            raise DecompressError(f"a snappy block of {size} bytes in {len(view) - at}")
        parts.append(bytes(cramjam.snappy.decompress_raw(view[at : at + size])))
        at += size
    return b"".join(parts)


_COMPRESS: dict[int, Callable[[Bytes], bytes]] = {
    1: lambda data: bytes(cramjam.gzip.compress(data, level=6)),
    2: _snappy_compress,
    3: _lz4_compress,
    4: lambda data: bytes(cramjam.zstd.compress(data, level=3)),
}
_DECOMPRESS: dict[int, Callable[[Bytes], bytes]] = {
    1: lambda data: bytes(cramjam.gzip.decompress(data)),
    2: _snappy_decompress,
    3: lambda data: bytes(cramjam.lz4.decompress(data)),
    4: lambda data: bytes(cramjam.zstd.decompress(data)),
}
