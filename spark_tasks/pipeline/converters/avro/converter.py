"""AvroConverter: Avro payloads, each after the id of its schema in a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, Importance
from spark_tasks.data.columns import SCHEMA_KEY, Metadata
from spark_tasks.data.schema import Schema, to_text
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_avro import avro_text
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import Node, parse
from spark_tasks.pipeline.converters.base import BadRowsError, Column
from spark_tasks.pipeline.converters.registered import Read, Registered, RegisteredConverter, Write, flag, keys_of
from spark_tasks.registry.apicurio import writes_as_apicurio
from spark_tasks.registry.client import SchemaText
from spark_tasks.registry.errors import UnusableSchemaError

if TYPE_CHECKING:
    from spark_tasks.pipeline.converters.avro.codec import AvroCodec, BytesCodec

_NAME = "io.confluent.connect.avro.AvroConverter"
_WHOLE = "avro.fail.on.trailing.data"  # a key of the deserializer; in Java the converter does not define it, either
_TRAILING = "Trailing data found after deserializing Avro message"

_AVRO_KEYS = ConfigDef(
    flag("enhanced.avro.schema.support", Importance.MEDIUM,
         "Whether enums remain enums, and records in unions are also distinguished by their namespaces."),
    flag("scrub.invalid.names", Importance.MEDIUM,
         "Whether characters that Avro does not allow in names are replaced."),
    flag("connect.meta.data", Importance.LOW,
         "Whether Avro schemas have connect.* properties for the parts of Connect schemas that Avro does not have.",
         default=True),
    flag("discard.type.doc.default", Importance.LOW,
         "Whether docs and defaults of types are discarded; those of fields remain."),
    flag("allow.optional.map.keys", Importance.LOW,
         "Whether maps whose keys are optional strings are maps in Avro."),
    flag("flatten.singleton.unions", Importance.LOW,
         "Whether a union of one type is read as that type.", default=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Described:
    text: SchemaText
    record: str | None
    index: bytes = b""


class AvroConverter(RegisteredConverter):
    """Behaves as Confluent's AvroConverter."""

    aliases = (
        _NAME, "AvroConverter",
        "io.apicurio.registry.utils.converter.AvroConverter",
    )  # fmt: skip
    config_def: ClassVar[ConfigDef] = keys_of(_AVRO_KEYS)
    kind = "AVRO"
    packages = ("fastavro", "pyruhvro")
    read_words = "Failed to deserialize data for topic {} to Avro:"
    write_words = "Failed to serialize Avro data from topic {}:"

    @override
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        super().configure(configs, is_key=is_key)
        self._bytes_have_length = writes_as_apicurio(configs)
        self._refuses_trailing_data = str(configs.get(_WHOLE, "false")).strip().lower() == "true"

    @override
    def _options_from(self, values: Mapping[str, Any]) -> None:
        self._options = AvroOptions.of(values)

    @override
    def record_name(self, written: Registered) -> str | None:
        return _record(_parsed(written.text, written.references))

    @override
    def reader(self, written: Registered, newest: Registered | None, version: Callable[[SchemaText], int | None]
               ) -> Read:
        """The version is that of the schema that the records were written with, as in Java."""
        from spark_tasks.pipeline.converters.avro import anything, columns  # noqa: PLC0415 - need an extra
        from spark_tasks.pipeline.converters.avro.resolution import resolved  # noqa: PLC0415 - needs an extra

        if anything.is_anything(written.text.text):
            return anything.read
        own = _parsed(written.text, written.references)
        node = own if newest is None else _parsed(newest.text, newest.references)
        schema = connect_schema(node, self._options, version(written.text))
        codec = self._codec(own)
        metadata = {SCHEMA_KEY: to_text(schema).encode()}

        def read(payloads: list[bytes], skip: int) -> Column:
            wire = codec.decode(payloads, skip)
            trailing = codec.with_trailing_data(payloads, skip, wire) if self._refuses_trailing_data else []
            if trailing:
                raise BadRowsError([(row, DataError(_TRAILING)) for row in trailing])
            if newest is not None:
                wire = resolved(wire, own, node)
            return columns.to_connect(wire, node, schema), metadata

        return read

    @override
    def describe(self, schema: Schema | None) -> _Described:
        text = avro_text(schema, self._options)
        return _Described(SchemaText(text, "AVRO"), None if schema is None else _record(parse(text)))

    @override
    def writer(self, schema: Schema | None, text: SchemaText, *, given: bool) -> Write:
        from spark_tasks.pipeline.converters.avro import anything, columns  # noqa: PLC0415 - need an extra

        if schema is None:
            return anything.write
        node = _parsed(text, self._registry.referenced(text) if given else {})
        if given and self._strict:
            _check_fits(schema, node, self._options)
        codec, options = self._codec(node), self._options

        def write(array: pa.Array, metadata: Metadata) -> pa.Array:  # noqa: ARG001 - Write's shape
            return codec.encode(columns.from_connect(array, schema, node, options))

        return write

    def _codec(self, node: Node) -> AvroCodec | BytesCodec:
        from spark_tasks.pipeline.converters.avro.codec import AvroCodec, BytesCodec  # noqa: PLC0415 - needs an extra

        return BytesCodec() if node.kind == "bytes" and not self._bytes_have_length else AvroCodec(node)


def _parsed(text: SchemaText, references: Mapping[str, SchemaText]) -> Node:
    return parse(text.text, [reference.text for reference in references.values()])


def _record(node: Node) -> str | None:
    return node.name if node.kind == "record" else None


def _check_fits(schema: Schema, node: Node, options: AvroOptions) -> None:
    """Raises UnusableSchemaError if the schema to write with lacks a field that the records' own schema requires."""
    node = node.optional_of or node
    if node.kind != "record":
        return
    node_by_name = {member.name: member.node for member in node.members}
    for field in schema.fields:
        inner = node_by_name.get(options.name(field.name))
        if inner is not None:
            _check_fits(field.schema, inner, options)
        elif field.schema.default is None and not field.schema.optional:
            raise UnusableSchemaError(
                f"Incompatible schema: the schema to write with has no field {field.name}, which the records "
                "require (latest.compatibility.strict, id.compatibility.strict)"
            )
