"""What heeler reads from the bytes that Java was given."""

from __future__ import annotations

import base64
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2

from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec
from spark_tasks.pipeline.converters.protobuf.tree import Message, ProtobufField

_INNER: Final = Message("Inner", "Inner", (ProtobufField("a", 1, "int32"), ProtobufField("s", 2, "string")))
MESSAGE: Final = Message("M", "M", (
    ProtobufField("i", 1, "int32"), ProtobufField("s", 2, "string"), ProtobufField("b", 3, "bytes"),
    ProtobufField("d", 4, "double"), ProtobufField("f", 5, "float"),
    ProtobufField("m", 6, "message", presence=True, message=_INNER),
    ProtobufField("pi", 7, "int32", repeated=True, packed=True),
    ProtobufField("ms", 8, "message", repeated=True, message=_INNER), ProtobufField("o", 9, "bool"),
    ProtobufField("x", 10, "fixed32"), ProtobufField("z", 11, "sint64"),
    ProtobufField("ss", 13, "string", repeated=True),
    ProtobufField("u", 14, "uint64", presence=True), ProtobufField("px", 15, "fixed64", repeated=True, packed=True),
))  # fmt: skip
_CODEC: Final = ProtobufCodec(MESSAGE)


def file() -> str:
    """The descriptor of MESSAGE, in Base64."""
    kinds = descriptor_pb2.FieldDescriptorProto
    found = descriptor_pb2.FileDescriptorProto(name="m", syntax="proto3")
    for name, message in (("m0", MESSAGE), ("m1", _INNER)):
        out = found.message_type.add(name=name)
        for member in message.members:
            field = out.field.add(name=f"f{member.number}", number=member.number, label=3 if member.repeated else 1,
                                  type=getattr(kinds, f"TYPE_{member.kind.upper()}"))
            if member.message is not None:
                field.type_name = ".m1"
            elif member.presence:
                field.proto3_optional, field.oneof_index = True, len(out.oneof_decl)
                out.oneof_decl.add(name=f"_f{member.number}")
    return base64.b64encode(found.SerializeToString()).decode()


def difference(one: dict[str, Any]) -> str | None:
    """Where heeler differs from Java, or None. A text that is not UTF-8 may be overwritten in its message; then only
    Java finds it.
    """
    java = one["java"]
    ours = read(bytes.fromhex(one["payload"]))
    if "error" in java:
        return None if ours is None or "UTF-8" in java["error"] else f"{one}; heeler {ours}"
    # As texts, because NaN is not equal to itself.
    return None if repr(ours) == repr(read(bytes.fromhex(java["message"]))) else f"{one}; heeler {ours}"


def read(payload: bytes) -> dict[str, Any] | None:
    """The value; None if the payload is a bad record."""
    try:
        found: dict[str, Any] = _CODEC.decode(pa.array([payload], pa.binary()))[0].as_py()
    except BadRowsError:
        return None
    return found
