"""The limit on the size of records that sinks read. A separate module, because the codec takes long to import."""

from __future__ import annotations

from typing import Final

MAX_RECORD_KEY: Final = "heeler.max.record.bytes"
DEFAULT_MAX_RECORD_BYTES: Final = 256 * 1024 * 1024
LARGEST_MAX_RECORD_BYTES: Final = 2_000_000_000
"""A little less than 2^31 - 1 bytes, the limit of an Arrow string or binary column and of an array in Java."""
