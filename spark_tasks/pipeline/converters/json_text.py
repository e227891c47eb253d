"""Reads JSON texts one by one, as Jackson does. It is slow, and used for texts that json_tape does not accept.

Beyond RFC 8259 it accepts a byte order mark, UTF-16 and UTF-32, anything after the first value, and what a Dialect
says. If an object has several members with one name, the last one counts. Integers keep their low 64 bits; numbers with
a point or an exponent become doubles.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from spark_tasks.errors import DataError
from spark_tasks.limits import MAX_DEPTH, MAX_NUMBER_LENGTH

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_PARTS = re.compile(r"(-?)0*(\d+(?:\.\d+)?)(?:[eE]([+-]?)(\d+))?", re.ASCII)
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS = {"true": True, "false": False, "null": None}
_MARKS = (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF8)
_MARKED = 4  # bytes of the shortest text with such a mark
_MAX_EXPONENT = 9999  # that json_tape accepts; a number of 1,000 characters with it is zero or infinite in all types


@dataclass(frozen=True, slots=True)
class Dialect:
    """What else a converter's Jackson accepts. `not_numbers`: the words NaN, Infinity and -Infinity, and INF with a
    sign, as numbers.
    """

    leading_zeros: bool
    not_numbers: bool


OF_KAFKA: Final = Dialect(leading_zeros=True, not_numbers=False)
OF_CONFLUENT: Final = Dialect(leading_zeros=False, not_numbers=True)
"""Of its JsonSchemaConverter. The word has to be the whole token: `NaNs` is an error."""

_NOT_NUMBERS = re.compile(r"NaN|[+-]?Infinity|[+-]INF", re.ASCII)


class NumberText(str):
    """A number as it is written in the JSON text."""

    __slots__ = ()


def parse(data: bytes, *, numbers_as_written: bool = False, dialect: Dialect = OF_KAFKA) -> Any:
    """Returns the value as dict, list, str, int, float, bool or None; None for an empty text, like Jackson's missing
    node. With `numbers_as_written`, numbers are NumberText that json_tape accepts, with all their digits, or one of its
    words. Raises DataError with the position of the error.
    """
    text, wrong = _decode(data)
    at = _skip(text, 0)
    if at == len(text) and wrong is None:
        return None
    try:
        value, after = _Parser(text, dialect, numbers_as_written=numbers_as_written).value(at, 0)
    except DataError as error:
        raise wrong or error from None
    if text[after - 1] not in '"}]':  # what ends with itself may be followed by anything
        number = isinstance(value, int | float | NumberText) and text[after - 1].isdigit()
        if number and after < len(text) and text[after] not in " \t\r\n":
            raise _wrong(text, after)
        if wrong is not None and after == len(text):
            raise wrong
    return value


class NotJsonError(DataError):
    """The bytes are not a JSON text."""

    java_message = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def canonical(value: Any) -> str:
    """Returns the value as plain JSON, from which `parse` and json_tape read the same value. But NaN, which JSON does
    not have, becomes a text, as in Java.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(name)}:{canonical(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "1e9999" if value > 0 else "-1e9999"
    if isinstance(value, float) and math.isnan(value):
        return '"NaN"'
    return json.dumps(value, ensure_ascii=False)


def _decode(data: bytes) -> tuple[str, DataError | None]:
    """Returns the text before the first bytes that are not text, and the error for these: they may be after the first
    value. As in Jackson, a mark of the byte order is none in less than four bytes, and bytes that are not UTF-16 become
    other characters.
    """
    few = len(data) < 2 or (len(data) < _MARKED and data.startswith(_MARKS))
    encoding = "utf-8" if few else json.detect_encoding(data)
    try:
        return data.decode(encoding, "replace" if encoding.startswith("utf-16") else "strict"), None
    except UnicodeDecodeError as error:
        wrong = DataError(f"the JSON text is not valid {error.encoding}: {error.reason} at byte {error.start}")
        return error.object[: error.start].decode(encoding.removesuffix("-sig")), wrong


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _wrong(text: str, at: int) -> DataError:
    what = f"unexpected character {text[at]!r}" if at < len(text) else "unexpected end"
    return DataError(f"the JSON text is not valid: {what} at position {at}")


def _string(text: str, at: int) -> tuple[str, int]:
    parts = []
    while True:
        plain = _PLAIN.match(text, at)
        if plain:
            parts.append(plain.group())
            at = plain.end()
        char = text[at : at + 1]
        if char == '"':
            break
        if char != "\\":
            raise _wrong(text, at)
        escape = text[at + 1 : at + 2]
        if escape == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", text[at + 2 : at + 6]):
            parts.append(chr(int(text[at + 2 : at + 6], 16)))
            at += 6
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
            at += 2
        else:
            raise _wrong(text, at + 1)
    joined = "".join(parts)
    if _LONE_SURROGATE.search(joined):
        joined = joined.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        joined = _LONE_SURROGATE.sub("?", joined)
    return joined, at + 1


class _Parser:
    def __init__(self, text: str, dialect: Dialect, *, numbers_as_written: bool) -> None:
        self._text = text
        self._dialect = dialect
        self._numbers_as_written = numbers_as_written

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        """Returns the value that begins at `at`, and the position after it."""
        text = self._text
        if at >= len(text):
            raise _wrong(text, at)
        char = text[at]
        if char == '"':
            return _string(text, at + 1)
        if char in "{[":
            if depth >= MAX_DEPTH:
                raise DataError(f"the JSON text is nested more than {MAX_DEPTH} levels deep")
            return self._object(at, depth) if char == "{" else self._array(at, depth)
        for word, meaning in _LITERALS.items():
            if text.startswith(word, at):
                return meaning, self._word_end(at + len(word))
        found = _NOT_NUMBERS.match(text, at) if self._dialect.not_numbers else None
        return self._number(at) if found is None else self._not_number(found)

    def _word_end(self, after: int) -> int:
        text = self._text
        if after < len(text) and (text[after].isidentifier() or text[after].isdigit()):
            raise _wrong(text, after)
        return after

    def _not_number(self, found: re.Match[str]) -> tuple[float | NumberText, int]:
        sign = "-" if "-" in found.group() else ""
        name = "NaN" if found.group() == "NaN" else f"{sign}Infinity"
        return NumberText(name) if self._numbers_as_written else float(name), self._word_end(found.end())

    def _number(self, at: int) -> tuple[int | float | NumberText, int]:
        found = _NUMBER.match(self._text, at)
        if not found:
            raise _wrong(self._text, at)
        digits = found.group()
        if not self._dialect.leading_zeros and re.match(r"-?0\d", digits, re.ASCII):
            raise _wrong(self._text, at + digits.index("0") + 1)
        if len(digits) > MAX_NUMBER_LENGTH:
            raise DataError(f"a number in the JSON text is longer than {MAX_NUMBER_LENGTH} characters")
        if self._numbers_as_written and (parts := _PARTS.fullmatch(digits)):
            sign, number, exponent_sign, exponent = parts.groups()
            power = "" if exponent is None else f"e{exponent_sign}{min(int(exponent), _MAX_EXPONENT)}"
            return NumberText(sign + number + power), found.end()
        if found.group(1) is None and found.group(2) is None:
            return (int(digits) + 2**63) % 2**64 - 2**63, found.end()
        return float(digits) + 0.0, found.end()  # + 0.0: Java goes through BigDecimal, which has no negative zero

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        text = self._text
        found: dict[str, Any] = {}
        at = _skip(text, at + 1)
        if text[at : at + 1] == "}":
            return found, at + 1
        while True:
            if text[at : at + 1] != '"':
                raise _wrong(text, at)
            name, at = _string(text, at + 1)
            at = _skip(text, at)
            if text[at : at + 1] != ":":
                raise _wrong(text, at)
            found[name], at = self.value(_skip(text, at + 1), depth + 1)
            at = _skip(text, at)
            if text[at : at + 1] == "}":
                return found, at + 1
            if text[at : at + 1] != ",":
                raise _wrong(text, at)
            at = _skip(text, at + 1)

    def _array(self, at: int, depth: int) -> tuple[list[Any], int]:
        text = self._text
        found: list[Any] = []
        at = _skip(text, at + 1)
        if text[at : at + 1] == "]":
            return found, at + 1
        while True:
            value, at = self.value(at, depth + 1)
            found.append(value)
            at = _skip(text, at)
            if text[at : at + 1] == "]":
                return found, at + 1
            if text[at : at + 1] != ",":
                raise _wrong(text, at)
            at = _skip(text, at + 1)
