"""ProtobufConverter: Protobuf payloads, each after the id of its schema in a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, Importance
from spark_tasks.data.columns import SCHEMA_KEY, Metadata
from spark_tasks.data.schema import Schema, to_text
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters.base import BadRowError, Column, MixedSchemasError
from spark_tasks.pipeline.converters.protobuf import indexes
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.registered import (
    Described,
    Payloads,
    Read,
    Registered,
    RegisteredConverter,
    Write,
    flag,
    keys_of,
)
from spark_tasks.registry.client import SchemaText
from spark_tasks.registry.errors import UnusableSchemaError

if TYPE_CHECKING:
    from spark_tasks.pipeline.converters.protobuf.tree import Message, Schemas

_NAME = "io.confluent.connect.protobuf.ProtobufConverter"
_NO_SCHEMA = "ProtobufConverter needs records with a schema; JsonConverter does not"
_PROTOBUF_KEYS = ConfigDef(
    flag("enhanced.protobuf.schema.support", Importance.MEDIUM, "Whether schema names include their packages."),
    flag("scrub.invalid.names", Importance.MEDIUM,
         "Whether characters that Protobuf does not allow in names are replaced."),
    flag("int.for.enums", Importance.MEDIUM, "Whether enums become numbers instead of strings."),
    flag("optional.for.nullables", Importance.MEDIUM,
         "Whether a nullable field is one with the label optional."),
    flag("optional.for.proto2", Importance.MEDIUM,
         "Whether absent optional fields of proto2 are null instead of their default.", default=True),
    flag("wrapper.for.nullables", Importance.MEDIUM,
         "Whether a nullable field is one with a wrapper type such as google.protobuf.StringValue."),
    flag("wrapper.for.raw.primitives", Importance.MEDIUM,
         "Whether a record with a wrapper type such as google.protobuf.StringValue becomes the wrapped value.",
         default=True),
    flag("generate.struct.for.nulls", Importance.MEDIUM,
         "Whether absent messages become structs of default values instead of null."),
    flag("generate.index.for.unions", Importance.LOW,
         "Whether the name of a oneof gets its index as a suffix.", default=True),
    flag("flatten.unions", Importance.LOW, "Whether the fields of a oneof are fields of its message."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Described:
    text: SchemaText
    record: str
    index: bytes


class ProtobufConverter(RegisteredConverter):
    """Behaves as Confluent's ProtobufConverter."""

    aliases = (_NAME, "ProtobufConverter")
    config_def: ClassVar[ConfigDef] = keys_of(_PROTOBUF_KEYS)
    kind = "PROTOBUF"
    packages = ("google.protobuf", "ptars", "grpc_tools")
    read_words = "Failed to deserialize data for topic {} to Protobuf:"
    write_words = "Failed to serialize Protobuf data from topic {}:"
    null_is_tombstone = True

    @override
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        """Raises ConfigError, also if skip.known.types is false."""
        super().configure(configs, is_key=is_key)
        if str(configs.get("skip.known.types", "true")).strip().lower() != "true":
            raise ConfigError("Invalid value false for configuration skip.known.types: not supported, because "
                              "registries have the files of google/protobuf, google/type and confluent")

    @override
    def _options_from(self, values: Mapping[str, Any]) -> None:
        self._options = ProtobufOptions.of(values)
        size = max(1, values["schemas.cache.config"])
        self._own = lru_cache(size)(self._own_message)
        self._schemas = lru_cache(size)(self._compiled)

    def _own_message(self, schema: Schema) -> tuple[Schemas, str, str]:
        from spark_tasks.pipeline.converters.protobuf.to_protobuf import protobuf_file  # noqa: PLC0415 - an extra
        from spark_tasks.pipeline.converters.protobuf.tree import Schemas  # noqa: PLC0415

        files, text, name = protobuf_file(schema, self._options)
        return Schemas(files), text, name

    def _compiled(self, text: SchemaText) -> Schemas:
        from spark_tasks.pipeline.converters.protobuf.files import files_of  # noqa: PLC0415 - needs an extra
        from spark_tasks.pipeline.converters.protobuf.tree import Schemas  # noqa: PLC0415

        references = {name: one.text for name, one in self._registry.referenced(text).items()}
        return Schemas(files_of(text.text, references))

    @override
    def located(self, payloads: list[bytes], skip: int) -> Payloads:
        found = indexes.read(payloads, skip)
        if len(found.indexes) > 1:
            raise MixedSchemasError(found.codes)
        return Payloads(found.payloads, 0, found.indexes[0])

    @override
    def record_name(self, written: Registered) -> str | None:
        """Returns the full name of the records' message."""
        schemas: Schemas = self._schemas(written.text)
        return schemas.record(written.message)

    @override
    def reader(self, written: Registered, newest: Registered | None, version: Callable[[SchemaText], int | None]
               ) -> Read:
        """Of another schema, records have the message with the name of their own, or else the first one, as in Java."""
        schemas, index, options = self._schemas(written.text), written.message, self._options
        if newest is not None:
            record, schemas = schemas.record(index), self._schemas(newest.text)
            index = schemas.index(record) or indexes.FIRST
        return _decoder(schemas.message(index), options, version((newest or written).text))

    @override
    def describe(self, schema: Schema | None) -> _Described:
        if schema is None:
            raise DataError(_NO_SCHEMA)
        schemas, text, name = self._own(schema)
        return _Described(SchemaText(text, "PROTOBUF"), name, indexes.written(schemas.index(name) or (0,)))

    @override
    def index_of(self, described: Described, text: SchemaText, *, given: bool) -> bytes:
        """Returns the index of the records' message; in another schema, that of the message with the same name."""
        return indexes.written(self._registered(text, described.record)[1]) if given else described.index

    def _registered(self, text: SchemaText, record: str | None) -> tuple[Schemas, tuple[int, ...]]:
        schemas = self._schemas(text)
        place = schemas.index(record or "")
        if place is None:
            raise UnusableSchemaError(f"Incompatible schema: the schema to write with has no message {record}, which "
                                      "is the type of the records")
        return schemas, place

    @override
    def writer(self, schema: Schema | None, text: SchemaText, *, given: bool) -> Write:
        from spark_tasks.pipeline.converters.protobuf import columns  # noqa: PLC0415 - needs an extra
        from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec  # noqa: PLC0415

        if schema is None:
            raise DataError(_NO_SCHEMA)
        schemas, _, name = self._own(schema)
        message = schemas.message(schemas.index(name) or (0,))
        if given:
            theirs, place = self._registered(text, name)
            if self._strict:
                _check_fits(message, theirs.message(place))
            message = theirs.message(place)
        codec, options = ProtobufCodec(message), self._options

        def write(array: pa.Array, metadata: Metadata) -> pa.Array:  # noqa: ARG001 - Write's shape
            return codec.encode(columns.from_connect(array, schema, message, options))

        return write


def _decoder(message: Message, options: ProtobufOptions, version: int | None) -> Read:
    from spark_tasks.pipeline.converters.protobuf import columns  # noqa: PLC0415 - needs an extra
    from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec  # noqa: PLC0415
    from spark_tasks.pipeline.converters.protobuf.to_connect import connect_schema  # noqa: PLC0415

    codec, schema = ProtobufCodec(message), connect_schema(message, options, version)
    metadata = {SCHEMA_KEY: to_text(schema).encode()}

    def read(payloads: pa.Array, _: int) -> Column:
        try:
            return columns.to_connect(codec.decode(payloads), message, schema, options), metadata
        except BadRowError:
            raise
        except DataError as error:
            raise UnusableSchemaError(str(error)) from error

    return read


def _check_fits(mine: Message, theirs: Message) -> None:
    """Raises UnusableSchemaError if the schema to write with lacks a field of the records' own schema."""
    theirs_by_name = {member.name: member for member in theirs.members}
    for member in mine.members:
        other = theirs_by_name.get(member.name)
        if other is None:
            raise UnusableSchemaError(
                f"Incompatible schema: the schema to write with has no field {member.name}, which the records "
                "have (latest.compatibility.strict, id.compatibility.strict)"
            )
        if member.message is not None and other.message is not None:
            _check_fits(member.message, other.message)
