"""JSON as Kafka Connect's JsonConverter (schemas off) writes and reads it.

The bytes matter: compaction, and Java's look-up of a source offset, compare serialised keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from spark_tasks.java.json import java_json
from spark_tasks.limits import JAVA_DEPTH, MAX_DEPTH, may_nest_deeper, nests_deeper

MAX_NUMBER_LENGTH = 1000  # Jackson's

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
    return java_json(value).encode()


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
