"""The nine types of configuration values: parses strings to Python values, and formats values as strings for REST."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from marshmallow import ValidationError, fields

from spark_tasks.errors import ConfigError
from spark_tasks.java.double import java_double

_COMMA = re.compile(r"\s*,\s*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?)")


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

    def __str__(self) -> str:
        return "[hidden]"

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


class _Field(fields.Field[Any]):
    """Parses a string after trimming it; accepts a value of the type as it is. Raises ValidationError with Kafka's
    message.
    """

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> str | None:  # noqa: ARG002
        return None if value is None else shown(value)


class _Text(_Field):
    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        if not isinstance(value, str):
            raise ValidationError(f"Expected value to be a string, but it was a {type(value).__name__}")
        return value.strip()


class _Secret(_Field):
    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        if isinstance(value, Password):
            return value
        if not isinstance(value, str):
            raise ValidationError(f"Expected value to be a string, but it was a {type(value).__name__}")
        return Password(value.strip())


class _Boolean(_Field):
    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        if isinstance(value, bool):
            return value
        known = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
        if known is not None:
            return known
        raise ValidationError("Expected value to be either true or false")


class _Integer(_Field):
    def __init__(self, kind: Type, bits: int) -> None:
        super().__init__(allow_none=True)
        self._kind = kind
        self._limit = 1 << (bits - 1)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and -self._limit <= value < self._limit:
            return value
        raise ValidationError(f"Not a number of type {self._kind.value}")


class _Double(_Field):
    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and _DOUBLE.fullmatch(value.strip()):
            return float(value.strip().rstrip("fFdD"))
        raise ValidationError("Not a number of type DOUBLE")


class _List(_Field):
    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        if isinstance(value, list | tuple):
            return list(value)
        if not isinstance(value, str):
            raise ValidationError("Expected a comma separated list.")
        return _COMMA.split(value.strip()) if value.strip() else []

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> str | None:  # noqa: ARG002
        return None if value is None else ",".join(shown(v) for v in value)


class _Class(_Field):
    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        if isinstance(value, type):
            return shown(value)
        if not isinstance(value, str):
            raise ValidationError("Expected a Class instance or class name.")
        return value.strip()


FIELDS: Mapping[Type, fields.Field[Any]] = {
    Type.BOOLEAN: _Boolean(allow_none=True),
    Type.STRING: _Text(allow_none=True),
    Type.INT: _Integer(Type.INT, 32),
    Type.SHORT: _Integer(Type.SHORT, 16),
    Type.LONG: _Integer(Type.LONG, 64),
    Type.DOUBLE: _Double(allow_none=True),
    Type.LIST: _List(allow_none=True),
    Type.CLASS: _Class(allow_none=True),
    Type.PASSWORD: _Secret(allow_none=True),
}


def parse_type(name: str, value: Any, kind: Type) -> Any:
    """Parses a raw value; None stays None. Raises ConfigError."""
    try:
        return FIELDS[kind].deserialize(value)
    except ValidationError as e:
        raise invalid(name, value, str(e.messages[0])) from None


def to_text(value: Any, kind: Type) -> str | None:
    """Formats a parsed value: joins lists with commas, hides passwords. None stays None."""
    return None if value is None else FIELDS[kind].serialize("value", {"value": value})
