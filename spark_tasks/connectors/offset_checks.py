"""Checks of source offsets that a user wants to set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_tasks.errors import ConnectError


def check_count(offset: Mapping[str, Any], key: str) -> None:
    """Raises ConnectError unless the offset's value for `key` is an integer of at least 0."""
    value = offset.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConnectError(f"The value for the '{key}' key in the offset should be a non-negative number")
