"""Parses Spark's schema strings ("id BIGINT NOT NULL, tags ARRAY<STRING>") without a JVM. Pure.

A data source may return its schema as such a string. PySpark needs a running Spark to parse it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import types

from spark_tasks.errors import ConfigError

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|([A-Za-z_0-9]+)|([<>(),:]))")

_SIMPLE: Final[Mapping[str, Callable[[], types.DataType]]] = {
    "boolean": types.BooleanType, "tinyint": types.ByteType, "byte": types.ByteType, "smallint": types.ShortType,
    "short": types.ShortType, "int": types.IntegerType, "integer": types.IntegerType, "bigint": types.LongType,
    "long": types.LongType, "float": types.FloatType, "real": types.FloatType, "double": types.DoubleType,
    "string": types.StringType, "binary": types.BinaryType, "date": types.DateType, "void": types.NullType,
    "timestamp": types.TimestampType, "timestamp_ltz": types.TimestampType, "timestamp_ntz": types.TimestampNTZType,
}  # fmt: skip
_DECIMALS = ("decimal", "dec", "numeric")


def parse(text: str) -> types.StructType:
    """Parses a schema string, also in the form of `StructType.simpleString()`. Raises ConfigError, whose message shows
    the place of the error.
    """
    parser = _Parser(text)
    whole = parser.whole_struct()
    if whole is not None:
        return whole
    fields = parser.fields(end=None)
    return types.StructType(fields)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise ConfigError(f"the schema {text!r} cannot be parsed at {text[at:]!r}")
            quoted, single, double, word, sign = match.groups()
            if quoted is not None:
                self._tokens.append(("name", quoted.replace("``", "`")))
            elif single is not None or double is not None:
                self._tokens.append(("text", single if single is not None else double))
            else:
                self._tokens.append(("word", word) if word is not None else ("sign", sign))
            at = match.end()
        self._at = 0

    def whole_struct(self) -> types.StructType | None:
        """Parses `struct<…>`, or returns None: a column may have the name struct."""
        if [value.lower() for _, value in self._tokens[:2]] != ["struct", "<"]:
            return None
        found = self._type()
        if not self._ends(None) or not isinstance(found, types.StructType):
            raise self._wrong("nothing may follow the struct")
        return found

    def fields(self, end: str | None) -> list[types.StructField]:
        """Parses `name [:] type [NOT NULL] [COMMENT 'text']`, separated by commas, up to the sign `end`, or to the end
        of the string.
        """
        fields: list[types.StructField] = []
        while not self._ends(end):
            if fields:
                self._expect(",")
            name = self._take()
            self._accept("sign", ":")
            kind = self._type()
            nullable = not (self._accept("word", "not") and self._accept("word", "null"))
            if self._accept("word", "comment"):
                self._take()
            fields.append(types.StructField(name, kind, nullable))
        return fields

    def _ends(self, end: str | None) -> bool:
        if end is None:
            return self._at == len(self._tokens)
        return self._accept("sign", end)

    def _type(self) -> types.DataType:
        name = self._take().lower()
        if name == "array":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return types.ArrayType(element)
        if name == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return types.MapType(key, value)
        if name == "struct":
            self._expect("<")
            return types.StructType(self.fields(end=">"))
        numbers = self._numbers()
        if name in _DECIMALS:
            precision, scale = (*numbers, *(10, 0)[len(numbers):])[:2]
            return types.DecimalType(precision, scale)
        if name in ("varchar", "char"):
            return types.StringType()
        if name == "time":
            return types.TimeType(*numbers[:1])
        if name == "timestamp" and self._accept("word", "without"):
            self._words("time", "zone")
            return types.TimestampNTZType()
        if name == "timestamp" and self._accept("word", "with"):
            self._words("local", "time", "zone")
        if name not in _SIMPLE:
            raise self._wrong(f"unknown type {name}")
        return _SIMPLE[name]()

    def _numbers(self) -> list[int]:
        if not self._accept("sign", "("):
            return []
        numbers = [self._number()]
        while self._accept("sign", ","):
            numbers.append(self._number())
        self._expect(")")
        return numbers

    def _number(self) -> int:
        text = self._take()
        if not text.isdecimal():
            raise self._wrong(f"{text} is not a number")
        return int(text)

    def _take(self) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] == "sign":
            raise self._wrong("a name, type or string is missing")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _words(self, *words: str) -> None:
        for word in words:
            if not self._accept("word", word):
                raise self._wrong(f"{word} is missing")

    def _accept(self, kind: str, value: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == kind:
            token = self._tokens[self._at][1]
            if token.lower() == value:
                self._at += 1
                return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._accept("sign", sign):
            raise self._wrong(f"{sign} is missing")

    def _wrong(self, what: str) -> ConfigError:
        near = " ".join(value for _, value in self._tokens[max(0, self._at - 3) : self._at + 2])
        return ConfigError(f"the schema {self._text!r} cannot be parsed near {near!r}: {what}")
