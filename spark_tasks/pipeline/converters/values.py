"""Reads and writes Connect values in headers as text, by the rules of Kafka Connect's `Values` for inferring types from
texts and for printing.

The Python values are int (the schema has the size), float (FLOAT64), numpy.float32 (FLOAT32), Decimal, bool, str,
bytes, list, dict, and an aware datetime for Date, Time and Timestamp. Times are UTC (in Java in the worker's time
zone).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.data.schema import BOOLEAN, DATE, DECIMAL, STRING, TIME, TIMESTAMP, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.numbers import float_texts
from spark_tasks.pipeline.converters.values_tokens import Tokens

SchemaAndValue = tuple[Schema | None, Any]

_NOTHING: SchemaAndValue = (None, None)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?")
_MAX_EXPONENT = 10_000  # larger numbers remain texts, as integers would need too much memory
_INTEGERS = ((Type.INT8, 7), (Type.INT16, 15), (Type.INT32, 31), (Type.INT64, 63))
_NUMERIC = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)  # from narrow to wide
_DATE = r"(?P<year>\d+)-(?P<month>\d+)-(?P<day>\d+)"
_TIME = r"(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)\.(?P<milliseconds>\d+)Z"
_MOMENTS = {  # by length
    10: (re.compile(_DATE), Schema(Type.INT32, name=DATE, version=1)),
    13: (re.compile(_TIME), Schema(Type.INT32, name=TIME, version=1)),
    24: (re.compile(_DATE + "T" + _TIME), Schema(Type.INT64, name=TIMESTAMP, version=1)),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


def parse_string(text: str | None) -> SchemaAndValue:
    """Returns the schema and the value of a text; (None, None) for null."""
    if text is None:
        return _NOTHING
    if not text:
        return STRING, text
    return _Parser(Tokens(text)).parse(embedded=False) or _NOTHING


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        tokens = self._tokens
        if not tokens.has_next():
            return None
        if embedded and tokens.consume('"'):
            return self._quoted()
        for word, meaning in (("null", None), ("true", (BOOLEAN, True)), ("false", (BOOLEAN, False))):
            start = tokens.mark()
            if tokens.consume(word) and (embedded or not tokens.has_next()):
                return meaning
            tokens.rewind(start)
        start = tokens.mark()
        try:
            if tokens.consume("["):
                return self._array()
            if tokens.consume("{"):
                return self._map()
        except DataError:
            tokens.rewind(start)  # neither a list nor a map: a text
        token = tokens.next()
        return self._plain(token.strip(), embedded=embedded) if token.strip() else (STRING, token)

    def _plain(self, token: str, *, embedded: bool) -> SchemaAndValue:
        first = token[0]
        if first.isdigit():
            position = self._tokens.mark()
            rest = self._tokens.next_few(4)  # the colons of a time are delimiters
            found = _moment(token + rest) if rest is not None else None
            if found is None:
                self._tokens.rewind(position)
                found = _moment(token)
            if found is not None:
                return found
        if first.isdigit() or first in "+-":
            number = _number(token)
            if number is not None:
                return number
        if embedded:
            raise DataError("Failed to parse embedded value")
        return STRING, self._tokens.text

    def _quoted(self) -> SchemaAndValue:
        parts = []
        while self._tokens.has_next() and not self._tokens.consume('"'):
            parts.append(self._tokens.next())
        content = "".join(parts)
        return _moment(content) or (STRING, content)

    def _array(self) -> SchemaAndValue:
        tokens = self._tokens
        found: list[Any] = []
        schema = _Merger()
        while tokens.has_next():
            if tokens.consume("]"):
                if schema.common is None:
                    return Schema(Type.ARRAY), found
                common = schema.common
                return Schema(Type.ARRAY, value=common), [_aligned(common, item) for item in found]
            if tokens.consume(","):
                raise DataError(f"Unable to parse an empty array element: {tokens.text}")
            element = self.parse(embedded=True)
            schema.merge(element)
            found.append(element[1] if element else None)
            position = tokens.mark()
            if tokens.consume("]"):
                tokens.rewind(position)
            elif not tokens.consume(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {tokens.text}")

    def _map(self) -> SchemaAndValue:
        tokens = self._tokens
        found: dict[Any, Any] = {}
        keys, values = _Merger(), _Merger()
        while tokens.has_next():
            if tokens.consume("}"):
                return _map_of(found, keys.common, values.common)
            if tokens.consume(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.parse(embedded=True)
            if key is None or key[1] is None:
                raise DataError(f"Map entry may not have a null key: {tokens.text}")
            if not tokens.consume(":"):
                raise DataError(f"Map entry is missing ':' in {tokens.text}")
            value = self.parse(embedded=True)
            try:
                found[key[1]] = value[1] if value else None
            except TypeError:
                raise DataError("keys of a map cannot be lists or maps") from None
            tokens.consume(",")
            keys.merge(key)
            values.merge(value)
        raise DataError(f"Map is missing terminating '}}': {tokens.text}")


def _map_of(found: dict[Any, Any], key: Schema | None, value: Schema | None) -> SchemaAndValue:
    if key is None:
        return Schema(Type.MAP), found
    aligned = {_aligned(key, k): v if value is None else _aligned(value, v) for k, v in found.items()}
    return Schema(Type.MAP, key=key, value=value), aligned


class _Merger:
    """Finds the common schema of several values: for numbers the widest type, None if there is no common schema."""

    def __init__(self) -> None:
        self.common: Schema | None = None
        self._compatible = True

    def merge(self, latest: SchemaAndValue | None) -> None:
        schema = latest[0] if latest else None
        if schema is None or not self._compatible:
            return
        if self.common is None or self.common.type is schema.type:
            self.common = schema
        elif self.common.type in _NUMERIC and schema.type in _NUMERIC:
            self.common = max(self.common, schema, key=lambda one: _NUMERIC.index(one.type))
        else:
            self.common, self._compatible = None, False


def _aligned(schema: Schema, value: Any) -> Any:
    if value is None:
        raise DataError("Unable to convert a null value to a schema that requires a value")
    if schema.type is Type.FLOAT32:
        return np.float32(value)
    return float(value) if schema.type is Type.FLOAT64 else value


def _number(token: str) -> SchemaAndValue | None:
    if not _DECIMAL.fullmatch(token):
        return None
    value = Decimal(token)
    if value.adjusted() > _MAX_EXPONENT:
        return None
    if value == value.to_integral_value():
        whole = int(value)
        for kind, bits in _INTEGERS:
            if -(1 << bits) <= whole < 1 << bits:
                return Schema(kind), whole
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    with np.errstate(over="ignore"):
        single = np.float32(float(value))
    if scale and np.isfinite(single):
        return Schema(Type.FLOAT32), single
    if scale and np.isfinite(float(value)):
        return Schema(Type.FLOAT64), float(value)
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", str(scale)),)), value


def _moment(token: str) -> SchemaAndValue | None:
    token = token.replace("\\:", ":")
    pattern, schema = _MOMENTS.get(len(token), (None, STRING))
    match = pattern.match(token) if pattern else None
    if match is None:
        return None
    parts = {name: int(digits) for name, digits in match.groupdict().items()}
    years, month = divmod(parts.pop("month", 1) - 1, 12)  # as lenient as Java: month 13 is January of the next year
    try:
        year = datetime(parts.pop("year", 1970) + years, month + 1, 1, tzinfo=UTC)
        return schema, year + timedelta(days=parts.pop("day", 1) - 1, **parts)
    except (ValueError, OverflowError):
        return None  # years that Python's datetime cannot represent


def to_string(value: Any) -> str | None:
    """Returns the text of a value. Texts and bytes in lists and maps are quoted."""
    return None if value is None else _text(value, embedded=False)


def _text(value: Any, *, embedded: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote(value.replace("\\", "\\\\").replace('"', '\\"')) if embedded else value
    if isinstance(value, bytes):
        encoded = base64.b64encode(value).decode()
        return _quote(encoded) if embedded else encoded
    if isinstance(value, (float, np.floating)):
        return str(float_texts(pa.array([value]))[0].as_py())
    if isinstance(value, Mapping):
        entries = (f"{_text(k, embedded=True)}:{_text(v, embedded=True)}" for k, v in value.items())
        return "{" + ",".join(entries) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_text(item, embedded=True) for item in value) + "]"
    return _moment_text(value) if isinstance(value, datetime) else str(value)


def _quote(text: str) -> str:
    return f'"{text}"'


def _moment_text(value: datetime) -> str:
    since = value - _EPOCH
    millis = f"{value.microsecond // 1000:03d}Z"
    if since < _DAY:
        return f"{value:%H:%M:%S}.{millis}"
    return f"{value:%Y-%m-%d}" if not since % _DAY else f"{value:%Y-%m-%dT%H:%M:%S}.{millis}"
