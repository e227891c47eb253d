"""The interface of converters, which convert columns between the bytes of Kafka's records and Connect's values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, OneOf, Type
from spark_tasks.data.columns import SCHEMA_KEY, Metadata
from spark_tasks.data.schema import Schema, from_text
from spark_tasks.errors import DataError

Column = tuple[pa.Array, dict[bytes, bytes]]

CONVERTER_KEYS = ConfigDef(
    ConfigKey(
        "converter.type", Type.STRING, validator=OneOf("key", "value", "header"),
        importance=Importance.LOW, doc="What the converter is used for: key, value or header.",
    ),
)  # fmt: skip


class BadRowError(DataError):
    """A row of the array cannot be converted. `reason`: the cause, an error or its message. `java_message`: see
    ConnectError; by default that of the cause.
    """

    def __init__(self, row: int, reason: object, java_message: str | None = None) -> None:
        super().__init__(str(reason))
        self.row = row
        self.reason = reason
        self.java_message = java_message


class BadRowsError(BadRowError):
    """Has all rows that cannot be converted and the reasons, so that the caller does not search for them. `rest`:
    converts all other rows, if the converter need not read them again.
    """

    def __init__(self, bad: Sequence[tuple[int, Exception]]) -> None:
        super().__init__(*bad[0])
        self.bad = tuple(bad)
        self.rest: Callable[[], Column] | None = None


class MixedSchemasError(DataError):
    """The rows of one array have different schemas. The caller converts the rows of each schema by themselves.

    `codes`: a number for the schema of each row; -1 for a row that fits with any, such as a null.
    """

    def __init__(self, codes: np.ndarray[Any, Any]) -> None:
        super().__init__("the records have different schemas")
        self.codes = codes

    def rows_by_schema(self) -> list[np.ndarray[Any, Any]]:
        """Returns the rows of each schema, in order. A row that fits with any schema is with the row before it."""
        coded = np.where(self.codes >= 0, np.arange(len(self.codes)), -1)
        nearest = np.maximum(np.maximum.accumulate(coded), np.argmax(self.codes >= 0))
        return rows_by_code(self.codes[nearest])


def rows_by_code(codes: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Returns the rows with each code, in order. `codes`: of each row."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


class Converter(ABC):
    """Converts keys or values. Its constructor has no arguments; `configure` is called once. It has no connections.
    `nulls_have_schema`: whether a record without a key or value has the schema of the others; otherwise it has none.
    """

    version: ClassVar[str] = "unknown"
    nulls_have_schema: ClassVar[bool] = False
    config_def: ClassVar[ConfigDef] = CONVERTER_KEYS
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        """Applies the configuration. `configs`: without the prefix `key.converter.` or `value.converter.`."""

    @abstractmethod
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        """Converts a binary array. Returns the values and the metadata of their field (data/columns.py).

        Raises BadRowError for the first row that cannot be read, and MixedSchemasError if the rows do not fit into one
        column.
        """

    @abstractmethod
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        """Converts values to a binary array, in which null means no key or no value. Raises DataError (BadRowError)."""

    def with_headers(self, topic: str, array: pa.Array, metadata: Metadata | None, headers: pa.Array
                     ) -> tuple[pa.Array, pa.Array]:
        """Converts values as `from_connect` does. Also returns the records' headers (columns.HEADERS_TYPE), to which
        the converter may add others (KIP-440).
        """
        return self.from_connect(topic, array, metadata), headers


class HeaderConverter(ABC):
    """Converts the values of headers one by one, because few headers are used."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()
    takes_java_values: ClassVar[bool] = False  # also accepts those of converters/java_values

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Applies the configuration. `configs`: without the prefix `header.converter.`."""

    @abstractmethod
    def to_connect_header(self, topic: str, name: str, value: bytes | None) -> tuple[Schema | None, Any]:
        """Returns the header's schema and its value as a Python value."""

    @abstractmethod
    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Returns the bytes of a value."""


def schema_of(metadata: Metadata | None) -> Schema | None:
    """Returns the Connect schema in a field's metadata, or None."""
    text = (metadata or {}).get(SCHEMA_KEY)
    return None if text is None else from_text(text)
