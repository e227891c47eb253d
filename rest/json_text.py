"""JSON in and out as Kafka Connect has it: strict to read, with each number's own text kept, compact to write."""

from __future__ import annotations

import json
from typing import Any, NoReturn, Self

import orjson

MAX_NUMBER_LENGTH = 1000  # Jackson's limit; Python's own int() refuses more than 4300 digits


class JsonInt(int):
    """An integer that knows how it was written: a config value of `-0` or `007` stays what it was."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Parse one number."""
        self = super().__new__(cls, _checked(text))
        self.text = text
        return self


class JsonFloat(float):
    """A number with a fraction or an exponent that knows how it was written."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Parse one number."""
        self = super().__new__(cls, _checked(text))
        self.text = text
        return self


def _checked(text: str) -> str:
    if len(text) > MAX_NUMBER_LENGTH:
        raise ValueError(f"Number value length ({len(text)}) exceeds the maximum allowed ({MAX_NUMBER_LENGTH})")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"Non-standard token '{name}' is not allowed")


_DECODER = json.JSONDecoder(parse_int=JsonInt, parse_float=JsonFloat, parse_constant=_refuse_constant)


def loads(body: bytes) -> Any:
    """Parse a body; None for an empty one. Raises ValueError for everything that is not exactly one JSON value."""
    text = body.decode(json.detect_encoding(body)).removeprefix("\ufeff")
    if not text.strip(" \t\r\n"):
        return None
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("Document nesting depth exceeds the maximum allowed") from None
    if "\\u" in text:
        text.encode()
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be written anywhere
    return value


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
    """Write a value; numbers of any size."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, or text that is not Unicode
        return json.dumps(value, separators=(",", ":")).encode()
