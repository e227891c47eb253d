"""JSON as Kafka Connect reads and writes it: parsing is strict and keeps the text of numbers, output is compact."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, Self

import orjson
from typing_extensions import override

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


class VerbatimFloat(float):
    """A number that Python would write differently, with its original text, so that a config value such as `1.50` is
    kept unchanged. (A body can have millions of numbers, and a text for each would take a hundred times its size.)
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Parses one number."""
        self = super().__new__(cls, text)
        self.text = text
        return self

    @override
    def __str__(self) -> str:
        return self.text


class NegativeZero(int):
    """`-0`, the only integer that Python would write differently."""

    __slots__ = ()

    @override
    def __str__(self) -> str:
        return "-0"


def _checked(text: str) -> str:
    if len(text) > MAX_NUMBER_LENGTH:
        raise UnusableJsonError(f"Number value length ({len(text)}) exceeds the maximum allowed ({MAX_NUMBER_LENGTH})")
    return text


def _integer(text: str) -> int:
    return NegativeZero() if text == "-0" else int(_checked(text))


def _float(text: str) -> float:
    value = float(_checked(text))
    return value if repr(value) == text else VerbatimFloat(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"Non-standard token '{name}' is not allowed")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_refuse_constant)


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
    """The same value with ordinary numbers; infinite ones (1e999) are texts, as Jackson writes them."""
    match value:
        case NegativeZero():
            return 0
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case VerbatimFloat():
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
