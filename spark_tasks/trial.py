"""Runs a connector's configuration on a few records in this process, and shows the records after each stage.

A source is read from its beginning; a sink is given records. A trial has no side effects: it produces no records,
commits no offsets and calls no writer.
"""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle

from spark_tasks.config.connector_keys import tasks_max, topics_of
from spark_tasks.config.masking import hide_passwords, process_secrets
from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA, is_json, nulls_are_absent
from spark_tasks.errors import ConfigError, ConnectError, DataError, PluginExitError, plugin_code
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.pipeline.transforms.chain import Chain, TransformError
from spark_tasks.pipeline.transforms.columns_or_rows import joined
from spark_tasks.plugins import Plugins
from spark_tasks.plugins.api import SinkConnector, SourceConnector, SourceOffset, SourcePartition
from spark_tasks.plugins.spark_task import as_spark_task
from spark_tasks.sinks.writes import as_rows
from spark_tasks.sources.readers import StreamReader
from spark_tasks.sources.split import as_batches, read_simple
from spark_tasks.sources.stream_offsets import StreamOffset, from_connect
from spark_tasks.tasks.data_sources import data_source_of
from spark_tasks.tasks.pace import SplitSize

MAX_WAIT_S: Final = 5.0  # for a source that has no records yet
_PAUSE_S: Final = 0.1
_TRANSFORMS: Final = ("transforms", "predicates")
_PARTS: Final = ("value", "key", "topic", "headers", "partition", "offset", "timestamp")  # members of an input record
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class StageRecords:
    """The records that one stage returns. `accepted`: for each input record of a transform, whether its predicate
    (after `negate`) selects the record; None without a predicate. `error`: why the trial ended at this stage.
    """

    stage: str
    plugin: str
    records: list[dict[str, Any]]
    accepted: list[bool] | None = None
    error: str | None = None

    def as_data(self) -> dict[str, Any]:
        """Returns the fields as a dictionary for JSON, without those that are None."""
        more = {"accepted": self.accepted, "error": self.error}
        return {"stage": self.stage, "plugin": self.plugin, "records": self.records,
                **{key: value for key, value in more.items() if value is not None}}


class _Context:
    """The context of a connector that is asked for its task configurations."""

    def __init__(self) -> None:
        self.metrics = PluginMetrics()  # never exported

    def request_task_reconfiguration(self) -> None:
        """Does nothing, as a trial has no herder."""

    def raise_error(self, error: Exception) -> None:
        """Fails the trial."""
        raise error

    def offsets(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        """Returns no offsets, so that the connector starts at its beginning."""
        return ()


def try_connector(
    plugins: Plugins, worker: Mapping[str, str], config: Mapping[str, str], *,
    records: Callable[[], Iterable[tuple[str, int, pa.RecordBatch]]], limit: int,
) -> list[StageRecords]:
    """Passes at most `limit` records through all stages, and returns the records after each stage.

    `records` returns a sink's input: tuples of topic, partition and a batch of RAW_SCHEMA. If a stage fails, it is the
    last one in the result and has an `error`, without the connector's passwords; for an error in a source's own code
    that is a traceback. Raises ConfigError, PluginNotFoundError or another ConnectError if no stage can run.
    """
    name = config.get("connector.class", "")
    with plugin_code(interruptible=True):
        connector = plugins.connector_of(config).cls
        hide_passwords(config.get("name", ""), config, connector)
        if issubclass(connector, SourceConnector):
            return list(_masked(_stopping(_source(connector, name, worker, config, limit))))
        if issubclass(connector, SinkConnector):
            return list(_masked(_stopping(_sink(connector, name, worker, config, records(), limit))))
    raise ConfigError(f"Invalid value {name} for configuration connector.class: it is neither a source nor a sink")


def topic_of_records(config: Mapping[str, str]) -> str:
    """Returns the topic of the input records of a sink that name none."""
    return next(iter(topics_of(config)), "topic")


def raw_records(objects: Iterable[Mapping[str, Any]], topic: str) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Parses the input records of a sink. Yields topic, partition and a batch (RAW_SCHEMA) of one record.

    Each object has `value` and optionally `key`, `topic`, `partition`, `offset`, `timestamp` (ms, or ISO 8601 as
    `heeler topics read` prints it) and `headers` (an object or a list of pairs). Strings become UTF-8 bytes, null stays
    null, other values become JSON. `topic` is the default topic. Raises DataError if an object is invalid.
    """
    for number, record in enumerate(objects):
        if not isinstance(record, Mapping):
            raise DataError(f"record {number + 1} is not a JSON object")
        if set(record) - set(_PARTS) or not {"value", "key"} & set(record):
            keys = f"the keys {', '.join(map(str, record))}" if record else "no keys"
            raise DataError(f"record {number + 1} has {keys}; allowed are value and, optionally, "
                            f"{', '.join(_PARTS[1:])}")
        try:
            row = {"offset": int(record.get("offset", number)), "timestamp": _milliseconds(record.get("timestamp")),
                   "key": _bytes(record.get("key")), "value": _bytes(record.get("value")), "headers": _headers(record)}
            columns = [pa.array([row[f.name]], HEADERS_TYPE if f.name == "headers" else f.type) for f in RAW_SCHEMA]
            partition = pa.scalar(int(record.get("partition", 0)), pa.int32()).as_py()  # raises if it is too large
            yield str(record.get("topic", topic)), partition, pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"record {number + 1} has an invalid field: {error}") from error


def _milliseconds(value: Any) -> int:
    if value is None:
        return -1
    if not isinstance(value, str):
        return int(value)
    when = dt.datetime.fromisoformat(value)
    return (when.replace(tzinfo=when.tzinfo or dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)


def _headers(one: Mapping[str, Any]) -> list[tuple[str, bytes | None]] | None:
    headers = one.get("headers") or ()
    pairs: list[tuple[str, bytes | None]] = []
    for pair in headers.items() if isinstance(headers, Mapping) else headers:
        match pair:
            case (key, value) | {"key": key, "value": value}:  # `heeler run` prints objects
                pairs.append((str(key), _bytes(value)))
            case _:
                raise ValueError('headers must be {"name": value} or [["name", value]]')
    return pairs or None


def _source(
    connector: type[SourceConnector], name: str, worker: Mapping[str, str], config: Mapping[str, str], limit: int
) -> Iterator[StageRecords | Exception]:
    pipeline = SourcePipeline(worker, config, rows=connector.yields == "rows")
    stages = pipeline.stages
    try:
        with plugin_code(interruptible=True):
            batches = _cut(_read(connector, config, limit), limit)
    except Exception as error:  # plugin code, whose author needs the traceback
        if isinstance(error, ConnectError) and not isinstance(error, PluginExitError):
            raise  # its message says what is wrong with the configuration
        yield StageRecords("read", name, [], error="".join(traceback.format_exception(error)).strip())
        return
    yield StageRecords("read", name, shown(batches))
    prepared = [pipeline.prepared(batch) for batch in batches if len(batch)]
    batches = yield from _transformed(stages.chain, prepared)
    last = SourcePipeline(worker, _without_transforms(config))
    plugin = f"key: {type(stages.key).__name__}, value: {type(stages.value).__name__}"
    yield from _staged("converter", plugin, (
        {"topic": topic, **record} for batch in batches for topic, _, raw in last.to_raw(batch)
        for record in shown([raw.drop_columns(["offset"])])))


def _sink(
    connector: type[SinkConnector], name: str, worker: Mapping[str, str], config: Mapping[str, str],
    raws: Iterable[tuple[str, int, pa.RecordBatch]], limit: int,
) -> Iterator[StageRecords | Exception]:
    given = list(itertools.islice(raws, limit))
    yield StageRecords("read", "", [{"topic": topic, "partition": partition, **record}
                            for topic, partition, raw in given for record in shown([raw])])
    first = SinkPipeline(worker, _without_transforms(config))
    stages = SinkPipeline(worker, config).stages
    converted: list[pa.RecordBatch] = []
    plugin = f"key: {type(stages.key).__name__}, value: {type(stages.value).__name__}"
    try:
        for topic, partition, raw in given:
            converted += first.to_connect_batches(topic, partition, raw)
    except DataError as error:
        yield StageRecords("converter", plugin, shown(converted), error=str(error))
        return
    yield StageRecords("converter", plugin, shown(converted))
    batches = yield from _transformed(stages.chain, joined(converted))
    written = map(as_rows, batches) if connector.accepts == "rows" else iter(batches)
    yield from _staged("write", name, (record for batch in written for record in shown([batch])))


def _transformed(chain: Chain, batches: list[pa.RecordBatch]) -> Any:
    """Yields the StageRecords of each transform, and returns the batches of the last one. After a DataError, which the
    last StageRecords reports, returns no batches.
    """
    for stage in chain.stages:
        accepted: list[bool] | None = None
        out: list[pa.RecordBatch] = []
        name = f"transforms.{stage.alias}"
        try:
            if stage.predicate is not None:
                chosen = [stage.selected(one, stage.predicate) for one in batches]
                accepted = [bool(yes) for one in chosen for yes in one.to_pylist()]
            for one in batches:
                out += stage.apply(one)
        except DataError as error:
            yield StageRecords(name, stage.class_name, shown(out), accepted, str(error))
            return []
        batches = joined(out)
        yield StageRecords(name, stage.class_name, shown(batches), accepted)
    try:
        return chain.settled(batches)
    except TransformError as error:
        yield StageRecords(f"transforms.{error.alias}", error.class_name, [], error=str(error))
        return []


def _stopping(seen: Iterator[Any]) -> Iterator[StageRecords]:
    """Yields the stages up to the first that fails, inclusive."""
    for one in seen:
        yield one
        if one.error is not None:
            return


def _masked(seen: Iterator[StageRecords]) -> Iterator[StageRecords]:
    """Masks secrets in errors, but not in records, which are data."""
    mask = process_secrets().mask
    for one in seen:
        yield one if one.error is None else replace(one, error=mask(one.error))


def _staged(stage: str, plugin: str, records: Iterable[dict[str, Any]]) -> Iterator[StageRecords]:
    """Yields the records of a stage, up to a DataError if there is one."""
    staged: list[dict[str, Any]] = []
    try:
        staged.extend(records)
    except DataError as error:
        yield StageRecords(stage, plugin, staged, error=str(error))
        return
    yield StageRecords(stage, plugin, staged)


def _read(connector: type[SourceConnector], config: Mapping[str, str], limit: int) -> Iterator[pa.RecordBatch]:
    """Reads all tasks from their beginning until there are `limit` records, or no more for now. If there are none yet,
    waits for up to MAX_WAIT_S.
    """
    streams = streams_of(connector, config)
    try:
        positions = [from_connect(stream.reader, task, ()) for task, stream in enumerate(streams)]
        deadline = time.monotonic() + MAX_WAIT_S
        count = 0
        while count < limit:
            before = count
            for task, stream in enumerate(streams):
                batches, positions[task] = _some(stream, positions[task], limit)
                for batch in batches:
                    count += len(batch)
                    yield batch
            if count == before:
                if count or time.monotonic() > deadline:
                    return
                time.sleep(_PAUSE_S)
    finally:
        for stream in streams:
            stream.stop()


def streams_of(connector: type[SourceConnector], config: Mapping[str, str]) -> list[StreamReader]:
    """Returns a reader for each task configuration that the connector generates."""
    instance = connector(config, _Context())
    instance.start()
    try:
        tasks = list(instance.task_configs(tasks_max(config)))
    finally:
        instance.stop()
    return [StreamReader(data_source_of(connector, options)) for options in tasks]


def _some(stream: StreamReader, start: StreamOffset, limit: int) -> tuple[Iterator[pa.RecordBatch], StreamOffset]:
    """Returns the next batches (read lazily) after offset `start`, and the offset at their end."""
    if stream.simple:
        rows, end = read_simple(stream.reader, start)
        return as_batches(itertools.islice(rows, limit), stream.schema), end
    plan = stream.plan(start, SplitSize())
    if plan is None or plan.end is None:
        return iter(()), start
    rows = rows_of(stream.reader, plan.partitions)
    return as_batches(itertools.islice(rows, limit), stream.schema), plan.end


def rows_of(reader: Any, partitions: Iterable[bytes]) -> Iterator[Any]:
    """Yields the rows, or batches, that a stream reader reads from pickled partitions."""
    for number, partition in enumerate(partitions):
        with as_spark_task(number):
            yield from reader.read(cloudpickle.loads(partition))


def _cut(batches: Iterable[pa.RecordBatch], limit: int) -> list[pa.RecordBatch]:
    kept: list[pa.RecordBatch] = []
    left = limit
    for batch in batches:
        if len(batch):
            kept.append(batch.slice(0, left))
            left -= len(kept[-1])
        if left <= 0:
            break
    return kept


def _without_transforms(config: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in config.items() if key not in _TRANSFORMS}


def shown(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Returns records as values for JSON. Null columns other than key and value are omitted from each record."""
    rows: list[dict[str, Any]] = []
    for batch in batches:
        rows += ({field.name: _shown(row[field.name], field) for field in batch.schema
                  if row[field.name] is not None or field.name in ("key", "value")} for row in batch.to_pylist())
    return rows


def _shown(value: Any, field: pa.Field) -> Any:
    """Returns a value as JSON: of a schemaless map, only the keys that it has, with their values parsed."""
    if is_json(field.metadata) and isinstance(value, str):
        return json.loads(value)
    if pa.types.is_struct(field.type) and isinstance(value, dict):
        return {child.name: _shown(value[child.name], child) for child in field.type
                if value[child.name] is not None or not nulls_are_absent(child.metadata)}
    if pa.types.is_list(field.type) and isinstance(value, list):
        return [_shown(item, field.type.value_field) for item in value]
    return _json(value)


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode()
