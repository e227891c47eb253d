"""Finds the bytes that are special in JSON strings, eight at once. For kernels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spark_tasks.arrays.jit import inlined
from spark_tasks.arrays.memory import ONES, zero_bytes

QUOTE: Final = 34
BACKSLASH: Final = 92
_QUOTES: Final = np.uint64(QUOTE) * ONES
_BACKSLASHES: Final = np.uint64(BACKSLASH) * ONES
_NOT_CONTROL: Final = np.uint64(0b11100000) * ONES  # bits that are all clear in control characters


@inlined
def specials(word: Any) -> Any:
    """Returns the high bit of each quote, backslash and control character."""
    return zero_bytes(word ^ _QUOTES) | zero_bytes(word ^ _BACKSLASHES) | zero_bytes(word & _NOT_CONTROL)


@inlined
def backslashes(word: Any) -> Any:
    """Returns the high bit of each backslash."""
    return zero_bytes(word ^ _BACKSLASHES)
