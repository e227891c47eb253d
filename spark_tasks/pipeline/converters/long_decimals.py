"""Columns with decimals that have more digits than usual.

A schema without a precision allows any number of digits. Its columns have decimals of 38 digits, which are fast, and
which everything that reads Arrow knows. If a value of a batch has more, the columns of that batch have 76.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from spark_tasks.data.arrow_types import MAX_DIGITS, PRECISION
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type
from spark_tasks.errors import DataError


def built(build: Callable[[Schema], pa.Array], schema: Schema) -> pa.Array:
    """Returns the column that `build` makes of a schema; if it fails, that of the same schema with long decimals."""
    try:
        return build(schema)
    except DataError:
        longer = with_long_decimals(schema)
        if longer == schema:
            raise
        return build(longer)


@lru_cache(maxsize=1000)
def with_long_decimals(schema: Schema) -> Schema:
    """Returns the schema of columns whose decimals have 76 digits; the schema itself if it has no decimals without a
    precision. It describes no records: those have the original schema.
    """
    if schema.type is Type.BYTES and schema.name == DECIMAL:
        if PRECISION in dict(schema.parameters):
            return schema
        return replace(schema, parameters=(*schema.parameters, (PRECISION, str(MAX_DIGITS))))
    key, value = schema.key and with_long_decimals(schema.key), schema.value and with_long_decimals(schema.value)
    fields = tuple(Field(field.name, with_long_decimals(field.schema)) for field in schema.fields)
    if (key, value, fields) == (schema.key, schema.value, schema.fields):
        return schema
    return replace(schema, key=key, value=value, fields=fields)
