"""Memory access for kernels: copies, and eight bytes at once. Nothing is checked: kernels stay within their arrays.

A word is a uint64 that stands for eight bytes; the one at the lowest address is the lowest one, as on all machines that
Arrow's wheels are built for.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spark_tasks.arrays.jit import inlined, intrinsic

SLACK: Final = 16
"""The number of bytes that copy_short always copies."""
WORD: Final = 8
"""The number of bytes of a word."""
ONES: Final = np.uint64(0x0101010101010101)
"""A word whose bytes are 1; times n, all of them are n."""
HIGH_BITS: Final = np.uint64(128) * ONES
_LOW_BITS: Final = ~HIGH_BITS
_7, _56 = np.uint64(7), np.uint64(56)


@intrinsic
def copy_bytes(_context: Any, target: Any, _target_at: Any, source: Any, _source_at: Any, _count: Any) -> Any:
    """A memcpy between uint8 arrays."""
    from numba.core import types  # noqa: PLC0415 - see jit.py

    return types.none(target, types.int64, source, types.int64, types.int64), _copy


@intrinsic
def copy_short(_context: Any, target: Any, _target_at: Any, source: Any, _source_at: Any) -> Any:
    """Copies up to SLACK bytes in a fraction of the time of a memcpy: SLACK bytes are copied, so both arrays must have
    as many there, and the bytes after the wanted ones in `target` have to be overwritten afterwards.
    """
    from numba.core import types  # noqa: PLC0415 - see jit.py

    return types.none(target, types.int64, source, types.int64), _copy


@intrinsic
def load_word(_context: Any, source: Any, _at: Any) -> Any:
    """The WORD bytes of a uint8 array from an index on, as uint64."""
    from numba.core import types  # noqa: PLC0415 - see jit.py

    return types.uint64(source, types.int64), _load


@intrinsic
def store_word(_context: Any, target: Any, _at: Any, _word: Any) -> Any:
    """Writes the WORD bytes of a uint64 into a uint8 array."""
    from numba.core import types  # noqa: PLC0415 - see jit.py

    return types.none(target, types.int64, types.uint64), _store


@intrinsic
def first_byte(_context: Any, _word: Any) -> Any:
    """The index of a word's first non-zero byte, or WORD if there is none."""
    from numba.core import types  # noqa: PLC0415 - see jit.py

    return types.int64(types.uint64), _first


@inlined
def copy_text(target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> None:
    """Copies `size` bytes, SLACK at once. `target` must have SLACK more bytes behind them, which may change."""
    if source_at + size + SLACK <= len(source):
        for i in range(0, size, SLACK):
            copy_short(target, np.int64(target_at + i), source, np.int64(source_at + i))
    else:
        for i in range(size):
            target[target_at + i] = source[source_at + i]


@inlined
def zero_bytes(word: Any) -> Any:
    """Returns a word in which the high bit of each byte that is zero in `word` is set."""
    return ~((word & _LOW_BITS) + _LOW_BITS | word) & HIGH_BITS


@inlined
def count_bytes(high_bits: Any) -> Any:
    """Returns the number of high bits that are set, as uint64; no other bit may be."""
    return ((high_bits >> _7) * ONES) >> _56


def _copy(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from numba.core import cgutils, types  # noqa: PLC0415 - see jit.py

    into, into_at, source, source_at, *count = arguments
    target_pointer = _pointer(context, builder, signature.args[0], into, into_at)
    source_pointer = _pointer(context, builder, signature.args[2], source, source_at)
    size = count[0] if count else context.get_constant(types.int64, SLACK)
    cgutils.raw_memcpy(builder, target_pointer, source_pointer, size, 1)
    return context.get_dummy_value()


def _load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    source, at = arguments
    return builder.load(_word_pointer(context, builder, signature.args[0], source, at), align=1)


def _store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    target, at, word = arguments
    builder.store(word, _word_pointer(context, builder, signature.args[0], target, at), align=1)
    return context.get_dummy_value()


def _first(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    from numba.core import cgutils, types  # noqa: PLC0415 - see jit.py

    zeros = builder.cttz(arguments[0], cgutils.false_bit)  # 64 for zero
    return builder.lshr(zeros, context.get_constant(types.int64, 3))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [at])


def _word_pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    from numba.core import types  # noqa: PLC0415 - see jit.py

    word = context.get_value_type(types.uint64)
    return builder.bitcast(_pointer(context, builder, array_type, array, at), word.as_pointer())
