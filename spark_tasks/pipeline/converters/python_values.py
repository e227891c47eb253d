"""Converts Connect columns to Python values, for headers, plugins and messages. It is too slow for records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_tasks.data.columns import Metadata, is_json, metadata_of, nulls_are_absent
from spark_tasks.pipeline.converters import json_text


def to_python(array: pa.Array, metadata: Metadata | None = None) -> list[Any]:
    """Returns a list as Arrow's `to_pylist` does, but parses JSON and omits absent keys of maps."""
    if is_json(metadata):
        return [None if text is None else json_text.parse(text.encode()) for text in array.to_pylist()]
    if pa.types.is_struct(array.type):
        rows: list[dict[str, Any]] = [{} for _ in range(len(array))]
        for field, child in zip(array.type, array.flatten(), strict=True):
            optional = nulls_are_absent(metadata_of(field))
            present = child.is_valid().to_pylist()
            for row, value, is_there in zip(rows, to_python(child, metadata_of(field)), present, strict=True):
                if is_there or not optional:
                    row[field.name] = value
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(array.type):
        field = metadata_of(array.type.value_field)
        return [None if not scalar.is_valid else to_python(scalar.values, field) for scalar in array]
    return list(array.to_pylist())
