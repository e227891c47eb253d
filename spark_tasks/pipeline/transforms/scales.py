"""Decimals whose scale is not that of their schema.

Java's MaskField sets a Decimal to 0, or to the replacement, with that number's own scale, so that transforms print `0`
and not `0.00`. Until the end of a chain, such a column has an Arrow type of another scale than its schema. What follows
the chain gets the schema's scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import partial

import pyarrow as pa
from typing_extensions import override

from spark_tasks.data.arrow_types import fitting_decimal, to_arrow
from spark_tasks.data.columns import struct_array
from spark_tasks.data.schema import DECIMAL, Schema, Type
from spark_tasks.pipeline.converters import long_decimals
from spark_tasks.pipeline.converters.base import BadRowError, schema_of
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.columns_or_rows import put


class SettledScales(Transform):
    """Gives all decimals of keys and values the scales of their schemas."""

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    @override
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for part in ("key", "value"):
            if part in batch.schema.names:
                array, metadata = batch.column(part), batch.schema.field(part).metadata
                schema = schema_of(metadata)
                settled = array if schema is None else _settled(array, schema)
                if settled is not array:
                    batch = put(batch, part, settled, metadata)
        return batch


def _settled(array: pa.Array, schema: Schema) -> pa.Array:
    """Returns the same values, or the array itself if their scales are right. A masked decimal is a field of a struct,
    at any depth, or the whole value.
    """
    kind = array.type
    if schema.type is Type.STRUCT and pa.types.is_struct(kind):
        children = array.flatten()
        settled = [_settled(child, field.schema) for child, field in zip(children, schema.fields, strict=True)]
        if all(one is child for one, child in zip(settled, children, strict=True)):
            return array
        fields = [field.with_type(one.type) for field, one in zip(kind, settled, strict=True)]
        return struct_array(settled, fields, len(array), array.is_null() if array.null_count else None)
    if schema.name != DECIMAL or not pa.types.is_decimal(kind) or kind.scale == schema.scale:
        return array
    return long_decimals.built(partial(_with_scale, array), schema)


def _with_scale(array: pa.Array, schema: Schema) -> pa.Array:
    coded = array.dictionary_encode()  # a masked column has one value
    wanted = to_arrow(schema)
    values: list[Decimal] = []
    for code, value in enumerate(coded.dictionary.to_pylist()):
        try:
            values.append(fitting_decimal(value, wanted))
        except ValueError as error:
            row = coded.indices.to_pylist().index(code)
            raise BadRowError(row, f"a value does not fit schema type {schema.type.name}: {error}") from None
    return pa.array(values, wanted).take(coded.indices)
