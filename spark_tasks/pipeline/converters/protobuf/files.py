"""Compiles Protobuf files from a registry, with the files that registries have without a reference."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from google.protobuf import descriptor_pb2, wrappers_pb2
from google.protobuf.message import DecodeError

from spark_tasks.errors import DataError, RetriableError
from spark_tasks.pipeline.converters.protobuf.names import LOGICAL, META_FILE, WRAPPERS_FILE
from spark_tasks.pipeline.converters.protobuf.tree import Files

MAIN = "heeler-main.proto"
_META_TEXT = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL_TEXT = """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_TEXTS = {META_FILE: _META_TEXT, "confluent/type/decimal.proto": _DECIMAL_TEXT}
_TIMEOUT_S = 60
_KEPT = 100  # results of the compiler
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_META_OPTION = re.compile(r"\(\s*\.?confluent\.(?:file|message|field|enum|enum_value)_meta\s*\)")
_META_IMPORT = re.compile(r"""\bimport\s+(?:public\s+|weak\s+)?["']confluent/meta\.proto["']""")
_MAX_BRACKETS = 200  # nested brackets; a nested message needs one pair
WRAPPERS_TEXT = 'syntax = "proto3";\npackage google.protobuf;\n\n' + "\n".join(
    f"message {one.name} {{\n  {one.name.removesuffix('Value').lower()} value = 1;\n}}"
    for one in descriptor_pb2.FileDescriptorProto.FromString(wrappers_pb2.DESCRIPTOR.serialized_pb).message_type
) + "\n"  # fmt: skip


def _file(name: str, package: str, messages: Mapping[str, tuple[tuple[str, str], ...]]) -> (
        descriptor_pb2.FileDescriptorProto):
    out = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    for message, fields in messages.items():
        one = out.message_type.add(name=message)
        for number, (field, kind) in enumerate(fields, 1):
            one.field.add(name=field, number=number, label=1,
                          type=getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.upper()}"))
    return out


# the files of the messages for logical types, with the definitions that are needed to write them
KNOWN = {
    WRAPPERS_FILE: descriptor_pb2.FileDescriptorProto.FromString(wrappers_pb2.DESCRIPTOR.serialized_pb),
    **{path: _file(path, message.rpartition(".")[0], {message.rpartition(".")[2]: fields})
       for (message, path), fields in zip(LOGICAL.values(), (
           (("value", "bytes"), ("precision", "uint32"), ("scale", "int32")),
           (("year", "int32"), ("month", "int32"), ("day", "int32")),
           (("hours", "int32"), ("minutes", "int32"), ("seconds", "int32"), ("nanos", "int32")),
           (("seconds", "int64"), ("nanos", "int32"))), strict=True)},
}  # fmt: skip


def files_of(text: str, references: Mapping[str, str]) -> Files:
    """Returns the files of a schema. `text`: its text or, as some clients register it, its descriptor in Base64.
    `references`: the texts of the files that it imports, by name. Raises DataError, RetriableError.

    Runs protoc in its own process, so that no registered schema can crash the worker. The results of the last schemas
    are kept, so that records with a schema that is not valid cost no process for each batch.
    """
    found = _compiled(text, tuple(references.items()))
    if isinstance(found, str):
        raise DataError(found)
    return found


@lru_cache(_KEPT)
def _compiled(text: str, references: tuple[tuple[str, str], ...]) -> Files | str:
    """Returns the files, or what is wrong with the schema. Raises DataError, RetriableError for what may be different
    the next time.
    """
    try:
        return _files(text, dict(references))
    except _InvalidSchemaError as error:
        return str(error)


class _InvalidSchemaError(DataError):
    """A schema cannot be compiled, whenever it is tried."""


def _files(text: str, references: Mapping[str, str]) -> Files:
    given = {**references, MAIN: text}
    try:
        return _compiled_files({**_TEXTS, **given})
    except _InvalidSchemaError:
        with_meta = {name: one if name == META_FILE else _with_meta(one) for name, one in given.items()}
        if with_meta == given:
            raise
    return _compiled_files({**_TEXTS, **with_meta})


def _compiled_files(texts: Mapping[str, str]) -> Files:
    for name, one in texts.items():
        if not _NAME.fullmatch(name) or ".." in name:
            raise _InvalidSchemaError(f"a Protobuf schema has a reference with the invalid file name {name[:100]!r}")
        if _bracket_depth(one) > _MAX_BRACKETS:
            raise _InvalidSchemaError(f"a Protobuf schema is nested more than {_MAX_BRACKETS} levels deep")
    descriptors = {name: found for name, one in texts.items() if (found := _decoded(name, one)) is not None}
    try:
        with tempfile.TemporaryDirectory(prefix="heeler-protobuf-") as folder:
            return _output(Path(folder), {name: one for name, one in texts.items() if name not in descriptors},
                           descriptor_pb2.FileDescriptorSet(file=descriptors.values()))
    except OSError as error:  # such as no memory for a process or no space: the schema is not the cause
        raise RetriableError(f"could not run the compiler of Protobuf schemas: {error}") from error


def _with_meta(text: str) -> str:
    """Returns the text with the import for Confluent's options, with which Confluent's own parser does without. (An
    import may be anywhere; at the end it does not change the positions in messages.)
    """
    return f'{text}\nimport "{META_FILE}";\n' if _META_OPTION.search(text) and not _META_IMPORT.search(text) else text


def _output(folder: Path, texts: Mapping[str, str], descriptors: descriptor_pb2.FileDescriptorSet) -> Files:
    """Returns the compiler's output. `folder`: for its files."""
    out, others, arguments = folder / "out", folder / "descriptors", folder / "arguments"
    others.write_bytes(descriptors.SerializeToString())
    names = {}  # by path, because a name may be too long for one
    for number, (name, text) in enumerate(texts.items()):
        path = folder / f"{number}.proto"
        path.write_text(text, encoding="utf-8", errors="replace")
        names[str(path)] = name
    arguments.write_text("\n".join([
        *(f"-I{name}={path}" for path, name in names.items()), *_google_types(), "--include_imports",
        f"--descriptor_set_in={others}", f"--descriptor_set_out={out}", MAIN]), encoding="utf-8")
    _protoc(arguments, names)
    return tuple(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file)


def _protoc(arguments: Path, names: Mapping[str, str]) -> None:
    """Runs the compiler. `names`: of the files, by path, for its messages."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"@{arguments}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False, text=True,  # noqa: S603
                              errors="replace")
    except subprocess.TimeoutExpired as error:
        raise DataError(f"compiling a Protobuf schema took longer than {_TIMEOUT_S} s") from error
    if done.returncode == -signal.SIGKILL:  # the system was short of memory
        raise RetriableError("the compiler of Protobuf schemas was killed; is the machine short of memory?")
    if done.returncode:
        lines = done.stderr.splitlines()
        words = " ".join(line for line in lines if not re.search(r"warning:|WARNING:|^W\d{4} ", line))
        for path, name in names.items():
            words = words.replace(path, name)
        told = f"a Protobuf schema is not valid: {words[:500] or f'exit code {done.returncode}'}"
        by_protoc = any(words.startswith(f"{name}:") for name in names.values())
        raise _InvalidSchemaError(told) if by_protoc else DataError(told)  # otherwise it may have been killed


def _google_types() -> list[str]:
    """Returns the options of protoc for the folder of google/type/*.proto."""
    spec = importlib.util.find_spec("google.type")
    places = spec.submodule_search_locations if spec else None
    return [f"-Igoogle/type={place}" for place in places or ()]


def _bracket_depth(text: str) -> int:
    """Returns how deep brackets are nested, including those in strings and comments."""
    deepest = level = 0
    for one in re.findall(r"[][(){}<>]", text):
        level = level + 1 if one in "[({<" else max(0, level - 1)
        deepest = max(deepest, level)
    return deepest


def _decoded(name: str, text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """Returns the file if the text is its descriptor in Base64, otherwise None."""
    if not re.fullmatch(r"[A-Za-z0-9+/=\s]+", text):
        return None
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    except (binascii.Error, ValueError, DecodeError):
        return None
    found.name = name
    return found
