"""Writes single values as JSON, as Jackson does: compact, with Java's formatting of numbers and its escapes."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from spark_tasks.java.double import java_double

_SURROGATES = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")  # surrogate pairs, and unpaired surrogates
_UNPAIRED = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\\\|\\u[0-9a-f]{4}")


def java_json(
    value: Any, order: Callable[[Mapping[str, Any]], Iterable[str]] = iter, *, to_bytes: bool = True
) -> str:
    """Returns a value as JSON. NaN and infinities become strings, bytes become Base64. `order` returns the keys of an
    object in the order to write them. `to_bytes`: Jackson escapes characters beyond 16 bits if it writes bytes, but not
    if it writes a text. Raises TypeError for a value that JSON cannot represent.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value, to_bytes)
        case int() | Decimal():  # a Decimal as BigDecimal.toString
            return str(value)
        case float():
            return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'
        case bytes():
            return _string(base64.b64encode(value).decode(), to_bytes)
        case Mapping():
            members = (f"{_string(_name(k), to_bytes)}:{java_json(value[k], order, to_bytes=to_bytes)}"
                       for k in order(value))
            return "{" + ",".join(members) + "}"
        case list() | tuple():
            return "[" + ",".join(java_json(one, order, to_bytes=to_bytes) for one in value) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON: {value!r}")


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the keys of a JSON object must be strings, not {type(key).__name__}: {key!r}")
    return key


def _string(value: str, to_bytes: bool) -> str:
    # Python and Jackson escape the same characters, but Jackson's hexadecimal digits are uppercase. The pattern
    # matches an escaped backslash first, so that "\\u00ab" in the data does not change.
    text = encode_basestring(value)
    if "\\" in text:
        text = _ESCAPE.sub(lambda m: m[0] if m[0] == "\\\\" else "\\u" + m[0][2:].upper(), text)
    return text if text.isascii() else (_SURROGATES if to_bytes else _UNPAIRED).sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at:at + 2].hex().upper()}" for at in range(0, len(units), 2))
