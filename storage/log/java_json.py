"""JSON as Kafka Connect's JsonConverter (schemas off) writes and reads it.

The bytes matter: compaction, and Java's look-up of a source offset, compare serialised keys.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any

from spark_tasks.java.double import java_double
from spark_tasks.limits import JAVA_DEPTH, MAX_DEPTH, may_nest_deeper, nests_deeper

MAX_NUMBER_LENGTH = 1000  # Jackson's

_ESCAPE = re.compile(r"\\\\|\\u[0-9a-f]{4}")
_SPACE = " \t\r\n"


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _checked(make: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        if len(text) > MAX_NUMBER_LENGTH:
            raise ValueError(f"a number of {len(text)} digits; at most {MAX_NUMBER_LENGTH} are possible")
        return make(text)

    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_NUMBER_LENGTH // 2}}}")
_CHECKING = json.JSONDecoder(parse_constant=_refuse, parse_int=_checked(int), parse_float=_checked(float))


class TooDeepError(ValueError):
    """JSON that Kafka Connect can read and that nests deeper than anything here may."""

    def __init__(self) -> None:
        super().__init__(f"it nests more than {MAX_DEPTH} levels deep")


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON in the order of the mappings; numbers and escapes as Java prints them, not-a-number and
    infinities as strings (Jackson).

    Raises TypeError for what JSON cannot hold, or could not be read again: it nests too deeply.
    """
    if nests_deeper(value):
        raise TypeError(f"values that nest more than {MAX_DEPTH} levels deep are not written")
    return _text(value).encode("utf-8", "surrogatepass")


def loads(data: bytes) -> Any:
    """The first JSON value in `data`; like Jackson, whatever follows it is not looked at.

    Raises ValueError where the text holds no JSON, or none that Jackson accepts, and TooDeepError.
    """
    # Nearly all values begin with {" and are UTF-8; the general rule costs as much as the parsing.
    text = data.decode("utf-8" if data[:2] == b'{"' else json.detect_encoding(data))
    start = len(text) - len(text.lstrip(_SPACE))
    decoder = _DECODER if len(text) <= MAX_NUMBER_LENGTH or not _LONG_NUMBER.search(text) else _CHECKING
    try:
        value = decoder.raw_decode(text, start)[0]
    except RecursionError:
        raise ValueError(f"it nests more than {JAVA_DEPTH} levels deep") from None
    if may_nest_deeper(text) and nests_deeper(value):
        raise ValueError(f"it nests more than {JAVA_DEPTH} levels deep") if nests_deeper(value, JAVA_DEPTH) \
            else TooDeepError
    return value


def _text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int():
            return str(value)
        case float():
            return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'
        case bytes():
            return _string(base64.b64encode(value).decode())
        case Mapping():
            return "{" + ",".join(f"{_string(_name(k))}:{_text(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_text, value)) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON: {value!r}")


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the keys of a JSON object are strings, not {type(key).__name__}: {key!r}")
    return key


def _string(value: str) -> str:
    # Python and Jackson escape the same characters, but Jackson's hexadecimal digits are upper case. A doubled
    # backslash is matched first, so that "\\u00ab" in the data stays what it is.
    text = encode_basestring(value)
    return _ESCAPE.sub(lambda m: m[0] if m[0] == "\\\\" else "\\u" + m[0][2:].upper(), text) if "\\" in text else text
