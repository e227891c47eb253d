"""The largest record that is read. A module of its own, since the codec beside it takes long to import."""

from __future__ import annotations

from typing import Final

MAX_RECORD_KEY: Final = "heeler.max.record.bytes"
DEFAULT_MAX_RECORD_BYTES: Final = 256 * 1024 * 1024
LARGEST_MAX_RECORD_BYTES: Final = 2_000_000_000
"""An Arrow column of text or bytes ends a little later, at 2^31 - 1, as an array in Java does."""
