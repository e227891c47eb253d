"""Compresses and decompresses the records of a batch. The batch's attributes have the number of the codec."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import cramjam
import pyarrow as pa

from spark_tasks.kafka.records.errors import UnsupportedFormatError

Bytes = bytes | memoryview

CODECS: Final = {None: 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's `compression.type` -> the number in a batch's attributes."""

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_LENGTH = struct.Struct(">i")
_SNAPPY_RATIO = 22  # an element of three bytes expands to at most 64

# Kafka's LZ4 reader requires independent blocks, which libraries do not write by default. This frame header says:
# version 1, independent blocks, no checksums, 64 KiB blocks; the last byte is the checksum of the two before it.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_PLAIN = 0x80000000
_LZ4_LENGTH = struct.Struct("<I")

_PART = 1024 * 1024


def codec_number(name: str | None) -> int:
    """Returns the codec's number in a batch's attributes. Raises UnsupportedFormatError for an unknown name."""
    try:
        return CODECS[name]
    except KeyError:
        known = ", ".join(str(codec) for codec in CODECS if codec)
        raise UnsupportedFormatError(f"compression {name!r} is not one of {known}") from None


def compress(codec: int, data: Bytes) -> bytes:
    """Compresses the bytes of the records. `codec`: its number."""
    return _COMPRESS[codec](data)


def decompress_into(codec: int, data: Bytes, out: memoryview) -> int | None:
    """Decompresses all of `data` into the start of `out`, and returns the number of bytes. May overwrite the bytes
    after them. Returns None if `out` is too small or `data` is damaged; `Decompressor` distinguishes the two. Raises
    UnsupportedFormatError for an unknown codec.
    """
    function = _INTO.get(codec)
    if function is None:
        raise UnsupportedFormatError(f"records use the unknown compression codec {codec}")
    try:
        return function(data, out)
    except _FAILURES:
        return None


def decompress(codec: int, data: Bytes, max_bytes: int) -> bytes:
    """Decompresses all of `data`. Raises DecompressError, also if the result exceeds `max_bytes` (never holding more
    than that in memory), and UnsupportedFormatError.
    """
    source = Decompressor(codec, data, max_bytes)
    parts, total = [], 0
    while True:
        part = bytearray(min(_PART, max_bytes + 1 - total))
        size = source.read_into(memoryview(part))
        total += size
        if total > max_bytes:
            raise DecompressError(
                f"more than the allowed {max_bytes} bytes when decompressed (compressed: {len(data)})")
        parts.append(part[:size])
        if size < len(part):
            return b"".join(parts)


class DecompressError(ValueError):
    """The block is not valid for its codec, or decompresses to more bytes than allowed."""


class BlockTooLargeError(DecompressError):
    """A snappy block, which can only be decompressed as a whole, is too large. `size`: decompressed, in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a snappy block has {size} bytes uncompressed; the limit is {limit}")
        self.size = size


class Decompressor:
    """Decompresses incrementally, so that the reader decides how much of a large result is in memory. In addition, zstd
    and lz4 keep a window (at most 128 MiB and 4 MiB), and snappy keeps one block (at most `max_bytes`, otherwise
    `read_into` raises BlockTooLargeError). Raises UnsupportedFormatError for an unknown codec.
    """

    def __init__(self, codec: int, data: Bytes, max_bytes: int) -> None:
        make = _STREAMS.get(codec)
        if make is None:
            raise UnsupportedFormatError(f"records use the unknown compression codec {codec}")
        self._stream = make(data, max_bytes)

    def read_into(self, out: memoryview) -> int:
        """Fills `out`, and returns the number of bytes, which is smaller only at the end. Raises DecompressError."""
        at = 0
        try:
            while at < len(out) and (size := self._stream.readinto(out[at:])):
                at += size
        except DecompressError:
            raise
        except _FAILURES as error:
            raise DecompressError(str(error)) from error
        return at


def _snappy_compress(data: Bytes) -> bytes:
    """Compresses in Xerial's framing, as snappy-java does: a header, then blocks, each preceded by its length."""
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


class _Stream(Protocol):
    def readinto(self, out: memoryview, /) -> int:
        """Reads at most `len(out)` bytes and returns their number, 0 at the end."""


class _Snappy:
    """A _Stream over the blocks of snappy data."""

    def __init__(self, data: Bytes, max_bytes: int) -> None:
        self._blocks = snappy_blocks(memoryview(data))
        self._max_bytes = max_bytes
        self._block = memoryview(b"")

    def readinto(self, out: memoryview) -> int:
        while not self._block:
            found = next(self._blocks, None)
            if found is None:
                return 0
            block, size = found
            if size > self._max_bytes:
                raise BlockTooLargeError(size, self._max_bytes)
            self._block = memoryview(cramjam.snappy.decompress_raw(block))
        size = min(len(out), len(self._block))
        out[:size] = self._block[:size]
        self._block = self._block[size:]
        return size


def snappy_blocks(view: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Yields each block and its decompressed size, after a check that the block can contain so many bytes. Raises
    DecompressError.
    """
    if bytes(view[:8]) != _XERIAL_HEADER[:8]:  # librdkafka and other clients write one block without framing
        yield view, _snappy_size(view)
        return
    at = len(_XERIAL_HEADER)
    while at < len(view):
        if len(view) - at < _LENGTH.size:
            raise DecompressError("the length of a snappy block is truncated")
        (size,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if not 0 <= size <= len(view) - at:
            raise DecompressError(f"a snappy block of {size} bytes, of which only {len(view) - at} are present")
        block = view[at : at + size]
        yield block, _snappy_size(block)
        at += size


def _snappy_size(block: memoryview) -> int:
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except _FAILURES as error:
        raise DecompressError(str(error)) from error
    if size > len(block) * _SNAPPY_RATIO:
        raise DecompressError(f"a snappy block of {len(block)} bytes that claims to hold {size}")
    return size


def _snappy_into(data: Bytes, out: memoryview) -> int | None:
    at = 0
    for block, size in snappy_blocks(memoryview(data)):
        if size > len(out) - at:
            return None
        if size:
            at += cramjam.snappy.decompress_raw_into(block, out[at : at + size])
    return at


def _plain_into(data: Bytes, out: memoryview) -> int | None:
    if len(data) > len(out):
        return None
    out[: len(data)] = data
    return len(data)


def _arrow_stream(name: str) -> Callable[[Bytes, int], _Stream]:
    return lambda data, _max_bytes: pa.CompressedInputStream(pa.BufferReader(data), name)


_FAILURES = (cramjam.DecompressionError, ValueError, OSError, OverflowError)

_COMPRESS: dict[int, Callable[[Bytes], bytes]] = {
    1: lambda data: bytes(cramjam.gzip.compress(data, level=6)),
    2: _snappy_compress,
    3: _lz4_compress,
    4: lambda data: bytes(cramjam.zstd.compress(data, level=3)),
}
_INTO: dict[int, Callable[[Bytes, memoryview], int | None]] = {
    0: _plain_into,
    1: cramjam.gzip.decompress_into,
    2: _snappy_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}
_STREAMS: dict[int, Callable[[Bytes, int], _Stream]] = {
    0: lambda data, _max_bytes: pa.BufferReader(data),
    1: _arrow_stream("gzip"),
    2: _Snappy,
    3: _arrow_stream("lz4"),
    4: _arrow_stream("zstd"),
}
