"""The interface of converters, between the bytes of Kafka's records and Connect's typed values, a column at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
    """Row `row` of the array cannot be converted. `reason`: the error that says why, or its message."""

    def __init__(self, row: int, reason: object) -> None:
        super().__init__(str(reason))
        self.row = row
        self.reason = reason


class BadRowsError(BadRowError):
    """All rows that cannot be converted, with the reasons. A stage that raises it saves a search for the bad rows."""

    def __init__(self, bad: Sequence[tuple[int, Exception]]) -> None:
        super().__init__(*bad[0])
        self.bad = tuple(bad)


class MixedSchemasError(DataError):
    """The rows of one array have different schemas. `ends`: the end of each run with the same schema; convert run by
    run.
    """

    def __init__(self, ends: list[int]) -> None:
        super().__init__("the records have different schemas")
        self.ends = ends


class Converter(ABC):
    """Converts keys or values. Made without arguments, then configured once; holds no connections."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = CONVERTER_KEYS
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        """Take the configuration, its keys without the prefix key.converter. or value.converter."""

    @abstractmethod
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        """Convert a binary array to values and the metadata of their field (columns.py).

        BadRowError for the first row that cannot be read; MixedSchemasError where one column cannot hold all rows.
        """

    @abstractmethod
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        """Convert values to a binary array, null for records without a key or value. DataError (BadRowError) if it
        cannot.
        """

    def with_headers(self, topic: str, array: pa.Array, metadata: Metadata | None, headers: pa.Array
                     ) -> tuple[pa.Array, pa.Array]:
        """Convert values like from_connect; also returns the records' headers (columns.HEADERS_TYPE), to which the
        converter may add some (KIP-440).
        """
        return self.from_connect(topic, array, metadata), headers


class HeaderConverter(ABC):
    """Converts the values of headers one by one, because few of them are used."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()
    takes_java_values: ClassVar[bool] = False  # of transforms/java_values too, and not only Python's own

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the configuration, its keys without the prefix header.converter."""

    @abstractmethod
    def to_connect_header(self, topic: str, name: str, value: bytes | None) -> tuple[Schema | None, Any]:
        """The schema of the header and its value as a Python value."""

    @abstractmethod
    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a value."""


def schema_of(metadata: Metadata | None) -> Schema | None:
    """The Connect schema in a field's metadata, or None."""
    text = (metadata or {}).get(SCHEMA_KEY)
    return None if text is None else from_text(text)
