"""Numbers by which a message and its outcome find each other."""

from __future__ import annotations

from typing import NewType

OpId = NewType("OpId", int)
Epoch = NewType("Epoch", int)
RequestId = NewType("RequestId", int)
