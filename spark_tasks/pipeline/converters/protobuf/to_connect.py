"""Converts Protobuf messages to Connect schemas as Confluent's converter does."""

from __future__ import annotations

from dataclasses import replace

from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.pipeline.converters.protobuf import names as n
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.protobuf.tree import Message, ProtobufField

_KINDS = {
    "int32": Type.INT32, "sint32": Type.INT32, "sfixed32": Type.INT32, "uint32": Type.INT64, "fixed32": Type.INT64,
    "int64": Type.INT64, "uint64": Type.INT64, "sint64": Type.INT64, "fixed64": Type.INT64, "sfixed64": Type.INT64,
    "float": Type.FLOAT32, "double": Type.FLOAT64, "bool": Type.BOOLEAN, "string": Type.STRING, "bytes": Type.BYTES,
}  # fmt: skip
_SMALL = {"int8": Type.INT8, "int16": Type.INT16}
_LOGICAL = {
    n.DATE_MESSAGE: Schema(Type.INT32, name=DATE, version=1),
    n.TIME_MESSAGE: Schema(Type.INT32, name=TIME, version=1),
    n.TIMESTAMP_MESSAGE: Schema(Type.INT64, name=TIMESTAMP, version=1),
}


def connect_schema(message: Message, options: ProtobufOptions, version: int | None = None) -> Schema:
    """Returns the Connect schema of the message. `version`: the schema's version in its subject."""
    if options.raw and message.full_name in n.WRAPPERS:
        return Schema(n.WRAPPERS[message.full_name], version=version)
    return replace(_struct(message, options), version=version)


def union_name(message: Message, index: int, options: ProtobufOptions) -> str:
    """Returns the name of the field with a oneof."""
    return f"{message.oneofs[index]}_{index}" if options.indexes else message.oneofs[index]


def _struct(message: Message, options: ProtobufOptions) -> Schema:
    fields = []
    for index, oneof in enumerate(message.oneofs):
        members = [Field(member.name, _member(member, options)) for member in message.members if member.oneof == index]
        if options.flatten:
            fields += members
            continue
        full = f"{message.full_name}.{oneof}" if options.enhanced else oneof
        fields.append(Field(union_name(message, index, options), Schema(
            Type.STRUCT, optional=True, name=oneof if options.sums else f"{n.UNION}.{full}",
            parameters=((n.SUM_UNION, oneof),) if options.sums else (), fields=tuple(members))))
    fields += [Field(member.name, _member(member, options)) for member in message.members if member.oneof is None]
    name = message.full_name if options.enhanced else message.name
    return Schema(Type.STRUCT, name=name, fields=tuple(fields))


def _member(member: ProtobufField, options: ProtobufOptions) -> Schema:
    schema = _typed(member, options)
    if member.repeated and schema.type is not Type.MAP:
        schema = Schema(Type.ARRAY, optional=True, value=schema.as_optional())
    parameters = list(schema.parameters)
    optional = schema.optional
    if member.oneof is not None:
        optional = True
        if options.wrapper and member.message is not None and member.message.full_name in n.WRAPPERS:
            parameters.append((n.WRAPPER, "true"))
    elif options.optional:
        optional = optional or member.optional
    elif not options.wrapper:
        optional = True
    return replace(schema, optional=optional, parameters=(*parameters, (n.TAG, str(member.number))))


def _typed(member: ProtobufField, options: ProtobufOptions) -> Schema:
    if member.enum is not None:
        values = tuple((f"{options.enum}.{name}", str(number)) for name, number in member.enum.values)
        return Schema(Type.INT32 if options.int_enums else Type.STRING, optional=True,
                      name=member.enum.full_name if options.enhanced else member.enum.name,
                      parameters=((options.enum, member.enum.name), *values))
    if member.message is not None:
        return _message(member, member.message, options).as_optional()
    small = member.meta.get(n.CONNECT_TYPE)
    kind = _KINDS[member.kind]
    if kind is Type.INT32 and small in _SMALL:
        return Schema(_SMALL[small])
    wire_kind = member.kind if kind in (Type.INT32, Type.INT64) and member.kind not in ("int32", "int64") else None
    return Schema(kind, parameters=((n.KIND, wire_kind),) if wire_kind else ())


def _message(member: ProtobufField, message: Message, options: ProtobufOptions) -> Schema:
    if message.full_name == n.DECIMAL_MESSAGE:
        scale, precision = _number(member, "scale"), _number(member, "precision")
        more = () if precision is None else ((n.PRECISION, str(precision)),)
        return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", str(scale or 0)), *more))
    if message.full_name in _LOGICAL:
        return _LOGICAL[message.full_name]
    if options.wrapper and message.full_name in n.WRAPPERS:
        return Schema(n.WRAPPERS[message.full_name])
    if member.is_map:
        key, value = message.members
        return Schema(Type.MAP, name=n.map_name(message.full_name if options.enhanced else message.name),
                      key=_member(key, options), value=_member(value, options))
    return _struct(message, options)


def _number(member: ProtobufField, name: str) -> int | None:
    try:
        return int(member.meta[name])
    except (KeyError, ValueError):
        return None
