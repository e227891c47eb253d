"""Completes the future of a request to an actor."""

from __future__ import annotations

from typing import Any


def answer(reply: Any, value: Any = None, error: BaseException | None = None) -> None:
    """Completes `reply`, the future of an Ask, with a value or an error."""
    if error is None:
        reply.set(value)
    else:
        reply.set_exception((type(error), error, None))
