"""FileStreamSink, which writes each record's value as a line to a file or to standard output."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.config.types import parse_type
from spark_tasks.connectors.lines import lines_of_values
from spark_tasks.errors import ConnectError
from spark_tasks.plugins.api import Options, SinkConnector
from spark_tasks.process import code_folders

_SMALL: Final = 64  # records
_MOST: Final = 4096  # small batches whose lines are made together


class FileStreamSinkConnector(SinkConnector):
    """Kafka Connect's FileStreamSink. Each line is the toString of a value. Delivers at least once."""

    version = "4.3.1"
    aliases = ("org.apache.kafka.connect.file.FileStreamSinkConnector", "FileStreamSink")
    config_def = ConfigDef(
        ConfigKey(
            "file", Type.STRING, default=None, importance=Importance.HIGH,
            doc="The file to append to. Unset: the worker's standard output.",
        ),
    )  # fmt: skip

    @classmethod
    @override
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        return code_folders.mistakes("file", parse_type("file", config.get("file"), Type.STRING))

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        return FileStreamSinkData(dict(options))

    @classmethod
    @override
    def alter_offsets(cls, config: Options, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Accepts any offsets of the consumer group."""
        return True


class FileStreamSinkData(DataSource):  # type: ignore[misc]  # PySpark has no types
    """Appends lines to a file."""

    @classmethod
    @override
    def name(cls) -> str:
        return "filestream"

    @override
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns the writer. Opens the file once, so that the task fails at its start, as in Kafka Connect."""
        file = FileStreamSinkConnector.config_def.parse(self.options)["file"]
        if file is None:
            return StandardOutputWriter()
        os.close(_open(file, code_folders.of_plugins()))
        return LineWriter(file, code_folders.of_plugins())


@dataclass
class WrittenLines(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no types
    """The commit message of one split. `lines`: for the worker to write to standard output."""

    rows: int
    size: int  # bytes
    lines: bytes = b""


class LineWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """Appends complete lines in few large writes to the current end of the file, so that several splits can write to a
    file at the same time without splitting lines. Data is written when `write` returns, but not forced to the disk.
    """

    multi_partition = True

    def __init__(self, file: str, code: Sequence[str] = ()) -> None:
        """`code`: the folders of plugins, in which no file may be written."""
        self._file = file
        self._code = code

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenLines:
        fd = _open(self._file, self._code)
        try:
            rows = size = 0
            for batches in _together(iterator):
                lines = lines_of_values(batches)
                _append(fd, memoryview(lines))
                rows += sum(map(len, batches))
                size += lines.size
            return WrittenLines(rows, size)
        finally:
            os.close(fd)


class StandardOutputWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """Writes lines to the worker's standard output."""

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenLines:
        pieces = [(sum(map(len, batches)), lines_of_values(batches).to_pybytes()) for batches in _together(iterator)]
        printed = b"".join(piece for _, piece in pieces)
        return WrittenLines(sum(rows for rows, _ in pieces), len(printed), printed)

    @override
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Writes the lines for standard output."""
        for message in messages:
            if isinstance(message, WrittenLines) and message.lines:
                sys.stdout.buffer.write(message.lines)
        sys.stdout.buffer.flush()


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yields batches in order, small ones together: where schemas alternate, each batch has few records."""
    for are_small, some in itertools.groupby(batches, lambda batch: len(batch) < _SMALL):
        size = _MOST if are_small else 1
        while held := list(itertools.islice(some, size)):
            yield held


def _open(file: str, code: Sequence[str]) -> int:
    code_folders.check(file, code)
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise ConnectError(f"Couldn't find or create file '{file}' for FileStreamSink: {error}") from error


def _append(fd: int, lines: memoryview) -> None:
    while len(lines):
        lines = lines[os.write(fd, lines) :]  # a full disk or a signal may cut a write, and so a line
