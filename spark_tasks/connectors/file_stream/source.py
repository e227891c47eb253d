"""FileStreamSource, which reads the lines of a file that may grow, or of standard input."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonEmpty, Type
from spark_tasks.connectors.file_stream.line_ends import check_line, last_line_end, nth_line_end
from spark_tasks.connectors.file_stream.standard_input import standard_input
from spark_tasks.connectors.lines import split_lines
from spark_tasks.connectors.read_limits import DEFAULT_BYTES, max_bytes
from spark_tasks.data.columns import SCHEMA_KEY, one_topic
from spark_tasks.data.schema import STRING, to_text
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.plugins.api import AlteredOffsets, Options, SourceConnector, SourceOffset, SourcePartition

_logger = logging.getLogger(__name__)
_FIRST_CHUNK = 1024 * 1024  # small, so that the broker gets records early, while the next chunk is read
CHUNK_BYTES = 8 * 1024 * 1024
_BUFFER_BYTES = 64 * 1024 * 1024  # of standard input, in the worker's memory
_MAX_LONG = 2**63 - 1
_START_AGAIN = "To read it from its beginning, stop the connector, reset its offsets and resume it"


class FileStreamSourceConnector(SourceConnector):
    """Kafka Connect's FileStreamSource, with one source partition {"filename"}. The offset {"position"} is the number
    of bytes of the sent lines. (Java counts characters and later skips as many bytes, see ADR 0008.) `batch.size`
    applies only if it is set: batches of its default, 2000 lines, would cost far more than reading them.
    """

    version = "4.3.1"
    nested_offsets = False
    aliases = ("org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSource")
    config_def = ConfigDef(
        ConfigKey(
            "file", Type.STRING, default=None, importance=Importance.HIGH,
            doc="The file to read. Unset: the worker's standard input.",
        ),
        ConfigKey(
            "topic", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH,
            doc="The topic to write lines to.",
        ),
        ConfigKey(
            "batch.size", Type.INT, default=2000, importance=Importance.LOW,
            doc="The maximum number of lines in a batch; transaction.boundary=poll makes each batch a transaction. If "
                "not set, size and time limit batches, which is faster.",
        ),
    )  # fmt: skip

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        return FileStreamData(dict(options))

    @classmethod
    @override
    def exactly_once_support(cls, config: Options) -> bool | None:
        """Returns True for a file, which can be read again from a position, and False for standard input."""
        return bool(cls.config_def.parse(config)["file"])

    @classmethod
    @override
    def alter_offsets(cls, config: Options, offsets: AlteredOffsets) -> bool:
        """Raises ConnectError for offsets from which no task could start. Tombstones are always allowed."""
        if not cls.config_def.parse(config)["file"]:
            raise ConnectError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used "
                "for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is not None:
                _check_position(offset)
                if partition is None:
                    raise ConnectError("Partition objects cannot be null")
                if "filename" not in partition:
                    raise ConnectError("Partition objects should contain the key 'filename'")
        return True


def _check_position(offset: SourceOffset) -> None:
    if "position" not in offset:
        raise ConnectError("Offset objects should either be null or contain the key 'position'")
    position = offset["position"]
    if not _is_long(position):
        raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
    if position < 0:
        raise ConnectError("The value for the 'position' key in the offset should be a non-negative value")


def _is_long(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_LONG


class FileStreamData(DataSource):  # type: ignore[misc]  # PySpark has no types
    """The lines of a file or of standard input."""

    @classmethod
    @override
    def name(cls) -> str:
        return "filestream"

    @override
    def schema(self) -> str:
        return "topic string, timestamp long, value string"

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        parsed = FileStreamSourceConnector.config_def.parse(self.options)
        if not parsed["file"]:
            return StandardInputReader(parsed["topic"])
        lines = parsed["batch.size"] if "batch.size" in self.options else None
        return FileReader(parsed["file"], parsed["topic"], lines)


@dataclass
class FileRange(InputPartition):  # type: ignore[misc]  # PySpark has no types
    """Complete lines of a file, from byte `start` to byte `end` (exclusive)."""

    file: str
    topic: str
    start: int
    end: int


class FileReader(DataSourceStreamReader):  # type: ignore[misc]  # PySpark has no types
    """Reads a file. The offset is {"filename", "position"}. A batch has at most `lines` lines, but at least one.

    Opens the file for each batch. If the file was replaced, reads the new file from the same position. If it has become
    shorter, waits until it is longer again.
    """

    def __init__(self, file: str, topic: str, lines: int | None = None) -> None:
        self._file = file
        self._topic = topic
        self._lines = lines
        self._warning = ""  # the last one

    @override
    def initialOffset(self) -> dict[str, Any]:
        return {"filename": self._file, "position": 0}

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(DEFAULT_BYTES)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        """Returns the end of the last complete line within the limit, or `start` if there is no new line."""
        position = int(start["position"])
        try:
            fd = os.open(self._file, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
        except FileNotFoundError:
            self._warn(f"Couldn't find file {self._file} for FileStreamSource, waiting for it to be created")
            return dict(start)
        except OSError as error:
            raise RetriableError(f"file {self._file} cannot be opened: {error}") from error
        try:
            status = os.fstat(fd)
            if stat.S_ISFIFO(status.st_mode):
                raise ConnectError(f"file {self._file} is a pipe, which has no positions to continue from; to read the "
                                   "worker's standard input, do not set file")
            size = status.st_size
            if size < position:
                self._warn(f"File {self._file} is shorter than the position of the next line, {position}: waiting "
                           f"until it is longer. Was it truncated or replaced? {_START_AGAIN}")
                return dict(start)
            self._warning = ""
            allowed = max_bytes(limit)
            bound = size if allowed is None else min(size, position + max(1, allowed))
            if self._lines is not None:
                bound = nth_line_end(fd, position, bound, max(1, self._lines))
            return {"filename": self._file, "position": self._line_end(fd, position, bound, size)}
        except OSError as error:
            raise ConnectError(f"file {self._file} cannot be read: {error}") from error
        finally:
            os.close(fd)

    def _line_end(self, fd: int, position: int, bound: int, size: int) -> int:
        end = last_line_end(fd, position, bound, size)
        if end == position:
            check_line(self._file, position, size - position)
        return end

    def _warn(self, warning: str) -> None:
        if warning != self._warning:
            _logger.warning(warning)
            self._warning = warning

    @override
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        if start["position"] >= end["position"]:
            return []
        return [FileRange(self._file, self._topic, int(start["position"]), int(end["position"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the lines of the range, in batches of some megabytes."""
        assert isinstance(partition, FileRange)  # noqa: S101
        at, end, chunk = partition.start, partition.end, _FIRST_CHUNK
        try:
            opened = open(partition.file, "rb", buffering=0)  # noqa: PTH123, SIM115 - unbuffered
        except FileNotFoundError as error:  # the next attempt waits for it
            raise RetriableError(f"file {partition.file} was removed before it was read") from error
        with opened as file:
            while at < end:
                data = np.empty(min(chunk, end - at), np.uint8)
                file.seek(at)
                size = file.readinto(data.data)
                if not size:
                    now = os.fstat(file.fileno()).st_size
                    raise ConnectError(
                        f"file {partition.file} has shrunk from {end} to {now} bytes: was it truncated? {_START_AGAIN}")
                lines, used = split_lines(data[:size], final=at + size == end)
                if not used:
                    if size < len(data) or at + size == end:  # the batch was planned up to a line end
                        raise ConnectError(f"file {partition.file} no longer has a complete line at byte {at}: was "
                                           f"it truncated or replaced? {_START_AGAIN}")
                    check_line(partition.file, at, size)
                    chunk *= 2  # a line is longer than the chunk
                    continue
                yield line_batch(partition.topic, lines)
                at += used
                chunk = max(chunk, min(2 * chunk, CHUNK_BYTES))

    @override
    def to_source_offsets(self, offset: dict[str, Any]) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        return [({"filename": offset["filename"]}, {"position": offset["position"]})]

    @override
    def from_source_offsets(self, offsets: Sequence[tuple[SourcePartition, SourceOffset]]) -> dict[str, Any]:
        """Returns the offset to start from. Raises ConnectError if the position is not a number."""
        for partition, offset in offsets:
            if dict(partition) == {"filename": self._file} and offset and offset.get("position") is not None:
                if not _is_long(offset["position"]):
                    raise ConnectError("Offset position is the incorrect type")
                return {"filename": self._file, "position": offset["position"]}
        return self.initialOffset()


_LINE_METADATA = {SCHEMA_KEY: to_text(STRING).encode()}


def line_batch(topic: str, lines: pa.Array) -> pa.RecordBatch:
    """Returns a source batch of lines, with the current time and without keys."""
    now = pa.array(np.full(len(lines), int(time.time() * 1000), np.int64))
    topics = one_topic(topic, len(lines))
    fields = [
        pa.field("topic", topics.type),
        pa.field("timestamp", pa.int64()),
        pa.field("value", pa.string(), metadata=_LINE_METADATA),
    ]
    return pa.RecordBatch.from_arrays([topics, now, lines], schema=pa.schema(fields))


@dataclass
class Lines(InputPartition):  # type: ignore[misc]  # PySpark has no types
    """Complete lines of standard input that the worker has read."""

    topic: str
    data: bytes


class StandardInputReader(DataSourceStreamReader):  # type: ignore[misc]  # PySpark has no types
    """Reads the worker's standard input, which cannot be read again: the source partition is {"filename": null}, with
    the offset {"position": null}.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Returns the position after the last committed batch."""
        return {"at": standard_input().begin}

    @override
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:
        return {"at": standard_input().line_end(int(start["at"]), max_bytes(limit) or _BUFFER_BYTES)}

    @override
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        data = standard_input().between(int(start["at"]), int(end["at"]))
        return [Lines(self._topic, data)] if data else []

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Lines)  # noqa: S101
        lines, _ = split_lines(np.frombuffer(partition.data, np.uint8), final=True)
        yield line_batch(partition.topic, lines)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Discards lines that have been committed."""
        standard_input().discard(int(end["at"]))

    @override
    def to_source_offsets(self, offset: dict[str, Any]) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        return [({"filename": None}, {"position": None})]

    @override
    def from_source_offsets(self, offsets: Sequence[tuple[SourcePartition, SourceOffset]]) -> dict[str, Any]:
        return self.initialOffset()
