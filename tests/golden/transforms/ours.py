"""What heeler makes of a case, in the form in which Driver.java answers, and how the two are compared."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import HEADERS_TYPE, one_topic
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.transforms.chain import Chain, TransformError, make_chain
from spark_tasks.plugins import Plugins

_PLUGINS = Plugins()
_KINDS = ("config_error", "read_error", "error", "write_error", "dropped")
_MADE_BY_THE_JVM = (  # their messages are Java's virtual machine's
    "java.lang.NullPointerException", "java.lang.ClassCastException", "java.lang.NumberFormatException",
    "java.lang.IndexOutOfBoundsException", "java.lang.StringIndexOutOfBoundsException",
)  # fmt: skip


def connector_config(steps: list[dict[str, Any]]) -> dict[str, str]:
    """The chain of a case as a connector's configuration."""
    config: dict[str, str] = {"transforms": ",".join(f"t{i}" for i in range(len(steps)))}
    predicates = []
    for i, step in enumerate(steps):
        config[f"transforms.t{i}.type"] = step["class"]
        config.update({f"transforms.t{i}.{key}": value for key, value in step["config"].items()})
        if "predicate" in step:
            predicates.append(f"p{i}")
            config[f"transforms.t{i}.predicate"] = f"p{i}"
            config[f"transforms.t{i}.negate"] = str(step["negate"]).lower()
            config[f"predicates.p{i}.type"] = step["predicate"]["class"]
            config.update({f"predicates.p{i}.{key}": value for key, value in step["predicate"]["config"].items()})
    return {**config, "predicates": ",".join(predicates)}


@cache
def json_converter(*, schemas: bool, replace_nulls: bool) -> JsonConverter:
    """A JsonConverter."""
    converter = JsonConverter()
    converter.configure(
        {"schemas.enable": str(schemas).lower(), "replace.null.with.default": str(replace_nulls).lower()}
    )
    return converter


def run(case: dict[str, Any]) -> dict[str, Any]:
    """The outcomes of a case, each record alone."""
    try:
        chain = make_chain(_PLUGINS, connector_config(case["chain"]))
    except ConfigError as error:
        return {"config_error": True, "message": own_message(error)}
    return {"records": [one(case, chain, record) for record in case["records"]]}


def own_message(error: ConfigError) -> str:
    """The message of a rejected configuration without the transform's name."""
    return str(error.__cause__ if isinstance(error.__cause__, ConfigError) else error)


def one(case: dict[str, Any], chain: Chain, record: dict[str, Any]) -> dict[str, Any]:
    """The outcome of one record."""
    try:
        batch = read(case, [record])
    except DataError as error:
        return {"read_error": True, "message": str(error)}
    try:
        found = list(chain.apply(batch))
    except TransformError as error:
        return {"error": True, "message": str(error.__cause__), "step": int(error.alias[1:])}
    if not found:
        return {"dropped": True}
    try:
        return write(case, found[0])[0]
    except DataError as error:
        return {"write_error": True, "message": str(error)}


def read(case: dict[str, Any], records: list[dict[str, Any]]) -> pa.RecordBatch:
    """The records as a batch, as a sink's or source's pipeline makes it."""
    converter = json_converter(schemas=case["schemas"], replace_nulls=case["replace_nulls"])
    columns: dict[str, tuple[pa.Array, dict[bytes, bytes] | None]] = {
        "topic": (one_topic(records[0]["topic"], len(records)), None)
    }
    for name, kind in (("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64())):
        columns[name] = (pa.array([record[name] for record in records], kind), None)
    if not case["sink"]:
        del columns["offset"]
    for part in ("key", "value"):
        array = pa.array([None if record[part] is None else record[part].encode() for record in records], pa.binary())
        columns[part] = (
            (pa.nulls(len(array)), None) if array.null_count == len(array) else converter.to_connect("t", array)
        )
    headers = [[(k, None if v is None else v.encode()) for k, v in record["headers"]] for record in records]
    columns["headers"] = (pa.array(headers, HEADERS_TYPE), None)
    fields = [pa.field(name, array.type, metadata=metadata or None) for name, (array, metadata) in columns.items()]
    return pa.RecordBatch.from_arrays([array for array, _ in columns.values()], schema=pa.schema(fields))


def write(case: dict[str, Any], batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The records of a batch, keys and values with their schemas."""
    converter = json_converter(schemas=True, replace_nulls=case["replace_nulls"])
    texts = {}
    for part in ("key", "value"):
        written = converter.from_connect("t", batch.column(part), batch.schema.field(part).metadata)
        texts[part] = [None if text is None else text.decode() for text in written.to_pylist()]
    rows = batch.select(["topic", "partition", "timestamp", "headers"]).to_pylist()
    return [
        {**row, "key": key, "value": value,
         "headers": [[h["key"], None if h["value"] is None else h["value"].decode()] for h in row["headers"] or ()]}
        for row, key, value in zip(rows, texts["key"], texts["value"], strict=True)
    ]  # fmt: skip


_LENIENT = (  # heeler writes what Java's JsonConverter refuses
    "does not have corresponding schema type", "mismatching scale", "Invalid type for ", "null value for field that is",
)  # fmt: skip
_FLOAT, _DIGIT, _FLOAT_DIGITS = re.compile(r"-?\d+\.\d+(?:E-?\d+)?"), re.compile(r"\d"), 9


def _same_text(java: Any, ours: Any) -> bool:
    """Returns whether texts are the same but for the digits of numbers that are the same: Java before version 19 prints
    one too many of some. A number of up to nine digits may be a float.
    """
    if not isinstance(java, str) or not isinstance(ours, str) or _FLOAT.split(java) != _FLOAT.split(ours):
        return java == ours
    return all(_same_number(*pair) for pair in zip(_FLOAT.findall(java), _FLOAT.findall(ours), strict=True))


def _same_number(java: str, ours: str) -> bool:
    if repr(float(java)) == repr(float(ours)):
        return True
    digits = max(len(_DIGIT.findall(one.partition("E")[0])) for one in (java, ours))
    one, other = np.float32(java), np.float32(ours)
    return digits <= _FLOAT_DIGITS and bool(one == other and one != 0 and np.isfinite(one))


_SAID_OTHERWISE = (  # messages that may differ, by what Java's have
    "Invalid regex",  # Python's reason
    "fromIndex",  # the JVM's
    "InsertionSpec",  # an object's address
)


_PRINTS_THE_RECORD = "Timestamp missing on record"  # Java's message goes on with the record, and objects' addresses


def _same_message(java: str, ours: str) -> bool:
    if java.startswith(_PRINTS_THE_RECORD):
        return ours == _PRINTS_THE_RECORD
    if any(words in java for words in _SAID_OTHERWISE) or (java.endswith(": null") and ours.endswith(": null")):
        return True  # the latter: a column does not tell which nulls had a schema
    return re.sub(r"java\.util\.\w*Map|java\.util\.Collections.SingletonMap", "java.util.HashMap", java) == ours


def difference(java: dict[str, Any], ours: dict[str, Any]) -> str | None:
    """Where the outcome of a record (or of a configuration) differs, or None."""
    if "write_error" in java and any(words in java["message"] for words in _LENIENT):
        return None
    kinds = [kind for kind in _KINDS if kind in java]
    if kinds != [kind for kind in _KINDS if kind in ours]:
        same = False
    elif not kinds:
        same = all(_same_text(value, ours[key]) for key, value in java.items())
    elif kinds[0] in ("read_error", "write_error", "dropped"):
        same = True
    else:
        by_jvm = java[kinds[0]] in _MADE_BY_THE_JVM
        same = java.get("step") == ours.get("step") and (by_jvm or _same_message(java["message"], ours["message"]))
    if same:
        return None
    return f"Java {json.dumps(java, ensure_ascii=False)}; heeler {json.dumps(ours, ensure_ascii=False)}"
