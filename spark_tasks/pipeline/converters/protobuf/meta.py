"""Reads and writes the parameters in Confluent's field option confluent.field_meta, without its defining file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_NUMBER = 1088


def _class() -> Any:
    """Returns the class of a message that has only this option of a field's options."""
    file = descriptor_pb2.FileDescriptorProto(name="options", syntax="proto3")
    options = file.message_type.add(name="Options")
    options.field.add(name="meta", number=_NUMBER, type=11, label=1, type_name=".Options.Meta")
    meta = options.nested_type.add(name="Meta")
    meta.field.add(name="params", number=2, type=11, label=3, type_name=".Options.Meta.ParamsEntry")
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Options"))


_OPTIONS = _class()


def params_of(options: Any) -> dict[str, str]:
    """Returns the parameters in a field's options."""
    return dict(_OPTIONS.FromString(options.SerializeToString()).meta.params)


def set_params(options: Any, params: Mapping[str, str]) -> None:
    """Adds parameters to a field's options."""
    addition = _OPTIONS()
    addition.meta.params.update(params)
    options.MergeFromString(addition.SerializeToString(deterministic=True))
