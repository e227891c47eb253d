"""What may be large and not absurd: it ends in a clear error where it comes in, and nowhere later.

JSON: Kafka Connect's limit is 1,000 levels (Jackson's). Here every reader has the same, lower one, so that no code
behind it, which takes several calls a level, can run out of Python's stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 100
JAVA_DEPTH = 1000
MAX_TASKS = 10_000  # of one connector; whoever asks for more has memory and time of all workers in mind


def nests_deeper(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether objects and lists within each other are more than `limit`; without recursion."""
    level = [value]
    for _ in range(limit + 1):
        inner = [one for one in level if isinstance(one, (Mapping, list, tuple))]
        if not inner:
            return False
        level = [one for many in inner for one in (many.values() if isinstance(many, Mapping) else many)]
    return True


def may_nest_deeper(text: str, limit: int = MAX_DEPTH) -> bool:
    """Whether it is worth while to look: quick, and never wrongly False for a JSON text."""
    return text.count("[") + text.count("{") > limit
