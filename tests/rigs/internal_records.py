"""Shorthand for records of internal topics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from storage.log.record import KeyValue, LogRecord


def log_of(pairs: Iterable[KeyValue], first: int = 0) -> list[LogRecord]:
    """The records in one partition, offsets from `first` on."""
    return [LogRecord(0, first + n, first + n, key, value) for n, (key, value) in enumerate(pairs)]


def raw(key: str, value: Any) -> KeyValue:
    """A key and, unless it is bytes or None, a value as JSON."""
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return key.encode(), data
