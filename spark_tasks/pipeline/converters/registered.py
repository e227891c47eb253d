"""The base class of converters with a schema registry: schema ids before the payload, subjects and caches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.data.columns import HEADERS_TYPE, Metadata
from spark_tasks.data.schema import Schema
from spark_tasks.errors import ConfigError, DataError, RetriableError
from spark_tasks.pipeline.converters.base import (
    CONVERTER_KEYS,
    BadRowError,
    BadRowsError,
    Column,
    Converter,
    MixedSchemasError,
    schema_of,
)
from spark_tasks.registry.apicurio import RegistryConfigDef, unified
from spark_tasks.registry.caches import with_failures
from spark_tasks.registry.client import SchemaName, SchemaText, registry_of, require_packages
from spark_tasks.registry.errors import RefusedSchemaError, UnknownSchemaError, UnusableSchemaError
from spark_tasks.registry.settings import (
    REGISTRY_KEYS,
    check,
    metadata_properties,
    reads_headers,
    writes_headers,
)
from spark_tasks.registry.subjects import Subjects
from spark_tasks.registry.wire import SchemaId, framed, unframed, with_header

_UNUSABLE_S: Final = 300.0  # for this long a schema stays unusable: it may take a compiler a minute to say so


def flag(name: str, importance: Importance, doc: str, *, default: bool = False) -> ConfigKey:
    """Returns a boolean key."""
    return ConfigKey(name, Type.BOOLEAN, default=default, importance=importance, doc=doc)


# for the mappings of all schema types
MAPPING_KEYS = ConfigDef(
    flag("generalized.sum.type.support", Importance.MEDIUM,
         "Whether enums and unions have the same Connect schema for all schema types."),
    flag("ignore.default.for.nullables", Importance.MEDIUM,
         "Whether a null remains null although the field has a default value."),
    ConfigKey("schemas.cache.config", Type.INT, default=1000, importance=Importance.LOW,
              doc="The number of converted schemas in the cache."),
)  # fmt: skip



def keys_of(*more: ConfigDef) -> ConfigDef:
    """Returns the keys of all converters with a registry, and `more`: those of one converter."""
    return RegistryConfigDef(*CONVERTER_KEYS.plus(REGISTRY_KEYS, MAPPING_KEYS, *more).keys.values())


class Registered(NamedTuple):
    """A registered schema with all schemas that it references, by name; each follows those that it references.
    `message`: the index of the records' message in it (see Payloads).
    """

    text: SchemaText
    references: Mapping[str, SchemaText]
    message: tuple[int, ...] = ()


class Payloads(NamedTuple):
    """The payloads of records with one schema, each after `skip` bytes. `message`: the index of their message in the
    schema; empty except in Protobuf, whose converter's `values` are a binary array.
    """

    values: list[bytes] | pa.Array
    skip: int
    message: tuple[int, ...] = ()


Read = Callable[[Any, int], Column]
"""Converts the values of Payloads, each after a number of bytes to skip, to values and their field's metadata. Raises
BadRowError, BadRowsError.
"""


class Described(Protocol):
    """A Connect schema, converted to a schema for the registry."""

    @property
    def text(self) -> SchemaText:
        """The schema to register."""

    @property
    def record(self) -> str | None:
        """The record name, from which a subject name may be made."""

    @property
    def index(self) -> bytes:
        """The bytes between the schema id and the payload."""


Write = Callable[[pa.Array, Metadata], pa.Array]
"""Converts values without nulls, with their metadata, to payloads (binary). Raises BadRowError, DataError."""


class RegisteredConverter(Converter):
    """A converter with a registry. It caches the readers and writers of schemas, and connects for the first record."""

    version = "8.3.0"  # as Confluent's converters, whose settings these are
    kind: ClassVar[str]  # the registry's name of the schema type
    read_words: ClassVar[str]  # the start of Java's message for a record that cannot be read; {} is the topic
    write_words: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()  # packages of the extra, besides those of the client
    writes_nulls: ClassVar[bool] = False  # whether the null of an optional schema is written as a payload
    null_is_tombstone: ClassVar[bool] = False  # whether null is always a record without bytes

    @override
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        """Raises ConfigError for invalid settings and if packages of the extra are missing."""
        names_latest = "use.latest.version" in configs  # not find-latest: Apicurio's clients only write the newest
        configs = unified(configs)
        values = self.config_def.parse({**configs, "converter.type": "key" if is_key else "value"})
        check(values)
        require_packages(*self.packages)
        self._values, self._is_key = values, is_key
        self._metadata = metadata_properties(values)
        self._reads_latest = (names_latest and values["use.latest.version"]) or bool(self._metadata)
        self._subjects = Subjects(values, configs, is_key=is_key)
        self._registry = registry_of(values, configs)
        self._options_from(values)
        size = max(1, values["schemas.cache.config"])
        self._read_of = with_failures(lru_cache(size)(self._reader), size, UnusableSchemaError, _UNUSABLE_S)
        self._described = with_failures(lru_cache(size)(self._describe), size, UnusableSchemaError, _UNUSABLE_S)
        self._written = with_failures(lru_cache(size)(self._writer), size, UnusableSchemaError, _UNUSABLE_S)
        self._record_of = lru_cache(size)(self._record)

    @abstractmethod
    def _options_from(self, values: Mapping[str, Any]) -> None:
        """Sets the options of the mapping from the parsed configuration."""

    def located(self, payloads: list[bytes], skip: int) -> Payloads:
        """Finds the message of payloads with one schema. Raises BadRowsError, and MixedSchemasError for several."""
        return Payloads(payloads, skip)

    @abstractmethod
    def record_name(self, written: Registered) -> str | None:
        """Returns the record name of a registered schema, from which a subject name may be made. Raises DataError."""

    @abstractmethod
    def reader(self, written: Registered, newest: Registered | None, version: Callable[[SchemaText], int | None]
               ) -> Read:
        """Returns the reader for records with the schema `written`. `newest`: another one, as whose records they are
        read. `version` returns a schema's version in the subject.
        """

    @abstractmethod
    def describe(self, schema: Schema | None) -> Described:
        """Converts a Connect schema to one for the registry. Raises DataError."""

    def index_of(self, described: Described, text: SchemaText, *, given: bool) -> bytes:  # noqa: ARG002 - see writer
        """Returns the bytes between the schema id and the payload of records written with a registered schema."""
        return described.index

    @abstractmethod
    def writer(self, schema: Schema | None, text: SchemaText, *, given: bool) -> Write:
        """Returns the writer for records with a registered schema. `given`: the registered schema is not made from the
        records' own schema.
        """

    @override
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        """Raises RetriableError while the registry is unreachable."""
        found = unframed(array, headers if reads_headers(self._values, is_key=self._is_key) else None,
                         is_key=self._is_key)
        words = self.read_words.format(topic)
        if found.bad:
            raise BadRowsError([(row, _java(DataError(why), words)) for row, why in found.bad.items()])
        rows = np.flatnonzero(found.codes >= 0)
        if not len(rows):
            return pa.nulls(len(array)), {}
        if len(found.ids) > 1:
            raise MixedSchemasError(found.codes)
        with _rows(rows, words):
            text = self._schema(found.ids[0])
            try:
                payloads = self.located(found.payloads, found.skip)
            except MixedSchemasError as mixed:
                codes = np.full(len(array), -1)
                codes[rows] = mixed.codes
                raise MixedSchemasError(codes) from None
            newest = self._newest(topic, text, payloads.message)
            read = self._read_of(topic, found.ids[0], payloads.message, newest)
            values, metadata = read(payloads.values, payloads.skip)
        return values if len(rows) == len(array) else _scattered(values, rows, len(array)), metadata

    def _newest(self, topic: str, text: SchemaText, message: tuple[int, ...]) -> SchemaText | None:
        """Returns the schema as whose records those with this schema are read, or None for their own."""
        if not self._reads_latest:
            return None
        newest = self._registry.latest(self._subject_of(topic, text, message), self._metadata)[1]
        return None if newest == text else self._checked(newest, "newest schema of the subject")

    def _schema(self, schema_id: SchemaId) -> SchemaText:
        return self._checked(self._registry.schema(schema_id), f"schema {schema_id} in the registry")

    def _checked(self, text: SchemaText, what: str) -> SchemaText:
        if text.kind != self.kind:
            raise UnusableSchemaError(f"the {what} is of the type {text.kind}, not {self.kind}")
        return text

    def _subject_of(self, topic: str, text: SchemaText, message: tuple[int, ...]) -> str:
        """Returns the subject of a record's schema. Raises UnusableSchemaError if the schema needs a name for it, or is
        invalid.
        """
        return self._subjects.subject(topic, self._record_of(text, message) if self._subjects.need_record else None)

    def _record(self, text: SchemaText, message: tuple[int, ...]) -> str | None:
        try:
            return self.record_name(self._whole(text, message))
        except _OF_ALL:
            raise
        except DataError as error:
            raise UnusableSchemaError(str(error)) from error

    def _reader(self, topic: str, schema_id: SchemaId, message: tuple[int, ...], newest: SchemaText | None) -> Read:
        text = self._schema(schema_id)

        def version(wanted: SchemaText) -> int | None:
            if self._subjects.need_record and not self._record_of(text, message):
                return None
            return self._registry.version(self._subject_of(topic, text, message), wanted)

        try:
            return self.reader(self._whole(text, message), None if newest is None else self._whole(newest), version)
        except UnknownSchemaError:
            raise
        except DataError as error:
            raise UnusableSchemaError(f"the schema {schema_id}: {error}") from error

    def _whole(self, text: SchemaText, message: tuple[int, ...] = ()) -> Registered:
        return Registered(text, self._registry.referenced(text), message)

    def _describe(self, schema: Schema | None) -> Described:
        try:
            return self.describe(schema)
        except DataError as error:
            raise UnusableSchemaError(f"the schema {schema.name if schema else None}: {error}") from error

    def _writer(self, schema: Schema | None, text: SchemaText, given: bool) -> tuple[Write, bytes]:
        """Returns the writer for records with a registered schema, and the bytes between the schema id and their
        payloads.
        """
        try:
            return (self.writer(schema, text, given=given),
                    self.index_of(self._described(schema), text, given=given))
        except _OF_ALL:
            raise
        except DataError as error:
            raise UnusableSchemaError(f"the schema to write with: {error}") from error

    @override
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        """Raises RetriableError while the registry is unreachable."""
        return self.with_headers(topic, array, metadata, pa.nulls(len(array), HEADERS_TYPE))[0]

    @override
    def with_headers(self, topic: str, array: pa.Array, metadata: Metadata | None, headers: pa.Array
                     ) -> tuple[pa.Array, pa.Array]:
        """Raises RetriableError while the registry is unreachable."""
        schema = schema_of(metadata)
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        words = self.write_words.format(topic)
        if self.writes_nulls and schema is not None and schema.optional:
            valid[:] = True
        elif schema is not None and not (schema.optional or valid.all() or self.writes_nulls or self.null_is_tombstone):
            null = DataError("Found null value for non-optional schema")
            raise BadRowsError([(row, _java(null, words)) for row in np.flatnonzero(~valid).tolist()])
        rows = np.flatnonzero(valid)
        if not len(rows):
            return pa.nulls(len(array), pa.binary()), headers
        with _rows(rows, words):
            described = self._described(schema)
            name, text, given = self._target(topic, described)
            all_rows = len(rows) == len(array)
            values = array if all_rows else array.take(pa.array(rows))
            write, index = self._written(schema, text, given)
            payloads = write(values, metadata or {})
            if not writes_headers(self._values, is_key=self._is_key):
                written = framed(name.id, payloads, index)
            else:
                written, guid = payloads, self._guid(name)
                written_rows = rows[payloads.is_valid().to_numpy(zero_copy_only=False)]
                headers = with_header(headers, written_rows, guid, index, is_key=self._is_key)
        return written if all_rows else _scattered(written, rows, len(array)), headers

    def _guid(self, name: SchemaName) -> str:
        if name.guid is None:
            part = "key" if self._is_key else "value"
            raise ConfigError(f"{part}.schema.id.serializer: HeaderSchemaIdSerializer writes GUIDs, but the schema "
                              f"registry has none for schema {name.id}; remove this setting")
        return name.guid

    def _target(self, topic: str, described: Described) -> tuple[SchemaName, SchemaText, bool]:
        """Returns name and text of the schema to write with, and whether it may differ from the records' own schema."""
        values, registry = self._values, self._registry
        record = described.record if self._subjects.need_record else None
        subject = self._subjects.subject(topic, record)
        if values["auto.register.schemas"]:
            return registry.register(subject, described.text), described.text, False
        if values["use.schema.id"] >= 0:
            text = registry.schema(values["use.schema.id"])
            guid = registry.name_of(subject, text).guid if writes_headers(values, is_key=self._is_key) else None
            return SchemaName(values["use.schema.id"], guid), text, True
        if self._metadata or values["use.latest.version"]:
            return (*registry.latest(subject, self._metadata), True)
        return registry.name_of(subject, described.text), described.text, False

    @property
    def _strict(self) -> bool:
        """Whether the schema to write with must have every field that the records' own schema requires. As in Java, one
        that its metadata choose need not.
        """
        if self._values["use.schema.id"] >= 0:
            return bool(self._values["id.compatibility.strict"])
        return not self._metadata and bool(self._values["latest.compatibility.strict"])


_OF_ALL = (UnknownSchemaError, RefusedSchemaError, UnusableSchemaError)


class _rows:  # noqa: N801 - a context manager, used like a function
    """Converts errors about these rows, or about their common schema, to errors about rows of the whole array."""

    def __init__(self, rows: np.ndarray[Any, Any], words: str) -> None:
        self._rows = rows
        self._words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (MixedSchemasError, ConfigError, RetriableError)):
            return
        if isinstance(error, BadRowsError):
            bad: Sequence[tuple[int, Exception]] = error.bad
            raise BadRowsError([(int(self._rows[row]), _java(one, self._words)) for row, one in bad]) from error
        if isinstance(error, BadRowError):
            raise BadRowError(int(self._rows[error.row]), _java(DataError(str(error)), self._words)) from error
        if isinstance(error, _OF_ALL):
            reason = _java(error, self._words)
            raise BadRowsError([(int(row), reason) for row in self._rows]) from error
        if isinstance(error, (DataError, pa.ArrowInvalid, pa.ArrowNotImplementedError)):
            if len(self._rows) == 1:
                raise BadRowError(int(self._rows[0]), _java(DataError(str(error)), self._words)) from error
            raise DataError(str(error)) from error


def _java(error: Exception, words: str) -> Exception:
    """Sets Java's message in the error."""
    if isinstance(error, DataError):
        error.java_message = words
    return error


def _scattered(values: pa.Array, rows: np.ndarray[Any, Any], size: int) -> pa.Array:
    """Returns an array with the values in `rows` and null in all others."""
    places = np.zeros(size, np.int64)
    places[rows] = np.arange(len(rows))
    missing = np.ones(size, np.bool_)
    missing[rows] = False
    return values.take(pa.array(places, mask=missing))
