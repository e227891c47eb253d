"""The rules for names of topics."""

from __future__ import annotations

import re
from typing import Final

_VALID: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid_topic(name: str) -> bool:
    """Returns whether brokers accept the name."""
    return _VALID.fullmatch(name) is not None and name not in (".", "..")
