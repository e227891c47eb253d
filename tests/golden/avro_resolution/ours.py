"""What heeler reads from a record of one schema as one of another."""

from __future__ import annotations

import base64
import json
from typing import Any

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.avro.codec import AvroCodec
from spark_tasks.pipeline.converters.avro.resolution import resolved
from spark_tasks.pipeline.converters.avro.tree import parse

_ONLY_READ = "an Avro array has items without bytes"  # heeler does not write such lists


def run(given: dict[str, Any]) -> dict[str, Any]:
    """The value, written again as Java's driver does, or the error."""
    written, wanted = (parse(json.dumps(given[key])) for key in ("written", "wanted"))
    try:
        found = resolved(AvroCodec(written).decode([base64.b64decode(given["bytes"])]), written, wanted)
        return {"bytes": base64.b64encode(AvroCodec(wanted).encode(found)[0].as_py()).decode()}
    except DataError as error:
        return {"error": str(error)}


def difference(one: dict[str, Any]) -> str | None:
    """Where heeler differs from Java, or None."""
    java, ours = one["java"], run(one)
    if java == ours or ("error" in ours and ("error" in java or ours["error"].startswith(_ONLY_READ))):
        return None
    return f"{json.dumps(one, ensure_ascii=False)}; heeler {json.dumps(ours, ensure_ascii=False)}"
