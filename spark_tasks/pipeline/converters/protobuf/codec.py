"""Converts Protobuf's bytes to and from Arrow columns of plain types, without logical types.

ptars does it if it supports the schema, because it is faster. Google's upb does it for all other schemas and for
records on which ptars fails; in tests it is the reference. Both get the message without names and logical types: maps
are lists of entries, enums are numbers, and timestamps are messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import ptars
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from ptars._lib import ProtoRegistry

from spark_tasks.errors import DataError, rust_code
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.protobuf.tree import Message, ProtobufField
from spark_tasks.pipeline.converters.protobuf.wire_faults import WireFaults

_ARROW = {
    "double": pa.float64(), "float": pa.float32(), "int64": pa.int64(), "uint64": pa.uint64(), "int32": pa.int32(),
    "fixed64": pa.uint64(), "fixed32": pa.uint32(), "bool": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
    "uint32": pa.uint32(), "enum": pa.int32(), "sfixed32": pa.int32(), "sfixed64": pa.int64(), "sint32": pa.int32(),
    "sint64": pa.int64(),
}  # fmt: skip
_MIN_PIECE = 32  # pieces with a bad record are divided; those of up to this many records are read one by one
_MAX_FIELD_NUMBER = 10_000  # ptars has a table with an entry for each number up to the highest
_PROTO = descriptor_pb2.FieldDescriptorProto

Convert = Callable[[Any], Any]


def wire_type(message: Message) -> pa.DataType:
    """Returns the Arrow type of the values: structs with a field f<number> for each member, by number. Members without
    presence are never null.
    """
    return _struct_type(message, pa.string())


def by_number(message: Message) -> list[ProtobufField]:
    """Returns the members in the order in which they are written."""
    return sorted(message.members, key=lambda one: one.number)


def _struct_type(message: Message, text: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(f"f{one.number}", _member_type(one, text), nullable=one.presence)
                      for one in by_number(message)])


def _member_type(member: ProtobufField, text: pa.DataType) -> pa.DataType:
    if member.message is not None:
        found = _struct_type(member.message, text)
    else:
        found = text if member.kind == "string" else _ARROW[member.kind]
    return pa.list_(pa.field("item", found, nullable=False)) if member.repeated else found


class ProtobufCodec:
    """The codec of one message. Thread-safe. `fast`: whether ptars may be used."""

    def __init__(self, message: Message, *, fast: bool = True) -> None:
        self._message = message  # nested messages are identified by `id()`, so it must stay alive
        self.type = wire_type(message)
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(_plain(message, "string"))
        self._class: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("m0"))
        self._to_python = _to_python(message)
        self._from_python = _from_python(message)
        self._fast = fast and bool(message.members) and _is_fast(message)
        self._faults = WireFaults(message) if self._fast else None
        # For ptars, texts are declared as bytes, which have the same layout; Arrow validates them afterwards.
        self._text_type = _struct_type(message, pa.binary())
        self._handler: Any = ProtoRegistry([_plain(message, "bytes")]).create_for_message(
            "m0", ptars.PtarsConfig()) if self._fast else None  # fmt: skip

    def decode(self, payloads: pa.Array) -> pa.Array:
        """Returns the values of a binary array without nulls. Raises BadRowsError with all payloads that are no
        messages; if there are none, with all others that cannot be read.
        """
        bad: list[tuple[int, Exception]] = []
        if self._faults is not None and len(faults := self._faults.rows(payloads)):
            error = DataError("Error deserializing Protobuf message: the bytes are not a valid message")
            raise BadRowsError([(row, error) for row in faults.tolist()])
        pieces = list(self._decoded(payloads, 0, bad))
        if bad:
            raise BadRowsError(bad)
        return pa.concat_arrays(pieces) if pieces else pa.nulls(0, self.type)

    def _decoded(self, payloads: pa.Array, begin: int, bad: list[tuple[int, Exception]]) -> Iterable[pa.Array]:
        if self._fast and len(payloads):
            found = self._fast_decoded(payloads)
            if found is not None:
                yield found
                return
            if len(payloads) > _MIN_PIECE:
                middle = len(payloads) // 2
                yield from self._decoded(payloads[:middle], begin, bad)
                yield from self._decoded(payloads[middle:], begin + middle, bad)
                return
        yield self._decoded_one_by_one(payloads, begin, bad)

    def _fast_decoded(self, payloads: pa.Array) -> pa.Array | None:
        """Returns what ptars reads, or None if it fails. The payloads are messages: it would call itself for each group
        within a group, and 100,000 would end the process.
        """
        try:
            with rust_code():
                batch = self._handler.array_to_record_batch(payloads)
            found = _reinterpreted(pa.StructArray.from_arrays(batch.columns, fields=list(self._text_type)), self.type)
            found.validate(full=True)  # texts may not be valid UTF-8
        except Exception:  # noqa: BLE001 - any error: upb finds the cause
            return None
        return None if _has_repeated_oneofs(found, self._message) else found

    def _decoded_one_by_one(self, payloads: pa.Array, begin: int, bad: list[tuple[int, Exception]]) -> pa.Array:
        values = []
        for row, payload in enumerate(payloads.to_pylist(), begin):
            try:
                values.append(self._to_python(self._class.FromString(payload)))
            except (DecodeError, UnicodeDecodeError) as error:
                alone = self._fast_decoded(payloads[row - begin : row - begin + 1]) if self._fast else None
                if alone is None:
                    bad.append((row, DataError(f"Error deserializing Protobuf message: {error}")))
                else:  # ptars allows more, such as tags of more than 32 bits, as Java does
                    values.append(alone[0].as_py())
        return pa.array(values, self.type)

    def encode(self, values: pa.Array) -> pa.Array:
        """Returns the bytes (binary). Raises DataError."""
        if len(values) > _MIN_PIECE and self._handler and _has_negative_zeros(values, self._message):
            middle = len(values) // 2
            return pa.concat_arrays([self.encode(values[:middle]), self.encode(values[middle:])])
        if self._handler is None or _has_negative_zeros(values, self._message):  # ptars treats them as absent
            return pa.array([self._from_python(self._class(), value).SerializeToString(deterministic=True)
                             for value in values.to_pylist()], pa.binary())
        seen = _reinterpreted(values, self._text_type)
        batch = pa.RecordBatch.from_arrays(seen.flatten(), schema=pa.schema(list(self._text_type)))
        with rust_code():
            found: pa.Array = self._handler.record_batch_to_array(batch)
        return found


def _plain(message: Message, text: str) -> bytes:
    """Returns the serialized descriptor of a file whose message m0 has the same bytes."""
    file = descriptor_pb2.FileDescriptorProto(name="plain", syntax="proto3")
    names: dict[int, str] = {}

    def add(one: Message) -> str:
        if id(one) in names:
            return names[id(one)]
        names[id(one)] = name = f"m{len(names)}"
        out = file.message_type.add(name=name)
        for index in range(len(one.oneofs)):
            out.oneof_decl.add(name=f"o{index}")
        for member in by_number(one):
            field = out.field.add(name=f"f{member.number}", number=member.number,
                                  label=_PROTO.LABEL_REPEATED if member.repeated else _PROTO.LABEL_OPTIONAL)
            if member.message is not None:
                field.type, field.type_name = _PROTO.TYPE_MESSAGE, "." + add(member.message)
            else:
                kind = {"string": text, "enum": "int32"}.get(member.kind, member.kind)
                field.type = getattr(_PROTO, f"TYPE_{kind.upper()}")
            if member.repeated and is_packable(member):
                field.options.packed = member.packed
            if member.oneof is not None:
                field.oneof_index = member.oneof
            elif member.presence and member.message is None:
                field.proto3_optional = True
        for field in out.field:  # the oneofs of optional fields come after all others
            if field.proto3_optional:
                field.oneof_index = len(out.oneof_decl)
                out.oneof_decl.add(name="_" + field.name)
        return name

    add(message)
    return bytes(file.SerializeToString())


def is_packable(member: ProtobufField) -> bool:
    """Returns whether a repeated field of this type can be packed."""
    return member.kind not in ("message", "string", "bytes")


def _is_fast(message: Message) -> bool:
    return all(member.number < _MAX_FIELD_NUMBER and (member.message is None or _is_fast(member.message))
               for member in message.members)


def _has_repeated_oneofs(values: pa.Array, message: Message) -> bool:
    """Returns whether a record has two members of a oneof. The last one counts, but columns have no order."""
    columns = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    for index in range(len(message.oneofs)):
        present = [columns[f"f{member.number}"].is_valid().to_numpy(zero_copy_only=False)
                   for member in message.members if member.oneof == index]
        if np.any(np.sum(present, axis=0) > 1):
            return True
    for member in message.members:
        column = columns[f"f{member.number}"]
        if member.message is None:
            continue
        if _has_repeated_oneofs(column.flatten() if member.repeated else column, member.message):
            return True
    return False


def _has_negative_zeros(values: pa.Array, message: Message) -> bool:
    """Returns whether the values contain -0.0 in a number without presence."""
    for one, column in zip(by_number(message), values.flatten(), strict=True):
        if one.message is not None:
            if _has_negative_zeros(column.flatten() if one.repeated else column, one.message):
                return True
        elif one.kind in ("double", "float") and not one.repeated and not one.presence:
            numbers = column.to_numpy(zero_copy_only=False)
            if np.any((numbers == 0) & np.signbit(numbers)):
                return True
    return False


def _reinterpreted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the buffers as an array of another type with the same layout."""
    if array.type == kind:
        return array
    _, data = array.__arrow_c_array__()
    return pa.Array._import_from_c_capsule(kind.__arrow_c_schema__(), data)  # noqa: SLF001 - Arrow's own protocol


def _to_python(message: Message) -> Convert:
    """Returns a function that converts a message of upb to a value for Arrow."""
    steps = [(f"f{member.number}", member, _to_python(member.message) if member.message else None)
             for member in by_number(message)]

    def read(value: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, member, step in steps:
            if member.presence and not value.HasField(name):
                out[name] = None
            elif member.repeated:
                out[name] = [step(item) for item in getattr(value, name)] if step else list(getattr(value, name))
            else:
                out[name] = step(getattr(value, name)) if step else getattr(value, name)
        return out

    return read


def _from_python(message: Message) -> Callable[[Any, Any], Any]:
    """Returns a function that copies a value of Arrow into a message of upb."""
    steps = [(f"f{one.number}", one, _from_python(one.message) if one.message else None)
             for one in by_number(message)]

    def fill(out: Any, value: dict[str, Any]) -> Any:
        for name, member, step in steps:
            content = value[name]
            if content is None:
                continue
            if member.repeated and step:
                for one in content:
                    step(getattr(out, name).add(), one)
            elif member.repeated:
                getattr(out, name).extend(content)
            elif step:
                getattr(out, name).SetInParent()
                step(getattr(out, name), content)
            else:
                setattr(out, name, content)
        return out

    return fill
