"""Writes single values as JSON, for headers: also lists and maps without a type of their elements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.data.arrow_types import fitting_decimal, to_arrow
from spark_tasks.data.schema import DECIMAL, Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.java_columns import column
from spark_tasks.pipeline.converters.java_values import Moment, Struct
from spark_tasks.pipeline.converters.json_write import JsonWriter
from spark_tasks.pipeline.converters.long_decimals import with_long_decimals

_LONG = range(-(2**63), 2**63)


def header_json(writer: JsonWriter, schema: Schema | None, value: Any) -> str:
    """Returns a value of Python, or of java_values, as JSON. Raises DataError if it is not one of the schema, or has no
    type in Kafka Connect.
    """
    if schema is None and isinstance(value, list | tuple):
        return _list([header_json(writer, None, item) for item in value])
    if schema is None and isinstance(value, Mapping):
        return _map(writer, Schema(Type.MAP), list(value.items()), all(isinstance(key, str) for key in value))
    if schema is None and (value is None or isinstance(value, bool | str | bytes | int | np.integer)):
        return java_json(_number(value) if isinstance(value, int | np.integer) else value)
    if schema is not None and value is None:
        return str(writer.write(pa.nulls(1), schema)[0].as_py())
    if schema is not None and _is_untyped(schema):
        if schema.type is Type.ARRAY and isinstance(value, list | tuple):
            return _list([header_json(writer, schema.value, item) for item in value])
        if schema.key is not None and isinstance(value, Mapping | list | tuple):
            return _map(writer, schema, list(dict(value).items()), schema.key.type is Type.STRING)
        raise DataError(f"the schema of this {schema.type.name} has no types")
    try:
        array, metadata = column([(schema, _java_value(value, schema))])
    except (pa.ArrowException, KeyError, OverflowError) as error:
        raise DataError(f"a value of {type(value).__name__} has no type in Kafka Connect") from error
    return str(writer.write(array, schema, metadata)[0].as_py())


def _is_untyped(schema: Schema) -> bool:
    """Returns whether the schema, or one in it, is that of a list or map without a type of its elements."""
    inner = {Type.ARRAY: (schema.value,), Type.MAP: (schema.key, schema.value)}.get(schema.type, ())
    return any(one is None or _is_untyped(one) for one in inner)


def _list(items: list[str]) -> str:
    return f"[{','.join(items)}]"


def _map(writer: JsonWriter, schema: Schema, pairs: list[tuple[Any, Any]], is_object: bool) -> str:
    """Returns an object, or a list of pairs if not all keys are texts."""
    found = [(header_json(writer, schema.key, key), header_json(writer, schema.value, one)) for key, one in pairs]
    return f"{{{','.join(map(':'.join, found))}}}" if is_object else _list([_list(list(pair)) for pair in found])


def _number(value: int | np.integer[Any]) -> int | bool:
    if isinstance(value, int) and value not in _LONG:
        raise DataError("an integer has more than the 64 bits of a long")
    return value if isinstance(value, bool) else int(value)


def _java_value(value: Any, schema: Schema | None) -> Any:
    """Returns a value of Python, or of java_values, as one of java_values, decimals with the scale of their schema."""
    kind = None if schema is None else schema.type
    if isinstance(value, date | time):
        return Moment.of(value)
    if isinstance(value, Decimal) and schema is not None and schema.name == DECIMAL:
        return fitting_decimal(value, to_arrow(with_long_decimals(schema)))
    if isinstance(value, list | tuple) and kind is Type.MAP:
        value = dict(value)  # pairs
    if isinstance(value, list | tuple):
        return [_java_value(item, schema and schema.value) for item in value]
    if schema is not None and kind is Type.STRUCT and isinstance(value, dict | Struct):
        values = value if isinstance(value, dict) else value.values
        return Struct(schema, {one.name: _java_value(values.get(one.name), one.schema) for one in schema.fields})
    if isinstance(value, dict):
        return {_java_value(key, schema and schema.key): _java_value(one, schema and schema.value)
                for key, one in value.items()}
    return value
