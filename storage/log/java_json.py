"""JSON as Kafka Connect's JsonConverter (without schemas) writes and reads it.

The exact bytes matter, because compaction and Java's lookup of source offsets compare serialized keys.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable
from typing import Any

from spark_tasks.java.json import java_json
from spark_tasks.limits import (
    JAVA_DEPTH,
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    MAX_NUMBER_LENGTH,
    has_longer_name,
    may_nest_deeper,
    nests_deeper,
)

_SPACE = " \t\r\n"
_BOM = b"\xef\xbb\xbf"
_ONLY_MARKS = (_BOM, b"\xfe\xff", b"\xff\xfe")  # Jackson detects them in a text of at least four bytes
_LENIENT = "heeler-jackson"
_BAD = "\x1f\udfff"  # instead of a byte that is not valid UTF-8: an error, unless it follows the value
# Java's JsonConverter allows zeros before a number. A string without an end is one match, or the rest of the text would
# be searched again for each quote in it.
_ZEROS = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|(?<![0-9.eE+])(-?)0+(?=[0-9])', re.DOTALL)
_AFTER_WORD = re.compile(r"(?!\x1f\udfff)[\0-/:-@\[-^`{-~]")  # what may follow true, false and null


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    """What a BigDecimal with this text is as a double: it has no -0.0, and its scale is limited."""
    value = float(text) + 0.0
    if value == 0 or math.isinf(value):
        digits, _, exponent = text.lower().partition("e")
        scale = len(digits.partition(".")[2]) - int(exponent or "0")
        if not -(2**31) <= scale < 2**31:
            raise ValueError(f"the exponent of {text} is too large")
    return value


def _checked(make: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        if len(text) > MAX_NUMBER_LENGTH:
            raise ValueError(f"a number has {len(text)} digits; the limit is {MAX_NUMBER_LENGTH}")
        return make(text)

    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_float)
_LONG_NUMBER = re.compile(rf"(?<![0-9])[0-9]{{{MAX_NUMBER_LENGTH // 2}}}")
_CHECKING = json.JSONDecoder(parse_constant=_refuse, parse_int=_checked(int), parse_float=_checked(_float))


class TooDeepError(ValueError):
    """JSON that Kafka Connect can read but that is nested more deeply than heeler supports."""

    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MAX_DEPTH} levels deep")


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON in the order of the mappings; numbers and escapes as in Java, NaN and infinities as strings
    (as in Jackson).

    Raises TypeError for what JSON cannot express, and for values that are nested too deeply to be read again.
    """
    if nests_deeper(value):
        raise TypeError(f"values that are nested more than {MAX_DEPTH} levels deep cannot be written")
    return java_json(value).encode()


def loads(data: bytes) -> Any:
    """The first JSON value in `data`; what follows it is ignored, as in Jackson. None for an empty text, as in
    JsonConverter.

    Raises ValueError if the text is not JSON that Jackson accepts, and TooDeepError.
    """
    text = _text(data)
    start = len(text) - len(text.lstrip(_SPACE))
    if start == len(text) and data not in _ONLY_MARKS:
        return None
    value = _first(text, start)
    if may_nest_deeper(text) and nests_deeper(value):
        raise ValueError(f"it is nested more than {JAVA_DEPTH} levels deep") if nests_deeper(value, JAVA_DEPTH) \
            else TooDeepError
    if len(data) > MAX_NAME_LENGTH and has_longer_name(value):
        raise ValueError(f"the name of a field has more than {MAX_NAME_LENGTH} bytes")
    return value


def _text(data: bytes) -> str:
    # Nearly all values begin with {" and are UTF-8; detecting the encoding costs as much as the parsing.
    encoding = "utf-8" if data[:2] == b'{"' else json.detect_encoding(data)
    if not encoding.startswith("utf-8"):
        return data.decode(encoding, "replace" if encoding.startswith("utf-16") else "strict")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return data.removeprefix(_BOM).decode(errors=_LENIENT)


def _decode_leniently(error: UnicodeError) -> tuple[str, int]:
    """Reads UTF-8 as Jackson does: characters may be longer than necessary, or beyond Unicode's."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    character, size = _lenient_character(error.object[error.start : error.start + 4])
    return character, error.start + size


codecs.register_error(_LENIENT, _decode_leniently)


def _lenient_character(data: bytes) -> tuple[str, int]:
    """The character with which the bytes begin, and its size; _BAD if Jackson accepts none."""
    first = data[0]
    size = 2 if first & 0xE0 == 0xC0 else 3 if first & 0xF0 == 0xE0 else 4 if first & 0xF8 == 0xF0 else 1
    more = data[1:size]
    if size == 1 or len(more) < size - 1 or any(byte & 0xC0 != 0x80 for byte in more):
        return _BAD, 1
    code = first & (0x7F >> size)
    for byte in more:
        code = code << 6 | byte & 0x3F
    if size < 4:  # escaped, because it may be a quote or a control character
        return (_BAD, 1) if 0xD800 <= code < 0xE000 else (f"\\u{code:04x}", size)
    code -= 0x10000
    return chr((0xD800 | code >> 10) & 0xFFFF) + chr(0xDC00 | code & 0x3FF), size


def _first(text: str, start: int) -> Any:
    decoder = _DECODER if len(text) <= MAX_NUMBER_LENGTH or not _LONG_NUMBER.search(text) else _CHECKING
    try:
        value, end = decoder.raw_decode(text, start)
        _check_end(value, text[end : end + 2])
    except RecursionError:
        raise ValueError(f"it is nested more than {JAVA_DEPTH} levels deep") from None
    except ValueError:
        without = _ZEROS.sub(lambda match: match[0] if match[1] is None else match[1], text)
        if without == text:
            raise
        return _first(without, start)
    return value


def _check_end(value: object, rest: str) -> None:
    """Raises ValueError if Jackson refuses what follows a value that is not in an object or a list."""
    if not rest or isinstance(value, str | list | dict):
        return
    word = value is None or isinstance(value, bool)
    if not (_AFTER_WORD.match(rest) if word else rest[0] in _SPACE):
        raise ValueError(f"{rest[0]!r} follows the value")
