"""What heeler makes of a value that Java's AvroData was given."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa

from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import to_text
from spark_tasks.errors import DataError
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.avro import columns
from spark_tasks.pipeline.converters.avro import names as n
from spark_tasks.pipeline.converters.avro.codec import AvroCodec
from spark_tasks.pipeline.converters.avro.names import AvroOptions
from spark_tasks.pipeline.converters.avro.to_avro import avro_text
from spark_tasks.pipeline.converters.avro.to_connect import connect_schema
from spark_tasks.pipeline.converters.avro.tree import parse
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.json import JsonConverter

_JSON = JsonConverter()
_JSON.configure({"schemas.enable": "true", "replace.null.with.default": "false"})


def run(given: dict[str, Any]) -> dict[str, Any]:
    """The schema for the registry, the bytes, and the value that is read from them; or the error."""
    options = AvroOptions(enhanced=given["enhanced"], metadata=given["meta"])
    found: dict[str, Any] = {}
    try:
        array, metadata = _JSON.to_connect("t", pa.array([given["text"].encode()], pa.binary()))
        schema = schema_of(metadata)
        assert schema is not None
        found["schema"] = avro_text(schema, options)
        node = parse(found["schema"])
        codec = AvroCodec(node)
        written = codec.encode(columns.from_connect(array, schema, node, options))
        found["bytes"] = base64.b64encode(written[0].as_py()).decode()
        back = connect_schema(node, options)
        read = columns.to_connect(codec.decode(written.to_pylist()), node, back)
        text = _JSON.from_connect("t", read, {SCHEMA_KEY: to_text(back).encode()})
        found["back"] = text[0].as_py().decode()
    except DataError as error:
        found["error"] = str(error)
    return found


_DEFINED = {"fields", "symbols", "size"}  # what a record, an enum and a fixed have
_SAME_NAME = "two different schemas have the name"  # Java refers to the first one, and nobody can read the bytes


def difference(one: dict[str, Any]) -> str | None:
    """Where heeler differs from Java, or None. Maps that are read may have their entries in another order."""
    java, ours = one["java"], run(one)
    if "error" in ours and ("error" in java or ours["error"].startswith(_SAME_NAME)):
        return None
    same = java.keys() == ours.keys() and java["bytes"] == ours["bytes"]
    same = same and java["schema"] in (ours["schema"], _of_older_versions(ours["schema"]))
    if same and _sorted(json.loads(java["back"])) == _sorted(json.loads(ours["back"])):
        return None
    return f"{one['text']}: Java {json.dumps(java, ensure_ascii=False)}; heeler {json.dumps(ours, ensure_ascii=False)}"


def _of_older_versions(schema: str) -> str:
    """The text without the parameters of fields, which Confluent's AvroData has since 8.3, but not Apicurio's copy."""
    def older(found: dict[str, Any]) -> dict[str, Any]:
        is_field = "name" in found and not found.keys() & _DEFINED
        return {key: one for key, one in found.items() if not (is_field and key == n.CONNECT_PARAMETERS)}

    return java_json(json.loads(schema, object_hook=older), to_bytes=False)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(one) for key, one in value.items()}
    if not isinstance(value, list):
        return value
    items = [_sorted(item) for item in value]
    pairs = bool(items) and all(isinstance(item, list) and len(item) == 2 for item in items)
    return sorted(items, key=repr) if pairs else items
