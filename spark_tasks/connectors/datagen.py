"""The `datagen` source, which generates numbered records for tests and benchmarks. The `verify` sink checks them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.arrays.buffers import string_array
from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonEmpty, Type, at_least
from spark_tasks.connectors.numbered_tasks import TaskNumber, numbered
from spark_tasks.connectors.offset_checks import check_count
from spark_tasks.connectors.read_limits import max_rows
from spark_tasks.data.columns import SCHEMA_KEY, one_topic
from spark_tasks.data.rows import as_value, value_field
from spark_tasks.data.schema import STRING, to_text
from spark_tasks.plugins.api import AlteredOffsets, Options, SourceConnector, SourceOffset, SourcePartition

_NAME = "datagen"
_BATCH = 65_536
_BATCH_BYTES = 32 * 1024 * 1024  # of payloads in a record batch
_MAX_ROWS = 2_000_000  # in a batch


class DatagenSourceConnector(SourceConnector):
    """Generates streams of records, which are numbered from 0. A stream is a source partition {"stream": n} with the
    offset {"sequence": next number}. A record's key is the stream's number as a string, so that a stream keeps its
    order in one topic partition. Its value is a struct of stream, sequence, time (ms) and payload.
    """

    version = "0.1.0"
    config_def = ConfigDef(
        ConfigKey("topic", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH, doc="The topic to write to."),
        ConfigKey(
            "streams", Type.INT, default=0, validator=at_least(0),
            doc="The number of streams; 0: one per task (tasks.max).",
        ),
        ConfigKey("records", Type.LONG, default=-1, validator=at_least(-1),
                  doc="The number of records in each stream; -1: unlimited."),
        ConfigKey(
            "rate", Type.LONG, default=0, validator=at_least(0), doc="Records per second of each task; 0 for no limit.",
        ),
        ConfigKey(
            "pace.ms", Type.LONG, default=0, validator=at_least(0),
            doc="If rate is set: the interval at which all due records are emitted together; 0: each when it is due.",
        ),
        ConfigKey("payload.bytes", Type.INT, default=20, validator=at_least(0), doc="The size of each payload."),
    )  # fmt: skip

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        """Distributes the streams to tasks. Returns no task without a stream."""
        streams = int(self.config_def.parse(self.config)["streams"]) or max_tasks
        count = min(max_tasks, streams)
        return numbered(_NAME, {**self.config, "streams": str(streams)}, count)

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        return DatagenData(dict(options))

    @classmethod
    @override
    def exactly_once_support(cls, config: Options) -> bool | None:
        """Returns True, as a record depends only on its number."""
        return True

    @classmethod
    @override
    def alter_offsets(cls, config: Options, offsets: AlteredOffsets) -> bool:
        """Raises ConnectError unless each sequence is a non-negative number."""
        for _, offset in offsets:
            if offset is not None:
                check_count(offset, "sequence")
        return True


class DatagenData(DataSource):  # type: ignore[misc]  # PySpark has no types
    """The streams of one task."""

    @classmethod
    @override
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        """Returns the names of the columns of Connect records."""
        return "topic string, key string, value string"

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = dict(self.options)
        task = TaskNumber.taken(_NAME, options)
        parsed = DatagenSourceConnector.config_def.parse(options)
        streams = range(task.index, parsed["streams"] or 1, task.count)
        return DatagenReader(parsed["topic"], list(streams), parsed["records"], parsed["rate"], parsed["payload.bytes"],
                             parsed["pace.ms"] / 1000)


@dataclass
class Numbers(InputPartition):  # type: ignore[misc]  # PySpark has no types
    """The sequence numbers from `start` to `end` (exclusive) of a stream."""

    stream: int
    start: int
    end: int


class DatagenReader(DataSourceStreamReader):  # type: ignore[misc]  # PySpark has no types
    """Reads the streams of one task. The offset is {stream: next sequence number}."""

    def __init__(self, topic: str, streams: Sequence[int], records: int, rate: int, payload: int,
                 pace_s: float = 0.0) -> None:
        self._topic = topic
        self._streams = list(streams)
        self._records = records
        self._rate = rate
        self._payload = payload
        self._pace_s = pace_s
        self._begun: tuple[float, int] | None = None  # start of the reader, and the number of records before it

    @override
    def initialOffset(self) -> dict[str, Any]:
        return {str(stream): 0 for stream in self._streams}

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(_MAX_ROWS)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        """Returns the end offsets: as many records as the limit and the rate allow, distributed evenly over the
        streams.
        """
        allowed = min(max_rows(limit, row_bytes=40 + self._payload) or _MAX_ROWS, self._due(start))
        each, rest = divmod(allowed, max(1, len(self._streams)))
        end = {}
        for place, stream in enumerate(self._streams):
            at = int(start.get(str(stream), 0)) + each + (place < rest)
            end[str(stream)] = at if self._records < 0 else max(int(start.get(str(stream), 0)), min(at, self._records))
        return end

    def _due(self, start: Mapping[str, Any]) -> int:
        if not self._rate:
            return _MAX_ROWS
        made, now = sum(int(at) for at in start.values()), time.monotonic()
        if self._begun is None:
            self._begun = (now, made)
        passed = now - self._begun[0]
        if self._pace_s:
            passed -= passed % self._pace_s
        return max(0, self._begun[1] + int(passed * self._rate) - made)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Returns one partition for each stream."""
        ranges = ((int(s), int(start.get(s, 0)), int(until)) for s, until in end.items())
        return [Numbers(stream, begin, until) for stream, begin, until in ranges if until > begin]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the numbered records."""
        assert isinstance(partition, Numbers)  # noqa: S101
        rows = max(1, min(_BATCH, _BATCH_BYTES // max(self._payload, 1)))
        for begin in range(partition.start, partition.end, rows):
            yield self._batch(partition.stream, begin, min(begin + rows, partition.end))

    def _batch(self, stream: int, begin: int, end: int) -> pa.RecordBatch:
        size = end - begin
        now = pa.array(np.full(size, int(time.time() * 1000), np.int64))
        columns = {
            "stream": pa.array(np.full(size, stream, np.int32)),
            "sequence": pa.array(np.arange(begin, end, dtype=np.int64)),
            "time": now,
            "payload": _repeated("x" * self._payload, size),
        }
        rows = pa.RecordBatch.from_pydict(columns, schema=_ROWS)
        topics, value = one_topic(self._topic, size), as_value(rows)
        fields = [
            pa.field("topic", topics.type),
            pa.field("timestamp", pa.int64()),
            pa.field("key", pa.string(), metadata={SCHEMA_KEY: to_text(STRING).encode()}),
            pa.field("value", value.type, metadata=value_field(_ROWS)),
        ]
        keys = _repeated(str(stream), size)
        return pa.RecordBatch.from_arrays([topics, now, keys, value], schema=pa.schema(fields))

    @override
    def to_source_offsets(self, offset: dict[str, Any]) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        return [({"stream": int(stream)}, {"sequence": sequence}) for stream, sequence in offset.items()]

    @override
    def from_source_offsets(self, offsets: Sequence[tuple[SourcePartition, SourceOffset]]) -> dict[str, Any]:
        start = self.initialOffset()
        for partition, offset in offsets:
            stream = str(partition.get("stream"))
            if stream in start and offset:
                start[stream] = int(offset.get("sequence", 0))
        return start


_ROWS = pa.schema([
    pa.field("stream", pa.int32(), nullable=False),
    pa.field("sequence", pa.int64(), nullable=False),
    pa.field("time", pa.int64(), nullable=False),
    pa.field("payload", pa.string(), nullable=False),
])


def _repeated(text: str, times: int) -> pa.Array:
    data = np.frombuffer(text.encode() * times, np.uint8)
    return string_array(data, (np.arange(times + 1) * len(text)).astype(np.int32))
