"""Matches Java's regular expressions in limited time: nested repetitions may take longer than the universe exists."""

from __future__ import annotations

import re
from typing import Any, Final

_MATCH_S: Final = 0.1
TOO_SLOW: Final = "takes too long to match; simplify it (nested repetitions such as (a+)+ are slow)"
"""What an error says about a pattern for which `matches` raises TimeoutError."""


def matches(pattern: re.Pattern[str], text: str) -> bool:
    """Returns whether a pattern of `compile_java` matches the whole text, which must be short: raises TimeoutError
    after a tenth of a second, in which other threads wait.
    """
    slow: Any = pattern  # of the library `regex`, whose methods have timeouts
    return slow.fullmatch(text, timeout=_MATCH_S) is not None
