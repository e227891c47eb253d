"""Parses field names in configurations: names of the top level (V1), or paths with dots and backticks (V2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from spark_tasks.config.definition import ConfigKey, Importance, OneOfIgnoringCase, Type
from spark_tasks.data.schema import Schema
from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.converters.java_values import JavaError, Struct, field_schema, require_map

SYNTAX = ConfigKey(
    "field.syntax.version", Type.STRING, default="V1", importance=Importance.HIGH,
    validator=OneOfIgnoringCase("V1", "V2"),
    doc="The form of field names. V1: names of the top level. V2: paths such as address.city, with backticks around "
    "names with dots.",
)  # fmt: skip


_ESCAPED = re.compile(r"\\`(?=\.)")  # as in Java, a backslash before any other backtick is part of the name


def parse_path(text: str, version: str) -> tuple[str, ...]:
    """Returns the names, the outermost first. Raises ConfigError if the backticks of a path do not match."""
    if version.upper() == "V1":
        return (text,)
    return _Parser(text).parse() if text else ()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def parse(self) -> tuple[str, ...]:
        """Returns the steps. A backtick is special at the beginning of a step, before a dot and at the end; after a
        backslash it is an ordinary character.
        """
        text, steps, at = self._text, [], 0
        while True:
            if text[at : at + 1] == "`":
                end = self._closing(at)
                steps.append(_ESCAPED.sub("`", text[at + 1 : end]))
                at = end + 1
            else:
                end = text.find(".", at)
                end = len(text) if end < 0 else end
                steps.append(text[at:end])
                at = end
            if at >= len(text):
                return tuple(steps)
            at += 1

    def _closing(self, begin: int) -> int:
        text, at = self._text, begin + 1
        while True:
            at = text.find("`", at)
            if at < 0:
                raise ConfigError(
                    f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at "
                    f"position {begin} to escape it"
                )
            if (at + 1 == len(text) or text[at + 1] == ".") and text[at - 1] != "\\":
                return at
            at += 1


def schema_at(schema: Schema, path: Sequence[str]) -> Schema | None:
    """Returns the schema of the field, or None if there is no such field."""
    inner: Schema | None = schema
    for name in path:
        if inner is None:
            return None
        inner = field_schema(inner, name)
    return inner


def value_at(value: Any, path: Sequence[str], *, defaults: bool = True) -> Any:
    """Returns the value of the field in a Struct or in maps, or None if there is no such field."""
    if not path and value is not None:
        raise JavaError("java.lang.IllegalArgumentException", "the path of the field is empty")
    for depth, name in enumerate(path):
        if value is None:
            return None
        if depth and not isinstance(value, Struct):
            require_map(value, "nested field access")
        value = value.get(name, defaults=defaults) if isinstance(value, Struct) else value.get(name)
    return value
