"""Reads what errors of plugins say about themselves. Their attributes and arguments may be anything, such as records
or proxies, so nothing is compared or made a text before its type is known, and none of their own methods is called.
"""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")


def attribute_of(thing: object, *path: str) -> Any:
    """Returns an attribute of an error or the like, of that attribute, and so on. None if there is none, or if a
    property of the plugin's class raises an error.
    """
    found: Any = thing
    try:
        for name in path:
            found = getattr(found, name, None)
    except Exception:  # noqa: BLE001
        return None
    return found


def is_a(thing: object, kind: type[T]) -> TypeGuard[T]:
    """Returns whether a thing is of a class. Unlike isinstance, it does not ask the thing's `__class__`."""
    return issubclass(type(thing), kind)


def text_of(thing: object) -> str:
    """Returns a str as a plain one, an empty one for anything else."""
    return str.__str__(thing) if is_a(thing, str) else ""


def number_of(thing: object) -> int:
    """Returns an int as a plain one, 0 for anything else."""
    return int.__int__(thing) if is_a(thing, int) else 0
