"""Converts Connect schemas to Protobuf files as Confluent's converter does: to a descriptor and to text."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import descriptor_pb2

from spark_tasks.data.schema import DECIMAL, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.protobuf import names as n
from spark_tasks.pipeline.converters.protobuf.files import KNOWN, MAIN, WRAPPERS_TEXT
from spark_tasks.pipeline.converters.protobuf.meta import params_of, set_params
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.protobuf.tree import Files

_PROTO = descriptor_pb2.FieldDescriptorProto
Proto = Any  # a FieldDescriptorProto; the library has no type annotations
_PLAIN = {
    Type.INT8: "int32", Type.INT16: "int32", Type.INT32: "int32", Type.INT64: "int64", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "bool", Type.STRING: "string", Type.BYTES: "bytes",
}  # fmt: skip
_KINDS = {
    Type.INT32: {"int32", "sint32", "sfixed32"},
    Type.INT64: {"int64", "uint64", "sint64", "fixed64", "sfixed64", "uint32", "fixed32"},
}
_WRAPPERS = {
    Type.INT8: "Int32", Type.INT16: "Int32", Type.INT32: "Int32", Type.INT64: "Int64", Type.FLOAT32: "Float",
    Type.FLOAT64: "Double", Type.BOOLEAN: "Bool", Type.STRING: "String", Type.BYTES: "Bytes",
}  # fmt: skip
_VALUE_FIRST = ("precision", "scale")  # as Confluent's converter prints them: a registry compares texts


def protobuf_file(schema: Schema, options: ProtobufOptions) -> tuple[Files, str, str]:
    """Returns the files, the text to register, and the full name of the message. Raises DataError."""
    if schema.type is not Type.STRUCT:
        if schema.type not in _WRAPPERS or schema.logical:
            raise DataError(f"Unsupported root schema of type {schema.logical or schema.type.value}: in Protobuf it "
                            "must be a struct, a number, a string, a boolean or bytes")
        return (KNOWN[n.WRAPPERS_FILE],), WRAPPERS_TEXT, f"google.protobuf.{_WRAPPERS[schema.type]}Value"
    maker = _Maker(options)
    file = maker.file(schema)
    needed = [KNOWN[path] for path in file.dependency]
    text = "\n".join(_file_lines(file)) + "\n"
    full = ".".join(part for part in (file.package, file.message_type[0].name) if part)
    return (*needed, file), text, full


class _Maker:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._unnamed = 0
        self._file = descriptor_pb2.FileDescriptorProto(name=MAIN, syntax="proto3")

    def file(self, schema: Schema) -> descriptor_pb2.FileDescriptorProto:
        parts = [self._options.name(part) for part in self._name(schema.name).split(".")]
        self._file.package = ".".join(parts[:-1])
        message = self._file.message_type.add(name=parts[-1])
        scope = "." + ".".join(part for part in parts if part)
        self._fill(message, scope, schema)
        self._file.dependency[:] = dict.fromkeys(self._file.dependency)  # in order of first use, as in Java
        return self._file

    def _name(self, name: str | None) -> str:
        if name:
            return name
        self._unnamed += 1
        return f"{n.DEFAULT_NAME}{self._unnamed}"

    def _last(self, name: str | None) -> str:
        return self._options.name(self._name(name).rpartition(".")[2])

    def _fill(self, message: descriptor_pb2.DescriptorProto, scope: str, schema: Schema) -> None:
        number = 0
        for field in schema.fields:
            union = n.is_union(field.schema)
            if union:
                oneof = len(message.oneof_decl)
                message.oneof_decl.add(name=self._union(field.schema))
            for one in field.schema.fields if union else (field,):
                tag = _tag(one.schema)
                if tag is None:
                    number += 1
                made = self._field(message, scope, self._options.name(one.name), number if tag is None else tag,
                                   one.schema, in_oneof=union)
                if union:
                    made.oneof_index = oneof
        for made in message.field:
            if made.proto3_optional:
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name="_" + made.name)

    def _union(self, schema: Schema) -> str:
        union = dict(schema.parameters).get(n.SUM_UNION) or (schema.name or "").removeprefix(n.UNION).lstrip(".")
        return self._last(union)

    def _field(
        self, message: descriptor_pb2.DescriptorProto, scope: str, name: str, number: int, schema: Schema, *,
        in_oneof: bool = False,
    ) -> Proto:  # fmt: skip
        repeated = schema.type in (Type.ARRAY, Type.MAP)
        optional = self._options.optional and schema.optional and not repeated
        out = message.field.add(name=name, number=number, label=_PROTO.LABEL_OPTIONAL)
        if repeated:
            out.label = _PROTO.LABEL_REPEATED
        elif optional and not in_oneof:
            out.proto3_optional = True
        inner = schema
        if schema.type is Type.ARRAY:
            inner = _part(schema.value)
            if inner.type in (Type.ARRAY, Type.MAP):
                raise DataError(f"field {name}: Array cannot be nested, and cannot contain maps, in Protobuf")
        params: dict[str, str] = {}
        self._type(message, scope, out, inner, params, in_oneof=in_oneof)
        if params:
            set_params(out.options, params)  # Confluent's converter does not import the file that defines them, either
        return out

    def _type(
        self, message: descriptor_pb2.DescriptorProto, scope: str, out: Proto, schema: Schema, params: dict[str, str],
        *, in_oneof: bool,
    ) -> None:  # fmt: skip
        if schema.logical is not None:
            full, path = n.LOGICAL[schema.logical]
            if schema.logical == DECIMAL:
                parameters = dict(schema.parameters)
                params |= {word: parameters[key] for word, key in (("precision", n.PRECISION), ("scale", "scale"))
                           if key in parameters}
            self._reference(out, full, path)
        elif n.is_enum(schema):
            self._enum(message, scope, out, schema)
        elif schema.type is Type.MAP:
            self._entries(message, scope, out, schema)
        elif schema.type is Type.STRUCT:
            name = self._last(schema.name)
            name += "Message" if name == out.name else ""
            out.type, out.type_name = _PROTO.TYPE_MESSAGE, f"{scope}.{name}"
            known = next((nested for nested in message.nested_type if nested.name == name), None)
            made = descriptor_pb2.DescriptorProto(name=name) if known else message.nested_type.add(name=name)
            self._fill(made, f"{scope}.{name}", schema)
            if known is not None and known != made:
                raise DataError(f"field {out.name}: two different structs have the name {name}")
        else:
            if schema.type in (Type.INT8, Type.INT16):
                params[n.CONNECT_TYPE] = schema.type.value
            kind = dict(schema.parameters).get(n.KIND, "")
            kind = kind if kind in _KINDS.get(schema.type, ()) else _PLAIN[schema.type]
            if n.is_wrapped(schema, self._options, in_oneof=in_oneof):
                unsigned = {"uint32": "UInt32", "fixed32": "UInt32", "uint64": "UInt64", "fixed64": "UInt64"}
                wrapper = unsigned.get(kind, _WRAPPERS[schema.type])
                self._reference(out, f"google.protobuf.{wrapper}Value", n.WRAPPERS_FILE)
            else:
                out.type = getattr(_PROTO, f"TYPE_{kind.upper()}")

    def _reference(self, out: Proto, full: str, path: str) -> None:
        out.type, out.type_name = _PROTO.TYPE_MESSAGE, f".{full}"
        self._file.dependency.append(path)

    def _enum(self, message: descriptor_pb2.DescriptorProto, scope: str, out: Proto, schema: Schema) -> None:
        parameters = dict(schema.parameters)
        parameter = next(key for key in (self._options.enum, n.ENUM, n.SUM_ENUM) if key in parameters)
        name = self._last(schema.name or parameters[parameter] or None)
        out.type, out.type_name = _PROTO.TYPE_ENUM, f"{scope}.{name}"
        values = [(key.removeprefix(f"{parameter}."), value) for key, value in schema.parameters
                  if key.startswith(f"{parameter}.")]
        descriptor = descriptor_pb2.EnumDescriptorProto(name=name)
        try:
            for symbol, number in values:
                descriptor.value.add(name=symbol, number=int(number))  # never scrubbed, as in Java
        except ValueError as error:
            raise DataError(f"field {out.name}: the enum {name} has a symbol without a number") from error
        descriptor.options.allow_alias = len({value.number for value in descriptor.value}) < len(descriptor.value)
        if not descriptor.options.allow_alias:
            descriptor.ClearField("options")
        known = next((enum for enum in message.enum_type if enum.name == name), None)
        if known is None:
            message.enum_type.append(descriptor)
        elif known != descriptor:
            raise DataError(f"field {out.name}: two different enums have the name {name}")

    def _entries(self, message: descriptor_pb2.DescriptorProto, scope: str, out: Proto, schema: Schema) -> None:
        name = n.entry_name(self._last(schema.name))
        if any(nested.name == name for nested in message.nested_type):
            raise DataError(f"field {out.name}: two maps have the name {schema.name}")
        out.type, out.type_name = _PROTO.TYPE_MESSAGE, f"{scope}.{name}"
        made = message.nested_type.add(name=name)
        for number, part in enumerate((_part(schema.key), _part(schema.value)), 1):
            field = self._field(made, f"{scope}.{name}", ("key", "value")[number - 1], number, part)
            field.ClearField("proto3_optional")  # only fields of other messages are optional


def _tag(schema: Schema) -> int | None:
    tag = dict(schema.parameters).get(n.TAG)
    if tag is None:
        return None
    if not tag.isdigit() or not 0 < int(tag) < 2**29:
        raise DataError(f"the parameter {n.TAG} is {tag!r}, which is not a valid field number")
    return int(tag)


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("a schema has no element, key or value type")
    return schema


def _file_lines(file: descriptor_pb2.FileDescriptorProto) -> list[str]:
    lines = ['syntax = "proto3";']
    if file.package:
        lines.append(f"package {file.package};")
    if file.dependency:
        lines += ["", *(f'import "{path}";' for path in file.dependency)]
    scope = f".{file.package}" if file.package else ""
    for message in file.message_type:
        lines += ["", *_message_lines(message, scope)]
    return lines


def _message_lines(message: descriptor_pb2.DescriptorProto, outer: str) -> list[str]:
    scope = f"{outer}.{message.name}"
    inner: list[str] = []
    for field in message.field:
        if field.proto3_optional or not field.HasField("oneof_index"):
            inner += _field_lines(field, scope)
    for index, oneof in enumerate(message.oneof_decl):
        members = [member for member in message.field
                   if member.HasField("oneof_index") and member.oneof_index == index and not member.proto3_optional]
        if members:
            lines = [line for member in members for line in _field_lines(member, scope)]
            inner += ["", f"oneof {oneof.name} {{", *_indented(lines), "}"]
    for enum in message.enum_type:
        alias = ["  option allow_alias = true;"] if enum.options.allow_alias else []
        values = [f"  {value.name} = {value.number};" for value in enum.value]
        inner += ["", f"enum {enum.name} {{", *alias, *values, "}"]
    for nested in message.nested_type:
        inner += ["", *_message_lines(nested, scope)]
    return [f"message {message.name} {{", *_indented(inner), "}"]


def _field_lines(field: Proto, scope: str) -> list[str]:
    word = "repeated " if field.label == _PROTO.LABEL_REPEATED else "optional " if field.proto3_optional else ""
    kind = field.type_name or _PROTO.Type.Name(field.type).removeprefix("TYPE_").lower()
    start = f"{word}{kind.removeprefix(scope + '.').lstrip('.')} {field.name} = {field.number}"
    params = params_of(field.options)
    if not params:
        return [start + ";"]
    pairs = []
    for key, value in sorted(params.items()):
        pair = [f"key: {json.dumps(key)}", f"value: {json.dumps(value)}"]
        first, second = reversed(pair) if key in _VALUE_FIRST else pair
        pairs.append(["    {", f"      {first},", f"      {second}", "    },"])
    pairs[-1][-1] = "    }"
    return [f"{start} [(confluent.field_meta) = {{", "  params: [", *(line for pair in pairs for line in pair),
            "  ]", "}];"]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
