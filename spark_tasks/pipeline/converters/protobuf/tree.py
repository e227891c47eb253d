"""Converts Protobuf messages to trees with resolved names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor, descriptor_pb2, descriptor_pool

from spark_tasks.errors import DataError
from spark_tasks.limits import MAX_DEPTH
from spark_tasks.pipeline.converters.protobuf.meta import params_of
from spark_tasks.registry.errors import recursive

Files = tuple[descriptor_pb2.FileDescriptorProto, ...]
"""Each file follows those that it imports. The last one is the schema itself."""

_MAX_TYPES = 20_000
_KINDS = {
    getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.upper()}"): kind
    for kind in ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group",
                 "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum. `values`: names and numbers. `closed`: no other numbers are allowed."""

    name: str
    full_name: str
    values: tuple[tuple[str, int], ...]
    closed: bool


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """A field of a message. `kind`: Protobuf's name of its type. `presence`: whether it can be absent. `optional`: it
    has the label optional. `proto2`: its file has the syntax proto2. `oneof`: the index of its oneof in the message.
    `meta`: the parameters of confluent.field_meta.
    """

    name: str
    number: int
    kind: str
    repeated: bool = False
    presence: bool = False
    packed: bool = False
    required: bool = False
    optional: bool = False
    proto2: bool = False
    oneof: int | None = None
    message: Message | None = None
    enum: Enum | None = None
    default: Any = None
    meta: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_map(self) -> bool:
        """Whether the field is a map, that is, a list of entry messages."""
        return self.repeated and self.message is not None and self.message.is_entry


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `oneofs`: their names, without those that Protobuf adds for optional fields."""

    name: str
    full_name: str
    members: tuple[ProtobufField, ...]
    oneofs: tuple[str, ...] = ()

    @property
    def is_entry(self) -> bool:
        """Whether the message has the name and the fields of a map's entry."""
        return (self.name.endswith("Entry") and [member.name for member in self.members] == ["key", "value"]
                and not any(member.repeated for member in self.members))


class Schemas:
    """The messages of a schema in the registry. Raises DataError if the schema is invalid."""

    def __init__(self, files: Files) -> None:
        pool = descriptor_pool.DescriptorPool()
        known: set[str] = set()
        try:
            for one in files:
                if one.name not in known:
                    pool.AddSerializedFile(one.SerializeToString())
                known.add(one.name)
            self._file = pool.FindFileByName(files[-1].name)
        except (TypeError, KeyError) as error:
            raise DataError(f"a Protobuf schema is not valid: {error}") from error
        self._message_names = [described.name for described in files[-1].message_type]
        if not self._message_names:
            raise DataError("a Protobuf schema has no message")
        self._messages: dict[str, Message] = {}

    def message(self, index: tuple[int, ...]) -> Message:
        """Returns the message at an index: its position in the file, then its position in that message, and so on."""
        return self._tree(self._at(index))

    def _at(self, index: tuple[int, ...]) -> descriptor.Descriptor:
        found: Any = None
        inner = [self._file.message_types_by_name[name] for name in self._message_names]
        for place in index:
            if not 0 <= place < len(inner):
                raise DataError(f"the schema has no message at the index {list(index)}")
            found = inner[place]
            inner = _nested(found)
        return found

    def record(self, index: tuple[int, ...]) -> str:
        """Returns the full name of the message at an index."""
        return str(self._at(index).full_name)

    def index(self, name: str) -> tuple[int, ...] | None:
        """Returns the index of the message with a full name, or None."""
        tops = [self._file.message_types_by_name[top] for top in self._message_names]
        level: list[tuple[tuple[int, ...], Any]] = [((place,), one) for place, one in enumerate(tops)]
        while level:
            for index, one in level:
                if one.full_name == name:
                    return index
            level = [((*index, i), inner) for index, one in level for i, inner in enumerate(_nested(one))]
        return None

    def _tree(self, top: Any) -> Message:
        message = self._message(top, {})
        size, depth = _measured(message, {})
        if size > _MAX_TYPES:
            raise DataError(f"a Protobuf message has more than {_MAX_TYPES} fields, counting each use of a message")
        if depth > MAX_DEPTH:
            raise _too_deep()
        return message

    def _message(self, described: Any, around: Mapping[str, str]) -> Message:
        """`around`: the full names of the messages around it, each with its field that leads to it."""
        name = described.full_name
        if name in self._messages:
            return self._messages[name]
        if name in around:
            raise recursive(f"the Protobuf message {name}", around.values())
        if len(around) >= MAX_DEPTH:
            raise _too_deep()
        proto = descriptor_pb2.DescriptorProto()
        described.CopyToProto(proto)
        words = {field.number: field for field in proto.field}
        proto2 = _is_proto2(described.file)
        oneofs = [oneof for oneof in described.oneofs if not words[oneof.fields[0].number].proto3_optional]
        places = {oneof.full_name: i for i, oneof in enumerate(oneofs)}
        members = tuple(self._member(field, words[field.number], places, proto2, {**around, name: field.name})
                        for field in described.fields)
        message = Message(described.name, name, members, tuple(oneof.name for oneof in oneofs))
        self._messages[name] = message
        return message

    def _member(self, field: Any, word: Any, oneofs: Mapping[str, int], proto2: bool,
                around: Mapping[str, str]) -> ProtobufField:
        kind = _KINDS[field.type]
        if kind == "group":
            raise DataError(f"Unknown Connect schema type: the group {field.full_name}")
        oneof = field.containing_oneof
        message = self._message(field.message_type, around) if kind == "message" else None
        plain = kind != "message" and not field.is_repeated
        return ProtobufField(
            field.name, field.number, kind, field.is_repeated, not field.is_repeated and bool(field.has_presence),
            field.is_repeated and bool(field.is_packed), bool(field.is_required),
            word.proto3_optional or (proto2 and not field.is_repeated and not field.is_required and oneof is None),
            proto2,
            None if oneof is None else oneofs.get(oneof.full_name), message,
            _enum(field.enum_type) if kind == "enum" else None, field.default_value if plain else None,
            params_of(field.GetOptions()) if field.has_options else {},
        )  # fmt: skip


def _nested(described: Any) -> list[Any]:
    """Returns the nested messages that an index counts. As in Java, these are all but the entries of maps."""
    return [nested for nested in described.nested_types if not nested.GetOptions().map_entry]


def _is_proto2(file: Any) -> bool:
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    return proto.syntax in ("", "proto2")


def _enum(described: Any) -> Enum:
    values = tuple((value.name, value.number) for value in described.values)
    return Enum(described.name, described.full_name, values, bool(described.is_closed))


def _measured(message: Message, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Returns the number of fields, counting each use of a message, as each use becomes a column, and the depth of the
    messages.
    """
    if id(message) not in known:
        inner = [(1, 0) if member.message is None else _measured(member.message, known) for member in message.members]
        known[id(message)] = 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)
    return known[id(message)]


def _too_deep() -> DataError:
    return DataError(f"a Protobuf message is nested more than {MAX_DEPTH} levels deep")
