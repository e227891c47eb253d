"""The nine types of configuration values: parses strings to Python values, and formats values as strings for REST."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from typing_extensions import override

from spark_tasks.errors import ConfigError
from spark_tasks.java.double import java_double

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(([0-9]++\.?[0-9]*+|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?)")


class Type(Enum):
    """The type of a key's value. The names are Kafka's and appear in REST responses."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"  # 32 bits
    SHORT = "SHORT"  # 16 bits
    LONG = "LONG"  # 64 bits
    DOUBLE = "DOUBLE"
    LIST = "LIST"  # separated by commas; an empty string is an empty list
    CLASS = "CLASS"  # a plugin's name, which stays a string: only the plugin registry can resolve it
    PASSWORD = "PASSWORD"  # noqa: S105  (the name of a type)


@dataclass(frozen=True, slots=True)
class Password:
    """A secret `value`, whose str and repr are `[hidden]`."""

    value: str

    @override
    def __str__(self) -> str:
        return "[hidden]"

    @override
    def __repr__(self) -> str:
        return "[hidden]"


def shown(value: Any) -> str:
    """Formats a value as Kafka's messages do: null, true, 1.0E7, [a, b]."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case list() | tuple():
            return "[" + ", ".join(shown(v) for v in value) + "]"
        case type():
            return f"{value.__module__}.{value.__qualname__}"
        case _:
            return str(value)


def invalid(name: str, value: Any, message: str | None = None) -> ConfigError:
    """Returns the error for an invalid value. `message`: what is allowed."""
    return ConfigError(f"Invalid value {shown(value)} for configuration {name}" + (f": {message}" if message else ""))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"Expected value to be a string, but it was a {type(value).__name__}")
    return value.strip()


def _password(value: Any) -> Password:
    return value if isinstance(value, Password) else Password(_text(value))


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        raise TypeError("Expected value to be either true or false")
    return known


def _integer(kind: Type, bits: int) -> Callable[[Any], int]:
    limit = 1 << (bits - 1)

    def parse(value: Any) -> int:
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            with suppress(ValueError):  # more digits than Python reads
                value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
            return value
        raise TypeError(f"Not a number of type {kind.value}")

    return parse


def _double(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _DOUBLE.fullmatch(value.strip()):
        return float(value.strip().rstrip("fFdD"))
    raise TypeError("Not a number of type DOUBLE")


def _list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str):
        raise TypeError("Expected a comma separated list.")
    return [part.strip() for part in value.split(",")] if value.strip() else []


def _class(value: Any) -> str:
    if isinstance(value, type):
        return shown(value)
    if not isinstance(value, str):
        raise TypeError("Expected a Class instance or class name.")
    return value.strip()


# Each trims a text and parses it, takes a value of the type as it is, and raises TypeError with Kafka's message.
_PARSERS: Mapping[Type, Callable[[Any], Any]] = {
    Type.BOOLEAN: _boolean,
    Type.STRING: _text,
    Type.INT: _integer(Type.INT, 32),
    Type.SHORT: _integer(Type.SHORT, 16),
    Type.LONG: _integer(Type.LONG, 64),
    Type.DOUBLE: _double,
    Type.LIST: _list,
    Type.CLASS: _class,
    Type.PASSWORD: _password,
}


def parse_type(name: str, value: Any, kind: Type) -> Any:
    """Parses a raw value; None stays None. Raises ConfigError."""
    if value is None:
        return None
    try:
        return _PARSERS[kind](value)
    except TypeError as error:
        raise invalid(name, value, str(error)) from None


def to_text(value: Any, kind: Type) -> str | None:
    """Formats a parsed value: joins lists with commas, hides passwords. None stays None."""
    if value is None:
        return None
    return ",".join(shown(one) for one in value) if kind is Type.LIST else shown(value)
