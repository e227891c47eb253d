"""Limits of input. Every reader checks them, so that excessive input fails early, with a clear error.

Jackson, and so Kafka Connect, accepts JSON of 1,000 levels. heeler's limit is lower because code that processes the
values needs several nested calls for each level, and Python's stack is limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 100
JAVA_DEPTH = 1000
MAX_NUMBER_LENGTH = 1000  # of a number in JSON: Jackson's limit; Python's int() refuses more than 4,300 digits
MAX_NAME_LENGTH = 50_000  # bytes, of a field's name in JSON: Jackson's limit
MAX_TASKS = 10_000  # of one connector; more would take memory and time from all workers


def nests_deeper(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Returns whether objects and lists are nested more than `limit` levels deep. Does not recurse."""
    level = [value]
    for _ in range(limit + 1):
        inner = [item for item in level if isinstance(item, (Mapping, list, tuple))]
        if not inner:
            return False
        level = [item for many in inner for item in (many.values() if isinstance(many, Mapping) else many)]
    return True


def may_nest_deeper(text: str) -> bool:
    """Returns False only if the JSON text is nested at most MAX_DEPTH levels deep. Much faster than parsing it."""
    return text.count("[") + text.count("{") > MAX_DEPTH


def has_longer_name(value: Any) -> bool:
    """Returns whether a field of an object in `value` has a name of more than MAX_NAME_LENGTH bytes. Does not
    recurse.
    """
    level = [value]
    while level:
        objects = [item for item in level if isinstance(item, Mapping)]
        if any(len(name.encode(errors="replace")) > MAX_NAME_LENGTH for item in objects for name in item):
            return True
        lists = [item for item in level if isinstance(item, (list, tuple))]
        level = [item for many in (*lists, *(one.values() for one in objects)) for item in many]
    return False
