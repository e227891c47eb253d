"""Types inside columns, for the Sql transform: fields that no record of a batch has, and metadata of inner fields."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from spark_tasks.arrays.buffers import list_offsets
from spark_tasks.data.columns import ABSENT_KEY, ABSENT_NULL, struct_array

Path = tuple[str | int, ...]
"""Names of fields and positions in lists, such as ('b', 1) for column['b'][1]."""


def is_untyped(kind: pa.DataType, path: Path) -> bool:
    """Returns whether a column of this type has no values at the path."""
    for step in path:
        if pa.types.is_struct(kind) and isinstance(step, str) and kind.get_field_index(step) >= 0:
            kind = kind.field(step).type
        elif pa.types.is_list(kind) and isinstance(step, int):
            kind = kind.value_type
        else:
            break
    return bool(pa.types.is_null(kind))


def with_kinds(array: pa.Array, kinds: Mapping[Path, pa.DataType]) -> pa.Array:
    """Returns the array with these types at the paths where it has no values. Fields that its structs lack are added,
    and are absent.
    """
    inner: dict[str | int, dict[Path, pa.DataType]] = {}
    for path, kind in kinds.items():
        if path:
            inner.setdefault(path[0], {})[path[1:]] = kind
    names = {step: at for step, at in inner.items() if isinstance(step, str)}
    items = {path: kind for step, at in inner.items() if isinstance(step, int) for path, kind in at.items()}
    if pa.types.is_null(array.type):
        if names:
            array = pa.nulls(len(array), pa.struct([]))
        elif items:
            array = pa.nulls(len(array), pa.list_(pa.null()))
        else:
            return pa.nulls(len(array), kinds.get((), pa.null()))
    if pa.types.is_struct(array.type) and names:
        return _struct(array, names)
    if pa.types.is_list(array.type) and items:
        values = with_kinds(array.flatten(), items)
        kind = pa.list_(array.type.value_field.with_type(values.type))
        return pa.ListArray.from_arrays(list_offsets(array), values, type=kind,
                                        mask=array.is_null() if array.null_count else None)
    return array


def _struct(array: pa.Array, kinds: Mapping[str, Mapping[Path, pa.DataType]]) -> pa.Array:
    fields = {field.name: field for field in array.type}
    children = dict(zip(fields, array.flatten(), strict=True))
    metadata = {ABSENT_KEY: ABSENT_NULL} if array.null_count < len(array) else None
    for name, at in kinds.items():
        child = with_kinds(children.get(name, pa.nulls(len(array))), at)
        known = fields.get(name, pa.field(name, child.type, metadata=metadata))
        fields[name], children[name] = known.with_type(child.type), child
    return struct_array(list(children.values()), list(fields.values()), len(array),
                        array.is_null() if array.null_count else None)


def with_metadata(kind: pa.DataType, original: pa.DataType) -> pa.DataType:
    """Returns the type with the metadata that the fields inside another type of the same form have. It shows, for
    example, which nulls are absent members.
    """
    if pa.types.is_struct(kind) and pa.types.is_struct(original):
        return pa.struct([_like(one, other) for one, other in zip(kind, original, strict=True)])
    if pa.types.is_list(kind) and pa.types.is_list(original):
        return pa.list_(_like(kind.value_field, original.value_field))
    return kind


def _like(field: pa.Field, original: pa.Field) -> pa.Field:
    return field.with_type(with_metadata(field.type, original.type)).with_metadata(original.metadata)
