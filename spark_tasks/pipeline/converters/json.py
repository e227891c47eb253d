"""JsonConverter: JSON texts, with or without a schema for each payload (schemas.enable)."""


from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.arrays.buffers import Bools, Bytes, Texts, all_valid, texts
from spark_tasks.arrays.concatenation import join
from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, OneOfIgnoringCase, Type, Width
from spark_tasks.data.columns import SCHEMA_KEY, Metadata
from spark_tasks.data.schema import Schema, to_text
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters import json_kernels as kernels
from spark_tasks.pipeline.converters import json_text
from spark_tasks.pipeline.converters.base import (
    CONVERTER_KEYS,
    BadRowsError,
    Column,
    Converter,
    HeaderConverter,
    MixedSchemasError,
    schema_of,
)
from spark_tasks.pipeline.converters.json_columns import (
    find_members,
    packed_names,
    parse_columns,
    raw,
    read_tape,
    whole_values,
)
from spark_tasks.pipeline.converters.json_defaults import read_schema, with_numbers
from spark_tasks.pipeline.converters.json_header import header_json
from spark_tasks.pipeline.converters.json_tape import OBJECT, Tape, enclosed, tokenize
from spark_tasks.pipeline.converters.json_typed import TypedReader
from spark_tasks.pipeline.converters.json_write import JsonWriter
from spark_tasks.pipeline.converters.python_values import to_python

_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_MEMBERS = ("schema", "payload")
_MAX_SPELLINGS = 64  # of their names, with escapes; so many only occur in records that are made to be slow


class JsonConverter(Converter, HeaderConverter):
    """Behaves as Kafka Connect's JsonConverter."""

    version = "4.3.1"
    aliases = ("org.apache.kafka.connect.json.JsonConverter", "JsonConverter")
    takes_java_values = True
    config_def: ClassVar[ConfigDef] = CONVERTER_KEYS.plus(
        ConfigKey(
            "schemas.enable", Type.BOOLEAN, default=True, importance=Importance.HIGH, group="Schemas", order=0,
            width=Width.MEDIUM, display_name="Enable Schemas",
            doc="Whether each key and value contains its schema and the payload.",
        ),
        ConfigKey(
            "schemas.cache.size", Type.INT, default=1000, importance=Importance.HIGH, group="Schemas", order=1,
            width=Width.MEDIUM, display_name="Schema Cache Size", doc="The number of parsed schemas in the cache.",
        ),
        ConfigKey(
            "schema.content", Type.STRING, default=None, importance=Importance.HIGH, group="Schemas", order=2,
            width=Width.MEDIUM, display_name="Schema Content",
            doc="With schemas.enable, for sinks: the schema of all records, which then contain only the payload.",
        ),
        ConfigKey(
            "decimal.format", Type.STRING, default="BASE64", validator=OneOfIgnoringCase("NUMERIC", "BASE64"),
            importance=Importance.LOW, group="Serialization", order=0, width=Width.MEDIUM,
            display_name="Decimal Format", doc="The format of decimals: BASE64 (their bytes) or NUMERIC.",
        ),
        ConfigKey(
            "replace.null.with.default", Type.BOOLEAN, default=True, importance=Importance.LOW, group="Serialization",
            order=1, width=Width.MEDIUM, display_name="Replace null with default",
            doc="Whether a null field is replaced with its default value, if it has one.",
        ),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str], *, is_key: bool = False) -> None:
        values = self.config_def.parse({**configs, "converter.type": "key" if is_key else "value"})
        self._schemas = bool(values["schemas.enable"])
        self._replace_nulls = bool(values["replace.null.with.default"])
        self._numeric = str(values["decimal.format"]).upper() == "NUMERIC"
        self._writer = JsonWriter(numeric_decimals=self._numeric, replace_nulls=self._replace_nulls)
        content = values["schema.content"]
        try:
            fixed = read_schema(content) if content else None
        except DataError as error:
            raise ConfigError(f"schema.content: {error}") from error
        self._fixed = fixed if self._schemas else None

    @override
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        if not self._schemas:
            return parse_columns(array)
        if self._fixed is not None:
            tape = read_tape(array)
            return self._typed(tape, self._fixed, tape.roots)
        return self._in_same_envelope(array) or self._enveloped(read_tape(array))

    def _typed(self, tape: Tape, schema: Schema, tokens: np.ndarray[Any, Any]) -> Column:
        reader = TypedReader(tape, replace_nulls=self._replace_nulls)
        values = reader.read(schema, tokens, tombstones=tape.roots < 0)
        return values, {SCHEMA_KEY: to_text(schema).encode()}

    def _in_same_envelope(self, array: pa.Array) -> Column | None:
        """Parses only the payloads, which is fast. Returns None unless all records have the same schema text."""
        values = texts(array)
        valid = all_valid(len(array)) if values.valid is None else values.valid
        envelope = _first_envelope(values, valid)
        if envelope is None:
            return None
        prefix, suffix, schema = envelope
        begins, stops = np.empty(len(array), np.int32), np.empty(len(array), np.int32)
        if not enclosed(values.data, values.offsets, valid, prefix, suffix, begins, stops):
            return None
        try:
            array.cast(pa.string())  # check that it is UTF-8
            tape = tokenize(values.data, begins, stops, valid)
            return None if len(tape.unusual) else self._typed(tape, schema, tape.roots)
        except pa.ArrowInvalid:
            return None  # the general path handles it

    def _enveloped(self, tape: Tape) -> Column:
        rows = np.flatnonzero(tape.roots >= 0)
        if not len(rows):
            return pa.nulls(len(tape.roots)), {}
        schemas, payloads = _envelopes(tape, rows)
        schema = _the_schema(tape, schemas, rows)
        if schema is None:
            return whole_values(tape, payloads)
        return self._typed(tape, schema, payloads)

    @override
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        schema = schema_of(metadata)
        schema = with_numbers(schema) if schema is not None and self._numeric else schema
        written = self._writer.write(array, schema, metadata)
        if self._schemas:
            described = "null" if schema is None else to_text(schema)
            written = join(f'{{"schema":{described},"payload":', written, "}", nulls="emit_null")
        if schema is None and array.null_count:
            written = pc.if_else(array.is_valid(), written, pa.scalar(None, pa.string()))
        if schema is None and pa.types.is_null(array.type):
            return pa.nulls(len(array), pa.binary())
        return written.cast(pa.binary())

    @override
    def to_connect_header(self, topic: str, name: str, value: bytes | None) -> tuple[Schema | None, Any]:
        array, metadata = self.to_connect(topic, pa.array([value], pa.binary()))
        return schema_of(metadata), to_python(array, metadata)[0]

    @override
    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        schema = with_numbers(schema) if schema is not None and self._numeric else schema
        payload = header_json(self._writer, schema, value)
        described = "null" if schema is None else to_text(schema)
        return (f'{{"schema":{described},"payload":{payload}}}' if self._schemas else payload).encode()


def _first_envelope(found: Texts, there: Bools) -> tuple[Bytes, Bytes, Schema] | None:
    """Returns the text before and after the payload of the first record, and its schema. Returns None if they cannot be
    separated, or the schema is invalid.
    """
    if not there.any():
        return None
    row = int(np.argmax(there))
    begin, stop = int(found.offsets[row]), int(found.offsets[row + 1])
    tape = tokenize(found.data, found.offsets[row : row + 1], found.offsets[row + 1 : row + 2], all_valid(1))
    if len(tape.unusual) or tape.kinds[0] != OBJECT:
        return None
    names, cells = find_members(tape, tape.roots) or ([], None)
    if names != ["schema", "payload"] or cells is None:
        return None
    schema = raw(tape, cells[0])[0].as_py()
    payload = raw(tape, cells[1])[0].as_py().encode()
    quote = payload.startswith(b'"')
    start = int(tape.starts[cells[1][0]]) - quote
    prefix, suffix = found.data[begin:start], found.data[start + len(payload) : stop]
    try:
        return None if schema == "null" else (prefix, suffix, read_schema(schema))
    except DataError:
        return None  # the general path names all records that have it


def _envelopes(tape: Tape, rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns the schema and payload tokens of the envelopes in `rows`, -1 for all other rows. Raises BadRowsError with
    all invalid envelopes.
    """
    good, cells = _members_of_envelopes(tape)
    bad = rows[~good[rows]]
    if len(bad):
        error = DataError(_ENVELOPE)
        raise BadRowsError([(row, error) for row in bad.tolist()])
    return cells[0], cells[1]


def _members_of_envelopes(tape: Tape) -> tuple[Bools, np.ndarray[Any, Any]]:
    """Returns which records are objects with the members of _MEMBERS and no others, and the tokens of these members.

    A name may also be written with escapes. Other names are not collected: they may be data, and as many as records.
    """
    members, written = list(_MEMBERS), [name.encode() for name in _MEMBERS]
    cells = np.empty((len(written), len(tape.roots)), np.int32)
    good = np.ones(len(tape.roots), np.bool_)
    state, row = kernels.NEW_KEY, 0
    while True:
        packed, ends = packed_names(written)
        state, row, key = kernels.members(
            tape.data, tape.kinds, tape.starts, tape.ends, tape.nexts, tape.roots, packed, ends, len(written), row,
            cells,
        )
        if state == kernels.FOUND:
            break
        name = tape.data[tape.starts[key] : tape.ends[key]].tobytes()
        meant = json_text.parse(b'"' + name + b'"') if b"\\" in name else None
        if meant in _MEMBERS and len(written) < _MAX_SPELLINGS:
            members.append(meant)
            written.append(name)
            cells = np.concatenate([cells, np.full((1, len(tape.roots)), -1, np.int32)])
        else:
            good[row] = False
            row += 1
    found = np.array([cells[[member == one for member in members]].max(axis=0) for one in _MEMBERS])  # the last counts
    return good & (found >= 0).all(axis=0), found


def _the_schema(tape: Tape, schemas: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> Schema | None:
    """Returns the schema of all records. `schemas`: their tokens; -1 for a null record. Raises MixedSchemasError, and
    BadRowsError for schemas that are invalid.
    """
    first = int(rows[0])
    if kernels.first_differing(tape.data, tape.starts, tape.ends, schemas, first) == len(schemas):
        try:
            return _schema(raw(tape, schemas[first : first + 1])[0].as_py())
        except DataError as error:
            raise BadRowsError([(row, error) for row in rows.tolist()]) from error
    encoded = raw(tape, schemas).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    found: dict[Schema | None, int] = {}
    same: list[int] = []
    bad: list[tuple[int, Exception]] = []
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            same.append(found.setdefault(_schema(text), code))
        except DataError as error:
            same.append(code)
            bad += [(row, error) for row in np.flatnonzero(codes == code).tolist()]
    if bad:
        raise BadRowsError(sorted(bad, key=lambda one: one[0]))
    if len(found) > 1:
        raise MixedSchemasError(np.where(codes >= 0, np.array(same)[codes], -1))
    return next(iter(found))


def _schema(text: str) -> Schema | None:
    return None if text == "null" else read_schema(text)
