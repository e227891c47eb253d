"""Cases whose records are in one batch: a record's outcome must not depend on the others. Java gets them one by one."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.java.hash import string_hash
from spark_tasks.pipeline.errors.failures import FailedStage, Failure, StageFailedError, good_records
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.transforms.chain import Chain, TransformError, make_chain
from spark_tasks.plugins import Plugins
from tests.golden.transforms.cases import case
from tests.golden.transforms.ours import connector_config, own_message, read, write

RECORDS = 12
_PLUGINS = Plugins()
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STEP = re.compile(r"transforms\.t(\d+) ")


class _Pipeline(SinkPipeline):
    """Of a Java sink, which gets each record with its schema."""

    keeps_tombstones_apart = True


def batch_case(seed: int, number: int) -> dict[str, Any]:
    """A case whose records follow each other in one partition."""
    one = case(seed, number, records=RECORDS)
    first = one["records"][0]
    for offset, record in enumerate(one["records"]):
        record.update(topic=first["topic"], partition=first["partition"], offset=offset)
    return one


def run_together(one: dict[str, Any]) -> dict[str, Any]:
    """The outcomes of a batch_case whose records are all in one batch."""
    try:
        return {"records": _in_sink(one) if one["sink"] else _in_source(one)}
    except ConfigError as error:
        return {"config_error": True, "message": own_message(error)}


def _in_sink(one: dict[str, Any]) -> list[dict[str, Any]]:
    """What the pipeline of a sink makes of them."""
    options = {"schemas.enable": one["schemas"], "replace.null.with.default": one["replace_nulls"]}
    converters = {f"{part}.converter.{name}": str(value).lower() for part in ("key", "value")
                  for name, value in options.items()}  # fmt: skip
    pipeline = _Pipeline({}, {
        "key.converter": _JSON, "value.converter": _JSON, **converters, **connector_config(one["chain"]),
    })  # fmt: skip
    records, outcomes = one["records"], dict[int, dict[str, Any]]()

    def refuse(failure: Failure) -> None:
        outcomes[failure.row] = _refused(failure)

    first, raw = records[0], _raw(records)
    for batch in pipeline.to_connect_by_schema(first["topic"], first["partition"], raw, refuse):
        _write(one, batch, batch.column("offset").to_pylist(), outcomes)
    return [outcomes.get(row, {"dropped": True}) for row in range(len(records))]


def _raw(records: list[dict[str, Any]]) -> pa.RecordBatch:
    def texts(part: str) -> list[bytes | None]:
        return [None if record[part] is None else record[part].encode() for record in records]

    headers = [[(k, None if v is None else v.encode()) for k, v in record["headers"]] for record in records]
    times = [-1 if record["timestamp"] is None else record["timestamp"] for record in records]
    columns = [[record["offset"] for record in records], times, texts("key"), texts("value"), headers]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)


def _refused(failure: Failure) -> dict[str, Any]:
    if failure.stage in (FailedStage.KEY_CONVERTER, FailedStage.VALUE_CONVERTER):
        return {"read_error": True, "message": str(failure.error)}
    step = _STEP.match(failure.described)
    return {"error": True, "message": str(failure.error), "step": int(step[1]) if step else None}


def _in_source(one: dict[str, Any]) -> list[dict[str, Any]]:
    """What a chain makes of the records of a source, whose schema each part of a record has or not."""
    chain, records = make_chain(_PLUGINS, connector_config(one["chain"])), one["records"]
    outcomes: dict[int, dict[str, Any]] = {}
    kinds: dict[tuple[bool, ...], list[int]] = {}
    for row, record in enumerate(records):
        kind = tuple(record[part] is None for part in ("key", "value")) if one["schemas"] else ()
        kinds.setdefault(kind, []).append(row)
    for of_kind in kinds.values():
        rows, read_batch = _readable(one, of_kind, outcomes)
        if read_batch is None:
            continue
        batch = read_batch.append_column("row", pa.array(rows))

        def note(at: int, failed: StageFailedError, rows: list[int] = rows) -> None:
            outcomes[rows[at]] = _refused(failed.failure(at))

        for part in good_records(batch, lambda some: _applied(chain, some), note):
            for changed in part:
                _write(one, changed, changed.column("row").to_pylist(), outcomes)
    return [outcomes.get(row, {"dropped": True}) for row in range(len(records))]


def _readable(
    one: dict[str, Any], rows: list[int], outcomes: dict[int, dict[str, Any]]
) -> tuple[list[int], pa.RecordBatch | None]:
    """The rows without those that cannot be read, and their batch; notes the outcomes of the others."""
    records = one["records"]
    try:
        return rows, read(one, [records[row] for row in rows])
    except DataError:
        good = []
    for row in rows:
        try:
            read(one, [records[row]])
            good.append(row)
        except DataError as error:
            outcomes[row] = {"read_error": True, "message": str(error)}
    return good, read(one, [records[row] for row in good]) if good else None


def _applied(chain: Chain, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    try:
        return list(chain.apply(batch))
    except TransformError as error:
        raise error.part from error


def as_in_buckets(found: Any) -> Any:
    """An outcome without the order of keys in the same bucket of a small HashMap: Java has that of each record's text,
    a column has one for all.
    """
    if isinstance(found, str) and found[:1] in ("{", "["):
        try:
            return as_in_buckets(json.loads(found))
        except ValueError:
            return found
    if isinstance(found, list):
        return [as_in_buckets(one) for one in found]
    if not isinstance(found, dict):
        return found
    buckets = [(hashed ^ hashed >> 16) & 15 for hashed in map(string_hash, found)]
    return buckets, {key: as_in_buckets(value) for key, value in found.items()}


def _write(one: dict[str, Any], batch: pa.RecordBatch, rows: list[int], outcomes: dict[int, dict[str, Any]]) -> None:
    try:
        outcomes.update(zip(rows, write(one, batch), strict=True))
    except DataError:
        pass  # of one of them at least
    else:
        return
    for at, row in enumerate(rows):
        try:
            [outcomes[row]] = write(one, batch.slice(at, 1))
        except DataError as error:
            outcomes[row] = {"write_error": True, "message": str(error)}
