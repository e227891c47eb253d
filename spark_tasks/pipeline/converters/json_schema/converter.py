"""JsonSchemaConverter: JSON texts, each after the id of its JSON Schema in a schema registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn
from urllib.parse import urljoin

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, OneOfIgnoringCase, Rule, Type
from spark_tasks.data.columns import SCHEMA_KEY, Metadata
from spark_tasks.data.schema import Schema, to_text
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import BadRowsError, Column
from spark_tasks.pipeline.converters.json_columns import read_tape
from spark_tasks.pipeline.converters.json_defaults import with_numbers
from spark_tasks.pipeline.converters.json_schema.compatibility import check_fits
from spark_tasks.pipeline.converters.json_schema.documents import parse, with_definitions
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions
from spark_tasks.pipeline.converters.json_schema.to_connect import connect_schema
from spark_tasks.pipeline.converters.json_schema.to_json_schema import json_schema_text
from spark_tasks.pipeline.converters.json_schema.values import ConfluentReader, ConfluentWriter
from spark_tasks.pipeline.converters.json_text import OF_CONFLUENT
from spark_tasks.pipeline.converters.registered import Read, Registered, RegisteredConverter, Write, flag, keys_of
from spark_tasks.registry.client import SchemaText, require_packages

_JSON_KEYS = ConfigDef(
    flag("object.additional.properties", Importance.MEDIUM,
         "Whether objects may have members that are not in their schema.", default=True),
    flag("use.optional.for.nonrequired", Importance.MEDIUM,
         "Whether members that a schema does not require become optional fields."),
    flag("ignore.modern.dialects", Importance.LOW, "Has no effect: schemas of all drafts are read in the same way."),
    ConfigKey("decimal.format", Type.STRING, default="BASE64", validator=OneOfIgnoringCase("NUMERIC", "BASE64"),
              importance=Importance.LOW, doc="The format of decimals: BASE64 (their bytes) or NUMERIC."),
    flag("flatten.singleton.unions", Importance.LOW, "Whether a union of one schema is read as that schema.",
         default=True),
    ConfigKey("preserve.additional.properties", Type.BOOLEAN, default=False, importance=Importance.MEDIUM,
              validator=Rule("false, because members that are not in the schema are dropped", lambda v: not v),
              doc="Not supported: must be false, because members that are not in the schema are dropped."),
)  # fmt: skip
_VALIDATE = "json.fail.invalid.schema"  # a key of the serializer; in Java the converter does not define it, either


@dataclass(frozen=True, slots=True)
class _Described:
    text: SchemaText
    record: str | None
    index: bytes = b""


class JsonSchemaConverter(RegisteredConverter):
    """Behaves as Confluent's JsonSchemaConverter."""

    aliases = ("io.confluent.connect.json.JsonSchemaConverter", "JsonSchemaConverter")
    config_def: ClassVar[ConfigDef] = keys_of(_JSON_KEYS)
    kind = "JSON"
    read_words = "Converting byte[] to Kafka Connect data failed due to serialization error of topic {}: "
    write_words = "Converting Kafka Connect data to byte[] failed due to serialization error of topic {}: "
    writes_nulls = True

    @override
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        super().configure(configs, is_key=is_key)
        self._validates = str(configs.get(_VALIDATE, "false")).strip().lower() == "true"
        if self._validates:
            require_packages("jsonschema_rs")

    @override
    def _options_from(self, values: Mapping[str, Any]) -> None:
        self._options = JsonSchemaOptions.of(values)

    @override
    def record_name(self, written: Registered) -> str | None:
        """Returns the title of the schema."""
        definition = parse(written.text.text)
        title = definition.get("title") if isinstance(definition, Mapping) else None
        return title if isinstance(title, str) else None

    @override
    def reader(self, written: Registered, newest: Registered | None, version: Callable[[SchemaText], int | None]
               ) -> Read:
        """Records have no trace of the schema that they were written with, so another one takes its place."""
        text, references, _ = newest or written
        others = {name: one.text for name, one in references.items()}
        schema = connect_schema(text.text, others, self._options, version(text))
        metadata = {SCHEMA_KEY: to_text(schema).encode()}
        validate = self._validator(text, references)

        def read(payloads: list[bytes], skip: int) -> Column:
            texts = [payload[skip:] for payload in payloads]
            tape = read_tape(pa.array(texts, pa.binary()), OF_CONFLUENT)
            validate(texts)
            return ConfluentReader(tape, may_lack=True).read(schema, tape.roots), metadata

        return read

    @override
    def describe(self, schema: Schema | None) -> _Described:
        if schema is None:
            raise DataError("JsonSchemaConverter needs records with a schema; JsonConverter does not")
        return _Described(SchemaText(json_schema_text(schema, self._options), "JSON"), schema.name)

    @override
    def writer(self, schema: Schema | None, text: SchemaText, *, given: bool) -> Write:
        options = self._options
        schema = with_numbers(schema) if schema is not None and options.numeric else schema
        writer = ConfluentWriter(numeric_decimals=options.numeric, replace_nulls=not options.ignore_defaults)
        references = self._registry.referenced(text) if given else {}
        if given and self._strict:
            own = self.describe(schema).text.text
            check_fits(own, text.text, {name: one.text for name, one in references.items()})
        validate = self._validator(text, references)

        def write(array: pa.Array, metadata: Metadata) -> pa.Array:
            written = writer.write(array, schema, metadata).cast(pa.binary())
            validate(written.to_pylist() if self._validates else [])
            return written

        return write

    def _validator(self, text: SchemaText, references: Mapping[str, SchemaText]) -> Callable[[list[bytes]], None]:
        """Returns a function that raises BadRowsError for texts that do not match the schema, with
        json.fail.invalid.schema.
        """
        if not self._validates:
            return lambda _: None
        import jsonschema_rs  # noqa: PLC0415 - an optional package

        root = with_definitions(parse(text.text))
        others = {name: with_definitions(parse(one.text)) for name, one in references.items()}
        try:
            registry = jsonschema_rs.Registry(_resources(root, others), retriever=_retrieve_nothing)
            validator = jsonschema_rs.validator_for(root, registry=registry, retriever=_retrieve_nothing)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise DataError(f"a JSON schema is not valid: {_message(error)}") from error

        def validate(payloads: list[bytes]) -> None:
            bad: list[tuple[int, Exception]] = []
            for row, payload in enumerate(payloads):
                try:
                    validator.validate(json.loads(payload))
                except ValueError as error:
                    bad.append((row, DataError(f"JSON does not match its schema: {_message(error)}")))
            if bad:
                raise BadRowsError(bad)

        return validate


def _resources(root: Any, references: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns the references with their names, and with the URIs that these are in a schema that has an $id."""
    ids = [one.get("$id", one.get("id")) for one in (root, *references.values()) if isinstance(one, Mapping)]
    bases = {one for one in ids if isinstance(one, str)}
    return [(uri, schema) for name, schema in references.items()
            for uri in {name, *(urljoin(base, name) for base in bases)}]


def _retrieve_nothing(uri: str) -> NoReturn:
    """Refuses to read a file or to send a request because a schema says so."""
    raise ValueError(f"register {uri} as a reference of the schema")


def _message(error: Exception) -> str:
    return str(getattr(error, "message", error))[:500]
