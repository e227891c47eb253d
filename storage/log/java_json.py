"""JSON as Kafka Connect's JsonConverter (without schemas) writes and reads it.

The exact bytes matter, because compaction and Java's lookup of source offsets compare serialized keys.
"""

from __future__ import annotations

import json
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


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _checked(make: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        if len(text) > MAX_NUMBER_LENGTH:
            raise ValueError(f"a number has {len(text)} digits; the limit is {MAX_NUMBER_LENGTH}")
        return make(text)

    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_NUMBER_LENGTH // 2}}}")
_CHECKING = json.JSONDecoder(parse_constant=_refuse, parse_int=_checked(int), parse_float=_checked(float))


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
    if not data.strip(_SPACE.encode()):
        return None
    # Nearly all values begin with {" and are UTF-8; detecting the encoding costs as much as the parsing.
    text = data.decode("utf-8" if data[:2] == b'{"' else json.detect_encoding(data))
    start = len(text) - len(text.lstrip(_SPACE))
    decoder = _DECODER if len(text) <= MAX_NUMBER_LENGTH or not _LONG_NUMBER.search(text) else _CHECKING
    try:
        value = decoder.raw_decode(text, start)[0]
    except RecursionError:
        raise ValueError(f"it is nested more than {JAVA_DEPTH} levels deep") from None
    if may_nest_deeper(text) and nests_deeper(value):
        raise ValueError(f"it is nested more than {JAVA_DEPTH} levels deep") if nests_deeper(value, JAVA_DEPTH) \
            else TooDeepError
    if len(data) > MAX_NAME_LENGTH and has_longer_name(value):
        raise ValueError(f"the name of a field has more than {MAX_NAME_LENGTH} bytes")
    return value
