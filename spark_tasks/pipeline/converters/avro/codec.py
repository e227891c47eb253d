"""Converts Avro's bytes to and from Arrow columns of plain types, without logical types.

pyruhvro, which is a hundred times faster, does it if it supports the schema. fastavro does it for all other schemas and
for records on which pyruhvro fails; in tests it is the reference. Both get the schema without names, logical types and
properties, in a record with one field, which adds no bytes. The branches of a union of several types are such records,
too, so that a value shows to which branch it belongs.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro
from fastavro.schema import SchemaParseException, parse_schema

from spark_tasks.errors import DataError, rust_code
from spark_tasks.pipeline.converters.avro.tree import NO_DEFAULT, Node
from spark_tasks.pipeline.converters.base import BadRowsError

_ARROW = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.binary(), "fixed": pa.binary(), "string": pa.string(), "enum": pa.string(), "null": pa.null(),
}  # fmt: skip
_UNSUPPORTED = frozenset({"fixed", "null"})  # pyruhvro panics
PREFIX = 5
_ID = [{"name": "magic", "type": "boolean"}, {"name": "id", "type": "float"}]
_TO_WRITE, _TO_READ = {"bytes": "string"}, {"bytes": "string", "int": "long"}
_MIN_PIECE = 32  # pieces with a bad record are divided; those of up to this many records are read one by one

Convert = Callable[[Any], Any]


def branches(node: Node) -> list[tuple[int, Node]]:
    """Returns the branches of a union that are not null, with their indexes."""
    return [(index, one) for index, one in enumerate(node.inner) if one.kind != "null"]


def wire_type(node: Node) -> pa.DataType:
    """Returns the Arrow type of the values. Fields of records are f0, f1, …, branches of unions b0, b1, …, by index."""
    return _arrow_type(node, _ARROW)


def _arrow_type(node: Node, plain: Mapping[str, pa.DataType]) -> pa.DataType:
    inner = node.optional_of
    if inner is not None:
        return _arrow_type(inner, plain)
    if node.kind == "array":
        return pa.list_(_arrow_type(node.inner[0], plain))
    if node.kind == "map":
        return pa.map_(pa.string(), _arrow_type(node.inner[0], plain))
    if node.kind == "record":
        return pa.struct([pa.field(f"f{i}", _arrow_type(one.node, plain)) for i, one in enumerate(node.members)])
    if node.kind == "union":
        return pa.struct([pa.field(f"b{index}", _arrow_type(one, plain)) for index, one in branches(node)])
    return plain[node.kind]


class BytesCodec:
    """The codec of the schema `bytes` in records of a schema registry: as in Confluent's serializers, the bytes follow
    the id without their length. Thread-safe.
    """

    def decode(self, payloads: list[bytes], skip: int = 0) -> pa.Array:
        """Returns the values. `skip`: the bytes before each payload."""
        return pa.array([payload[skip:] for payload in payloads] if skip else payloads, pa.binary())

    def with_trailing_data(self, payloads: list[bytes], skip: int, values: pa.Array) -> list[int]:  # noqa: ARG002
        """Returns no row, as all bytes are the value."""
        return []

    def encode(self, values: pa.Array) -> pa.Array:
        """Returns the bytes (binary)."""
        return values


class AvroCodec:
    """The codec of one schema. Thread-safe. `fast`: whether pyruhvro may be used."""

    def __init__(self, node: Node, *, fast: bool = True) -> None:
        self.type = wire_type(node)
        self._node = node  # must stay alive: inner nodes are identified by id()
        self._names = 0
        self._branches: dict[tuple[int, int], str] = {}
        inner = self._plain(node)
        self._check_arrays(node)
        record = {"type": "record", "name": "r", "fields": [{"name": "v", "type": inner}]}
        try:
            self._to_write, self._to_read = parse_schema(record), by_index(parse_schema(record))
        except SchemaParseException as error:
            raise DataError(f"an Avro schema is not valid: {error}") from error
        # For pyruhvro, bytes are declared as texts, which have the same layout in Avro and Arrow and which it does not
        # validate. To be read, an int is declared as a long, because pyruhvro would cut off the high bits of a larger
        # number. The five bytes of the schema id are declared as a boolean and a float, so that it skips them.
        self._text = _record_text([], _replaced(inner, _TO_WRITE))
        self._text_to_read = {skip: _record_text(fields, _replaced(inner, _TO_READ))
                              for skip, fields in ((0, []), (PREFIX, _ID))}
        self._text_type = _arrow_type(node, {**_ARROW, "bytes": pa.string()})
        self._from_reader = _from_reader(node)
        self._for_writer = _for_writer(node, self._branches)
        self._fast = fast and _is_fast(node)

    def _plain(self, node: Node) -> Any:
        if node.kind == "record":
            fields = [{"name": f"f{i}", "type": self._plain(member.node)} for i, member in enumerate(node.members)]
            return {"type": "record", "name": self._name(), "fields": fields}
        if node.kind == "array":
            return {"type": "array", "items": self._plain(node.inner[0])}
        if node.kind == "map":
            return {"type": "map", "values": self._plain(node.inner[0])}
        if node.kind == "enum":
            return {"type": "enum", "name": self._name(), "symbols": list(node.symbols)}
        if node.kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": node.size}
        if node.optional_of is not None:
            return [self._plain(branch) for branch in node.inner]
        if node.kind == "union":
            return [self._branch(node, index, branch) for index, branch in enumerate(node.inner)]
        return node.kind

    def _branch(self, node: Node, index: int, branch: Node) -> Any:
        if branch.kind == "null":
            return "null"
        known = self._branches.get((id(node), index))
        if known is not None:  # a union in a named type that is used again
            return known
        self._branches[id(node), index] = name = self._name()
        return {"type": "record", "name": name, "fields": [{"name": f"b{index}", "type": self._plain(branch)}]}

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _check_arrays(self, node: Node) -> None:
        """Raises DataError for arrays whose items have no bytes: a malicious record could declare any number."""
        if node.kind == "array" and _is_empty(node.inner[0]):
            raise DataError("an Avro array has items without bytes, such as null or an empty record")
        for one in (*node.inner, *(member.node for member in node.members)):
            self._check_arrays(one)

    def decode(self, payloads: list[bytes], skip: int = 0) -> pa.Array:
        """Returns the values. `skip`: the bytes before each payload, 0 or PREFIX. Raises BadRowsError with all payloads
        that cannot be read.
        """
        bad: list[tuple[int, Exception]] = []
        pieces = list(self._decoded(payloads, skip, 0, bad))
        if bad:
            raise BadRowsError(bad)
        return pa.concat_arrays(pieces) if pieces else pa.nulls(0, self.type)

    def _decoded(
        self, payloads: list[bytes], skip: int, begin: int, bad: list[tuple[int, Exception]]
    ) -> Iterable[pa.Array]:
        if self._fast and payloads:
            found = self._fast_decoded(payloads, skip)
            if found is not None:
                yield found
                return
            if len(payloads) > _MIN_PIECE:
                middle = len(payloads) // 2
                yield from self._decoded(payloads[:middle], skip, begin, bad)
                yield from self._decoded(payloads[middle:], skip, begin + middle, bad)
                return
        yield self._decoded_one_by_one([payload[skip:] for payload in payloads] if skip else payloads, begin, bad)

    def _fast_decoded(self, payloads: list[bytes], skip: int) -> pa.Array | None:
        try:
            with rust_code():
                batch = pyruhvro.deserialize_array(payloads, self._text_to_read[skip])
            found = _reinterpreted(batch.column("v").cast(self._text_type), self.type)
            found.validate(full=True)  # texts may not be valid UTF-8
        except Exception:  # noqa: BLE001 - any error: fastavro finds the cause
            return None
        return found

    def _decoded_one_by_one(self, payloads: list[bytes], begin: int, bad: list[tuple[int, Exception]]) -> pa.Array:
        values = []
        for row, payload in enumerate(payloads, begin):
            try:
                value = self._from_reader(self._read(payload))
                pa.scalar(value, self.type)
                values.append(value)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - fastavro has no error class for invalid bytes
                bad.append((row, DataError(f"Error deserializing Avro message: {type(error).__name__}: {error}")))
        return pa.array(values, self.type)

    def _read(self, payload: bytes) -> Any:
        return self._read_from(io.BytesIO(payload))

    def _read_from(self, payload: io.BytesIO) -> Any:
        record: Any = fastavro.schemaless_reader(payload, self._to_read, None, handle_unicode_errors="replace")
        return record["v"]

    def with_trailing_data(self, payloads: list[bytes], skip: int, values: pa.Array) -> list[int]:
        """Returns the rows whose payloads have bytes after the value. `values`: what `decode` has returned.

        No value takes fewer bytes than it is written with here (except texts that are not UTF-8, whose replacements
        are longer). So only payloads of other lengths are read again.
        """
        lengths = pc.binary_length(self.encode(values)).to_numpy(zero_copy_only=False)
        other = np.flatnonzero(lengths != np.fromiter(map(len, payloads), np.int64, len(payloads)) - skip)
        return [row for row in other.tolist() if self._has_trailing_data(payloads[row][skip:])]

    def _has_trailing_data(self, payload: bytes) -> bool:
        stream = io.BytesIO(payload)
        self._read_from(stream)
        return bool(stream.read(1))

    def encode(self, values: pa.Array) -> pa.Array:
        """Returns the bytes (binary). Raises DataError."""
        if self._fast and len(values):
            batch = pa.RecordBatch.from_arrays([_reinterpreted(values, self._text_type)], names=["v"])
            try:
                with rust_code():
                    found: pa.Array = pyruhvro.serialize_record_batch(batch, self._text, 1)[0]
            except ValueError as error:
                raise DataError(f"Error serializing Avro message: {error}") from error
            return found
        return pa.array([self._write(value) for value in values.to_pylist()], pa.binary())

    def _write(self, value: Any) -> bytes:
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._to_write, {"v": self._for_writer(value)})
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"Error serializing Avro message: {error}") from error
        return out.getvalue()


def by_index(parsed: Any) -> Any:
    """Returns fastavro's schema with mappings in place of the lists of branches and symbols. In a list, it would find
    something for a negative index of a record, too.
    """
    if isinstance(parsed, list):
        return {"type": "union", **dict(enumerate(map(by_index, parsed)))}
    if isinstance(parsed, dict):
        for key in parsed.keys() & {"type", "items", "values"}:
            parsed[key] = by_index(parsed[key])
        for field in parsed.get("fields", ()):
            field["type"] = by_index(field["type"])
        if "symbols" in parsed:
            parsed["symbols"] = dict(enumerate(parsed["symbols"]))
    return parsed


def _record_text(fields: list[dict[str, str]], inner: Any) -> str:
    """Returns the schema of a record with these fields and then the value, as text."""
    return json.dumps({"type": "record", "name": "r", "fields": [*fields, {"name": "v", "type": inner}]})


def _replaced(definition: Any, types: Mapping[str, str]) -> Any:
    """Returns the schema with other types in place of some."""
    if isinstance(definition, list):
        return [_replaced(branch, types) for branch in definition]
    if isinstance(definition, dict):
        return {key: _replaced(one, types) if key in ("type", "fields", "items", "values") else one
                for key, one in definition.items()}
    return types.get(definition, definition)


def _reinterpreted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the buffers as an array of another type with the same layout."""
    if array.type == kind:
        return array
    _, data = array.__arrow_c_array__()
    return pa.Array._import_from_c_capsule(kind.__arrow_c_schema__(), data)  # noqa: SLF001 - Arrow's own protocol


def _is_fast(node: Node) -> bool:
    if node.kind in _UNSUPPORTED or (node.kind == "record" and not node.members):
        return False
    if node.kind == "union":
        return node.optional_of is not None and _is_fast(node.optional_of)
    return all(map(_is_fast, (*node.inner, *(member.node for member in node.members))))


def _is_empty(node: Node) -> bool:
    if node.kind == "record":
        return all(_is_empty(member.node) for member in node.members)
    return node.kind == "null" or (node.kind == "fixed" and not node.size)


def _unchanged(value: Any) -> Any:
    return value


def _from_reader(node: Node) -> Convert:
    """Returns a function that converts a value of fastavro for Arrow, in which maps are lists of pairs."""
    if node.kind == "map":
        inner = _from_reader(node.inner[0])
        return lambda value: [(key, inner(one)) for key, one in value.items()]
    return _nested(node, _from_reader, lambda index: f"b{index}")


def _nested(node: Node, of: Callable[[Node], Convert], branch: Callable[[int], str]) -> Convert:
    """Returns the function for a nested value. `branch` returns the key of a union's branch."""
    if node.kind == "array":
        inner = of(node.inner[0])
        return _unchanged if inner is _unchanged else lambda value: list(map(inner, value))
    if node.kind == "record":
        steps = [(f"f{i}", of(member.node)) for i, member in enumerate(node.members)]
        changing = [(name, step) for name, step in steps if step is not _unchanged]
        if not changing:
            return _unchanged
        return lambda value: {**value, **{name: step(value[name]) for name, step in changing}}
    if node.optional_of is not None:
        inner = of(node.optional_of)
        return _unchanged if inner is _unchanged else lambda value: None if value is None else inner(value)
    if node.kind == "union":
        choices = {branch(index): of(one) for index, one in branches(node)}
        return lambda value: None if value is None else {key: choices[key](one) for key, one in value.items()}
    return _unchanged


def _for_writer(node: Node, names: dict[tuple[int, int], str]) -> Convert:
    """Returns a function that converts a value of Arrow for fastavro, where maps are dicts and branches have names."""
    def of(one: Node) -> Convert:
        return _for_writer(one, names)

    if node.kind == "map":
        inner = of(node.inner[0])
        return lambda value: {key: inner(one) for key, one in value}
    if node.kind == "union" and node.optional_of is None:
        choices = [(f"b{index}", names[id(node), index], of(one)) for index, one in branches(node)]

        def choose(value: Any) -> Any:
            for key, name, step in choices:
                if value is not None and value[key] is not None:
                    return name, {key: step(value[key])}
            return None

        return choose
    return _nested(node, of, str)


def wire_default(node: Node, value: Any) -> Any:
    """Converts a field's default from JSON to a value of `wire_type`. Raises DataError if it does not have the type."""
    inner = node.optional_of
    if inner is not None:
        return None if value is None else wire_default(inner, value)
    try:
        if node.kind in ("bytes", "fixed"):
            return value.encode("latin-1")
        if node.kind == "array":
            return [wire_default(node.inner[0], item) for item in value]
        if node.kind == "map":
            return [(key, wire_default(node.inner[0], one)) for key, one in value.items()]
        if node.kind == "union":
            first = node.inner[0]
            return None if first.kind == "null" else {"b0": wire_default(first, value)}
        if node.kind == "record":
            fields = {one.name: value.get(one.name, None if one.default is NO_DEFAULT else one.default)
                    for one in node.members}
            return {f"f{i}": wire_default(one.node, fields[one.name]) for i, one in enumerate(node.members)}
    except (AttributeError, TypeError, UnicodeEncodeError) as error:
        raise DataError(f"a default in the Avro schema is not of its type: {str(value)[:100]}") from error
    return value
