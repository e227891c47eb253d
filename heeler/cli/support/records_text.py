"""Records as lines of JSON for people and programs. No record can affect a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_WHITESPACE = str.maketrans("", "", "\t\r\n")


def record_line(partition: int, record: Mapping[str, Any]) -> str:
    r"""One record of RAW_SCHEMA as a line: an object with partition, offset, timestamp (UTC, in milliseconds), key,
    value and, if there are any, headers as pairs. JSON is shown as it is, other text as a string, and bytes that are
    not UTF-8 as a string with \xff for the byte 255. Unprintable characters are escaped, so the record is always one
    line.
    """
    parts = [
        f'"partition":{partition}', f'"offset":{record["offset"]}', f'"timestamp":{_time(record["timestamp"])}',
        f'"key":{_shown(record["key"])}', f'"value":{_shown(record["value"])}',
    ]  # fmt: skip
    if record["headers"]:
        pairs = (f"[{_quoted(header['key'])},{_shown(header['value'])}]" for header in record["headers"])
        parts.append(f'"headers":[{",".join(pairs)}]')
    return _printable("{" + ",".join(parts) + "}")


def _time(milliseconds: int) -> str:
    try:
        when = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return "null" if milliseconds == -1 else f'"{when.replace(tzinfo=None).isoformat(timespec="milliseconds")}Z"'


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _quoted(data.decode("utf-8", "backslashreplace"))
    try:
        orjson.loads(text)
    except ValueError:
        return _quoted(text)
    return text.translate(_NO_WHITESPACE)  # in JSON, these characters occur only between values


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _printable(line: str) -> str:
    """The line with control characters, including those that change the text direction, as JSON escapes."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
