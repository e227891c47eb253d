"""The JSON Schemas that heeler makes of the Connect schemas that Java was given."""

from __future__ import annotations

import json
from typing import Any

from spark_tasks.data.schema import from_text
from spark_tasks.pipeline.converters.json_schema.names import JsonSchemaOptions
from spark_tasks.pipeline.converters.json_schema.to_json_schema import json_schema_text


def difference(one: dict[str, Any]) -> str | None:
    """Where heeler's text differs from Java's, or None."""
    options = JsonSchemaOptions(additional=one["additional"], numeric=one["numeric"], sums=one["sums"])
    ours = json_schema_text(from_text(json.dumps(one["schema"])), options)
    return None if ours == one["java"].get("text") else f"{one}; heeler {ours}"
