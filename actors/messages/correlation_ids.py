"""Numbers that relate an outcome to its message."""

from __future__ import annotations

from typing import NewType

OpId = NewType("OpId", int)
Epoch = NewType("Epoch", int)
RequestId = NewType("RequestId", int)
