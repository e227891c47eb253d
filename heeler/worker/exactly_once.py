"""Whether source tasks of a worker may write records and offsets in one transaction (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Self

EXACTLY_ONCE: Final = "exactly.once.source.support"


class ExactlyOnce(Enum):
    """The values of exactly.once.source.support. PREPARING: the leader writes the config topic in transactions, tasks
    do not write in any yet.
    """

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Reads the parsed settings of a worker."""
        return cls(values[EXACTLY_ONCE].lower())
