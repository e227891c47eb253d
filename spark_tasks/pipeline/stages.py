"""What happens to a batch between Kafka and a connector: converters and transforms.

Both pipelines hold nothing but configuration, so they travel to executors as they are; what they need there is built
at the first batch and kept for the next splits of the same Python worker.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA, one_topic
from spark_tasks.data.rows import as_value, plain, value_field
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.metrics.phases import each, phase
from spark_tasks.pipeline.converters.base import BadRowError, Column, Converter, HeaderConverter, MixedSchemasError
from spark_tasks.pipeline.transforms.chain import Chain, make_chain
from spark_tasks.pipeline.transforms.rows import put
from spark_tasks.plugins import Plugins

_SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_KEPT = 64  # stages of so many task configurations a process

RawBatch = tuple[str, pa.Array | None, pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Stages:
    """What a pipeline runs through."""

    key: Converter
    value: Converter
    header: HeaderConverter
    chain: Chain


class _Pipeline:
    """Configuration; the stages are made on first use."""

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str]) -> None:
        wanted = ("key.converter", "value.converter", "header.converter", "plugin.path")
        self._worker = {name: str(value) for name, value in worker.items() if name.startswith(wanted)}
        self._connector = {name: str(value) for name, value in connector.items()}

    @property
    def stages(self) -> Stages:
        """Converters and transforms, made once a process and configuration. ConfigError, PluginNotFoundError."""
        return _cached_stages(tuple(sorted(self._worker.items())), tuple(sorted(self._connector.items())))


class SinkPipeline(_Pipeline):
    """Kafka's records to Connect's, for one connector's tasks."""

    def to_connect(self, topic: str, partition: int, raw: pa.RecordBatch) -> pa.RecordBatch:
        """A raw batch of one topic partition as a batch of columns.CONNECT_COLUMNS.

        DataError names topic, partition, offset and converter of the first bad record. Where the records have several
        schemas no batch can hold them all: `to_connect_batches` splits it (this one raises DataError).
        """
        batches = list(self.to_connect_batches(topic, partition, raw))
        if len(batches) != 1:
            raise DataError(f"records of {topic}-{partition} have {len(batches)} schemas: use to_connect_batches")
        return batches[0]

    def to_connect_batches(self, topic: str, partition: int, raw: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The same in order, in as few batches as there are runs of records of one schema."""
        try:
            with phase("convert"):
                key = _read(self.stages.key, "key", topic, partition, raw)
                value = _read(self.stages.value, "value", topic, partition, raw)
                batch = _connect_batch(topic, partition, raw, key, value)
        except MixedSchemasError as mixed:
            begin = 0
            for end in mixed.ends:
                yield from self.to_connect_batches(topic, partition, raw.slice(begin, end - begin))
                begin = end
            return
        yield from each("transform", self.stages.chain.apply(batch))


def _read(converter: Converter, part: str, topic: str, partition: int, raw: pa.RecordBatch) -> Column:
    array = raw.column(part)
    if array.null_count == len(array):
        return pa.nulls(len(array)), {}
    try:
        return converter.to_connect(topic, array, raw.column("headers"))
    except BadRowError as bad:
        where = f"{topic}-{partition}, offset {raw.column('offset')[bad.row].as_py()}"
        raise DataError(f"{part} of record {where} cannot be read by {type(converter).__name__}: {bad}") from bad


def _connect_batch(topic: str, partition: int, raw: pa.RecordBatch, key: Column, value: Column) -> pa.RecordBatch:
    partitions = pa.Array.from_buffers(
        pa.int32(), len(raw), [None, pa.py_buffer(np.full(len(raw), partition, np.int32))]
    )
    columns = [one_topic(topic, len(raw)), partitions, raw.column("offset"), raw.column("timestamp"), key[0], value[0]]
    headers = raw.column("headers")
    fields = [
        pa.field("topic", columns[0].type),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("key", key[0].type, metadata=key[1] or None),
        pa.field("value", value[0].type, metadata=value[1] or None),
        pa.field("headers", headers.type),
    ]
    return pa.RecordBatch.from_arrays([*columns, headers], schema=pa.schema(fields))


class SourcePipeline(_Pipeline):
    """Connect's records to Kafka's. `rows`: the connector's batches are rows, each of which is a value
    (SourceConnector.yields); their topic is the connector's `topic`, unless the batch has a column of that name and
    the source yields records.
    """

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str], *, rows: bool = False) -> None:
        super().__init__(worker, connector)
        self._rows = rows

    def to_raw(self, batch: pa.RecordBatch) -> Iterator[RawBatch]:
        """(topic, partitions or None for the partitioner, batch of columns.RAW_SCHEMA) for each topic in the batch.

        Records keep their order within a topic. Offsets are 0 (the log assigns them); a record without a timestamp
        gets the present time. DataError if a record cannot be written.
        """
        if not len(batch):
            return
        if not self._rows and "value" not in batch.schema.names:
            raise DataError(f"the source's records have no column value, only {', '.join(batch.schema.names)}; "
                            'a connector whose rows are values says yields = "rows"')
        for out in each("transform", self.stages.chain.apply(self._prepared(batch))):
            for topic, part in self._by_topic(out):
                with phase("convert"):
                    raw = self._raw(topic, part)
                yield raw

    def _prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As transforms expect it: rows are values, and records have a topic."""
        batch = _as_value(batch) if self._rows else batch
        topic = self._connector.get("topic")
        if "topic" in batch.schema.names or not topic or not self.stages.chain.stages:
            return batch
        return put(batch, "topic", one_topic(topic, len(batch)))

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if "topic" not in batch.schema.names:
            topic = self._connector.get("topic")
            if not topic:
                raise ConfigError("topic: neither the connector's configuration nor its records say a topic")
            yield topic, batch
            return
        topics = batch.column("topic")
        if not pa.types.is_dictionary(topics.type):
            topics = topics.dictionary_encode()
        if topics.null_count:
            raise DataError("a source record has no topic")
        used = pc.unique(topics.indices).to_pylist()
        for index in used:
            mine = batch if len(used) == 1 else batch.filter(pc.equal(topics.indices, index))
            yield str(topics.dictionary[index].as_py()), mine

    def _raw(self, topic: str, batch: pa.RecordBatch) -> RawBatch:
        size, names = len(batch), batch.schema.names
        columns = [
            pa.array(np.zeros(size, np.int64)),
            _timestamps(batch.column("timestamp") if "timestamp" in names else None, size),
            self._write(self.stages.key, "key", topic, batch),
            self._write(self.stages.value, "value", topic, batch),
            self._headers(topic, batch),
        ]
        partitions = batch.column("partition").cast(pa.int32()) if "partition" in names else None
        if partitions is not None and partitions.null_count == size:
            partitions = None
        return topic, partitions, pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)

    @staticmethod
    def _write(converter: Converter, part: str, topic: str, batch: pa.RecordBatch) -> pa.Array:
        if part not in batch.schema.names:
            return pa.nulls(len(batch), pa.binary())
        field = batch.schema.field(part)
        try:
            return converter.from_connect(topic, plain(batch.column(part)), field.metadata)
        except DataError as bad:
            name = type(converter).__name__
            raise DataError(f"{part} of a record for topic {topic} cannot be written by {name}: {bad}") from bad

    def _headers(self, topic: str, batch: pa.RecordBatch) -> pa.Array:
        if "headers" not in batch.schema.names:
            return pa.nulls(len(batch), HEADERS_TYPE)
        headers = batch.column("headers")
        if pa.types.is_null(headers.type) or pa.types.is_binary(headers.type.value_type.field("value").type):
            return _on_the_wire(headers)
        write = self.stages.header.from_connect_header
        return pa.array(
            [None if row is None else [(h["key"], write(topic, h["key"], None, h["value"])) for h in row]
             for row in headers.to_pylist()], HEADERS_TYPE,
        )  # fmt: skip


def _on_the_wire(headers: pa.Array) -> pa.Array:
    """Headers whose values are bytes already. A plugin's schema says that keys may be null; none must be."""
    try:
        return headers if headers.type == HEADERS_TYPE else headers.cast(HEADERS_TYPE)
    except pa.ArrowInvalid as error:
        raise DataError(f"a header of a source record has no key: {error}") from error


def _as_value(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as structs in a column `value`, with the schema that their types stand for."""
    array = as_value(batch)
    field = pa.field("value", array.type, metadata=value_field(batch.schema))
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([field]))


def _timestamps(found: pa.Array | None, size: int) -> pa.Array:
    now = int(time.time() * 1000)
    if found is None:
        return pa.array(np.full(size, now, np.int64))
    if pa.types.is_timestamp(found.type):
        found = found.cast(pa.timestamp("ms"), safe=False)
    known = found.cast(pa.int64()).fill_null(-1)
    return pc.if_else(pc.greater_equal(known, 0), known, now)


class _Setting(NamedTuple):
    """Where a converter is configured: its class and its properties."""

    name: str
    properties: dict[str, str]


def _setting(part: str, worker: Mapping[str, str], connector: Mapping[str, str], default: str | None) -> _Setting:
    """The connector's own converter with the connector's properties, or else the worker's with the worker's."""
    key = f"{part}.converter"
    for properties in (connector, worker):
        if properties.get(key):
            prefix = key + "."
            mine = {k.removeprefix(prefix): v for k, v in properties.items() if k.startswith(prefix)}
            return _Setting(properties[key], mine)
    if default is None:
        raise ConfigError(f'Missing required configuration "{key}" which has no default value.')
    return _Setting(default, {})


_stages: OrderedDict[Any, Stages] = OrderedDict()
_stages_lock = Lock()


def _cached_stages(worker: tuple[tuple[str, str], ...], connector: tuple[tuple[str, str], ...]) -> Stages:
    with _stages_lock:
        key = (worker, connector)
        if key not in _stages:
            _stages[key] = _make_stages(dict(worker), dict(connector))
        _stages.move_to_end(key)
        while len(_stages) > _KEPT:
            _stages.popitem(last=False)
        return _stages[key]


@lru_cache(maxsize=4)
def _plugins(plugin_path: str) -> Plugins:
    return Plugins(plugin_path)


def _make_stages(worker: Mapping[str, str], connector: Mapping[str, str]) -> Stages:
    plugins = _plugins(worker.get("plugin.path", ""))
    converters = []
    for part in ("key", "value"):
        name, properties = _setting(part, worker, connector, None)
        converter: Converter = plugins.converter(name)()
        converter.configure(properties, is_key=part == "key")
        converters.append(converter)
    name, properties = _setting("header", worker, connector, _SIMPLE)
    header: HeaderConverter = plugins.header_converter(name)()
    header.configure(properties)
    return Stages(converters[0], converters[1], header, make_chain(plugins, connector, header))
