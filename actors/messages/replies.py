"""Completing the future of whoever asked an actor."""

from __future__ import annotations

from typing import Any


def answer(reply: Any, value: Any = None, error: BaseException | None = None) -> None:
    """With a value or an error. `reply`: a Pykka future, or whatever an Ask carries."""
    if error is None:
        reply.set(value)
    else:
        reply.set_exception((type(error), error, None))
