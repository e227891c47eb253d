"""JSON as Kafka Connect reads and writes it: parsing is strict and keeps each number's text, output is compact."""

from __future__ import annotations

import json
from typing import Any, NoReturn, Self

import orjson

from spark_tasks.limits import (
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    MAX_NUMBER_LENGTH,
    has_longer_name,
    may_nest_deeper,
    nests_deeper,
)


class UnusableJsonError(ValueError):
    """Valid JSON that cannot be stored or forwarded."""


class JsonInt(int):
    """An integer with its original text, so that a config value such as `-0` is kept unchanged."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Parses one number."""
        self = super().__new__(cls, _checked(text))
        self.text = text
        return self


class JsonFloat(float):
    """A number with a fraction or an exponent, and its original text."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Parses one number."""
        self = super().__new__(cls, _checked(text))
        self.text = text
        return self


def _checked(text: str) -> str:
    if len(text) > MAX_NUMBER_LENGTH:
        raise UnusableJsonError(f"Number value length ({len(text)}) exceeds the maximum allowed ({MAX_NUMBER_LENGTH})")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"Non-standard token '{name}' is not allowed")


_DECODER = json.JSONDecoder(parse_int=JsonInt, parse_float=JsonFloat, parse_constant=_refuse_constant)


def loads(body: bytes) -> Any:
    """Parses a body; None for an empty one.

    Raises ValueError for anything but exactly one JSON value, UnusableJsonError for a value that is nested too deeply,
    or contains a number or a name that is too long or an unpaired surrogate.
    """
    text = body.decode(json.detect_encoding(body)).removeprefix("\ufeff")
    if not text.strip(" \t\r\n"):
        return None
    too_deep = UnusableJsonError(f"Document nesting depth exceeds the maximum allowed ({MAX_DEPTH})")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise too_deep from None
    if may_nest_deeper(text) and nests_deeper(value):
        raise too_deep
    if len(body) > MAX_NAME_LENGTH and has_longer_name(value):
        raise UnusableJsonError(f"Name length exceeds the maximum allowed ({MAX_NAME_LENGTH})")
    if "\\u" in text:
        _refuse_unpaired_surrogates(value)
    return value


def _refuse_unpaired_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        message = f"Text with an unpaired surrogate ({ascii(character)[1:-1]}) cannot be encoded"
        raise UnusableJsonError(message) from None


def plain(value: Any) -> Any:
    """The same value with ordinary numbers."""
    match value:
        case JsonInt():
            return int(value)
        case JsonFloat():
            return float(value)
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case _:
            return value


def dumps(value: Any) -> bytes:
    """A value as JSON; integers may have any size."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, or text that is not Unicode
        return json.dumps(value, separators=(",", ":")).encode()
