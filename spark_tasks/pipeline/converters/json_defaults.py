"""The defaults of schemas, which Java reads and writes as values."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from spark_tasks.data.schema import Field, Schema, from_text
from spark_tasks.pipeline.converters.json_typed import default_value
from spark_tasks.pipeline.converters.json_write import JsonWriter

_PLAIN, _NUMERIC = JsonWriter(), JsonWriter(numeric_decimals=True)


@lru_cache(maxsize=1000)
def read_schema(text: str) -> Schema:
    """Parses a schema in JsonConverter's form. Its defaults are as JsonConverter would write them: 1.7 for an int32 is
    1. Raises DataError, also for a default that is not a value of its schema.
    """
    return _with_defaults(from_text(text), _PLAIN)


@lru_cache(maxsize=1000)
def with_numbers(schema: Schema) -> Schema:
    """Returns the schema for decimal.format=NUMERIC, in which decimals in defaults are numbers. Raises DataError."""
    return _with_defaults(schema, _NUMERIC)


def _with_defaults(schema: Schema, writer: JsonWriter) -> Schema:
    fields = tuple(Field(field.name, _with_defaults(field.schema, writer)) for field in schema.fields)
    key = schema.key and _with_defaults(schema.key, writer)
    value = schema.value and _with_defaults(schema.value, writer)
    if (fields, key, value) != (schema.fields, schema.key, schema.value):
        schema = replace(schema, fields=fields, key=key, value=value)
    if schema.default is None:
        return schema
    found = default_value(schema)
    text = writer.write(found, replace(schema, default=None))[0].as_py() if found.null_count == 0 else None
    return schema if text == schema.default else replace(schema, default=text)
