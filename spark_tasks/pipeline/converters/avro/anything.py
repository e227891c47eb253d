"""Converts schemaless values to and from Avro. Each value is a record of one recursive schema, in which the field with
the value has its type's name. The values are converted one by one, because Arrow has no recursive types.
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.schema import parse_schema

from spark_tasks.data.columns import Metadata
from spark_tasks.data.schema import Type
from spark_tasks.errors import DataError
from spark_tasks.java.hash import hash_order
from spark_tasks.limits import MAX_DEPTH
from spark_tasks.pipeline.converters.avro.codec import by_index
from spark_tasks.pipeline.converters.avro.names import AVRO_NAMES
from spark_tasks.pipeline.converters.avro.to_avro import ANYTHING
from spark_tasks.pipeline.converters.base import BadRowsError, Column
from spark_tasks.pipeline.converters.java_columns import untyped
from spark_tasks.pipeline.converters.java_values import class_name, schema_type, values

_FULL_NAME = f"{ANYTHING['namespace']}.{ANYTHING['name']}"
_PARSED = parse_schema(ANYTHING)
_NARROW = {"int": np.int32, "float": np.float32}
_SIMPLE = ("boolean", "bytes", "double", "float", "int", "long", "string")


def _levels(level: int) -> Any:
    """Returns the schema with this many levels below it, each with its own name. In the last one, lists and maps have
    no items.
    """
    fields: list[Any] = [{"name": name, "type": ["null", name]} for name in _SIMPLE]
    item = {"type": "record", "name": f"L{level}", "fields": fields}
    if level == 0:
        fields += [{"name": name, "type": ["null", "boolean"]} for name in ("array", "map")]
        return item
    entry = {"type": "record", "name": f"E{level}", "fields": [
        {"name": name, "type": f"L{level - 1}"} for name in ("key", "value")]}
    fields += [{"name": "array", "type": ["null", {"type": "array", "items": _levels(level - 1)}]},
               {"name": "map", "type": ["null", {"type": "array", "items": entry}]}]
    return item


# fastavro calls itself for each level of a value, and thousands of levels would end the process: so the schema to read
# with is not recursive
_BOUNDED = by_index(parse_schema(_levels(MAX_DEPTH + 2)))


def is_anything(text: str) -> bool:
    """Returns whether a schema is the one for schemaless values."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(schema, dict):
        return False
    name = schema.get("name")
    return _FULL_NAME in (name, f"{schema.get('namespace')}.{name}")


def read(payloads: list[bytes], skip: int) -> Column:
    """Converts payloads to a schemaless column. `skip`: the bytes before each payload. Raises BadRowsError."""
    found, bad = [], []
    for row, payload in enumerate(payloads):
        try:
            found.append(_value(fastavro.schemaless_reader(
                io.BytesIO(payload[skip:]), _BOUNDED, None, handle_unicode_errors="replace"
            ), 0))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - fastavro has no error class for invalid bytes
            bad.append((row, DataError(f"Error deserializing Avro message: {type(error).__name__}: {error}")))
    if bad:
        raise BadRowsError(bad)
    return untyped(found, _plain)


def _value(record: Any, depth: int) -> Any:
    """Returns the value of a record, as java_values has it."""
    if depth > MAX_DEPTH:
        raise DataError(f"the value is nested more than {MAX_DEPTH} levels deep")
    for name in _SIMPLE:
        if record[name] is not None:
            narrow = _NARROW.get(name)
            return narrow(record[name]) if narrow else record[name]
    if record["array"] is not None:
        return [_value(item, depth + 1) for item in record["array"]]
    if record["map"] is not None:
        found = {_key(entry["key"], depth): _value(entry["value"], depth + 1) for entry in record["map"]}
        return {name: found[name] for name in hash_order(found)}
    return None


def _key(record: Any, depth: int) -> str:
    found = _value(record, depth + 1)
    return found if isinstance(found, str) else json.dumps(_plain(found))


def _plain(value: Any) -> Any:
    """Returns a value as one that JSON has."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.item() if isinstance(value, np.generic) else value


def write(array: pa.Array, metadata: Metadata) -> pa.Array:
    """Converts schemaless values to bytes. Raises DataError."""
    out = []
    for value in values(array, metadata):
        target = io.BytesIO()
        try:
            fastavro.schemaless_writer(target, _PARSED, _record(value))
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"Error serializing Avro message: {error}") from error
        out.append(target.getvalue())
    return pa.array(out, pa.binary())


def _record(value: Any) -> dict[str, Any]:
    """Returns the record of a value of java_values."""
    if value is None:
        return {}
    if isinstance(value, list):
        return {"array": [_record(item) for item in value]}
    if isinstance(value, dict):
        return {"map": [{"key": _record(key), "value": _record(one)} for key, one in value.items()]}
    kind = schema_type(value)
    if kind is None or kind in (Type.BYTES, Type.STRUCT):
        raise DataError(f"Unknown Java type for schemaless data: class {class_name(value)}")
    return {AVRO_NAMES[kind]: value.item() if isinstance(value, np.generic) else value}
