"""The stream reader of the `files` source, which chooses the parts of files for each batch."""

from __future__ import annotations

import logging
import os
import stat
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes
from typing_extensions import override

from spark_tasks.connectors.file_stream.line_ends import check_line
from spark_tasks.connectors.files import formats
from spark_tasks.connectors.files.settings import FileFormat, FilesSettings
from spark_tasks.connectors.read_limits import DEFAULT_BYTES, max_bytes, max_files
from spark_tasks.data.columns import one_topic
from spark_tasks.errors import ConnectError, DataError, RetriableError
from spark_tasks.plugins.api import SourceOffset, SourcePartition

_logger = logging.getLogger(__name__)


@dataclass
class FilePart(InputPartition):  # type: ignore[misc]  # PySpark has no types
    """The bytes, or row groups, from `start` to `end` (exclusive) of a file."""

    path: str
    format: FileFormat
    start: int
    end: int
    columns: formats.Columns | None  # of CSV files


class FilesReader(DataSourceStreamReader):  # type: ignore[misc]  # PySpark has no types
    """Reads the files of one task, number `index` of `count`. The offset is {"files": {path: position}}, with all files
    that the task has started to read.
    """

    def __init__(self, settings: FilesSettings, index: int, count: int) -> None:
        self._settings = settings
        self._index = index
        self._count = count
        self._columns: formats.Columns | None = settings.columns
        self._warnings: dict[str, str] = {}  # the last one by file
        self._caught_up: set[str] = set()  # files that the last batch read to the end

    @override
    def initialOffset(self) -> dict[str, Any]:
        return {"files": {}}

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(DEFAULT_BYTES)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        """Returns the end of the batch after `start`: the next parts of some files, which share the limit evenly."""
        before: Mapping[str, int] = start["files"]
        grown = [path for path in self._files() if self._has_more(path, before.get(str(path), 0))]
        grown.sort(key=lambda path: str(path) in self._caught_up)  # by name, but files with a backlog first
        file_limit = max_files(limit) or self._settings.parallel
        allowed = max_bytes(limit)
        share = None if allowed is None else max(1, allowed // max(1, min(file_limit, len(grown))))
        after = dict(before)
        chosen: dict[str, int] = {}
        for path in grown:
            position = before.get(str(path), 0)
            end = self._end(path, position, share) if len(chosen) < file_limit else position
            if end > position:
                after[str(path)] = end
                chosen[str(path)] = end - position
        self._caught_up = {path for path, size in chosen.items() if share is None or size < share // 2}
        return {"files": after}

    def _files(self) -> list[Path]:
        """Returns the task's files in the order of their names."""
        root = Path(self._settings.path)
        return [path for path in self._all_files() if (self._owns(path.relative_to(root)) if path != root else
                                                       self._index == 0)]

    def _all_files(self) -> list[Path]:
        """Returns the files of all tasks in the order of their names."""
        root = Path(self._settings.path)
        if root.is_file():
            if self._settings.format_of(root) is None:
                raise ConnectError(f"format: the name of {root} does not show what it contains; set format to csv, "
                                   "json or parquet")
            return [root]
        paths: list[Path] = []

        def cannot_list(error: OSError) -> None:
            folder, missing = Path(error.filename), isinstance(error, FileNotFoundError)
            if self._index == 0:  # the others would say the same
                self._warn(folder, "does not exist (yet): waiting for it to be created" if missing else
                           f"cannot be listed ({error.strerror}): its files are skipped until it can be", "Folder")

        for folder, folders, names in os.walk(root, onerror=cannot_list):
            folders[:] = sorted(f for f in folders if self._settings.recursive and not f.startswith((".", "_")))
            paths += (Path(folder, name) for name in names if self._is_selected(Path(folder, name), name))
            self._warnings.pop(str(folder), None)  # it is reported again if it goes again
        return sorted(paths)

    def _is_selected(self, path: Path, name: str) -> bool:
        hidden = name.startswith((".", "_")) or name.endswith((".tmp", ".crc"))
        if hidden or not fnmatch(name, self._settings.pattern) or self._settings.format_of(path) is None:
            return False
        try:
            str(path).encode()
        except UnicodeEncodeError:
            self._warn(Path(str(path).encode(errors="replace").decode()), "has a name that is not UTF-8, so it is "
                       "skipped: rename it")  # fmt: skip
            return False
        return True

    def _owns(self, path: Path) -> bool:
        return self._count == 1 or zlib.crc32(str(path).encode()) % self._count == self._index

    def _has_more(self, path: Path, position: int) -> bool:
        try:
            return self._ends_after(path, position)
        except OSError as error:
            self._skip(path, error)
            return False

    def _ends_after(self, path: Path, position: int) -> bool:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return False
        if self._settings.format_of(path) is FileFormat.PARQUET:
            groups = formats.row_groups(path)
            if groups is None:
                self._warn(path, "is not a complete Parquet file (yet): waiting")
            return groups is not None and groups > position
        if status.st_size < position:
            self._warn(path, f"is shorter than the position of the next row, {position}: waiting until it is longer. "
                       "Was it truncated or replaced? To read it from its beginning, stop the connector, reset the "
                       "offset of this file, and resume the connector")
        return status.st_size > position

    def _skip(self, path: Path, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # removed since the folder was listed
            self._warn(path, f"cannot be read ({error.strerror or error}): it is skipped until it can be")

    def _warn(self, path: Path, warning: str, kind: str = "File") -> None:
        if self._warnings.get(str(path)) != warning:
            self._warnings[str(path)] = warning
            _logger.warning("%s %s %s", kind, path, warning)

    def _end(self, path: Path, position: int, share: int | None) -> int:
        try:
            return self._complete_until(path, position, share)
        except OSError as error:
            self._skip(path, error)
            return position

    def _complete_until(self, path: Path, position: int, share: int | None) -> int:
        if self._settings.format_of(path) is FileFormat.PARQUET:
            return formats.row_groups_within(path, position, share)
        status = path.stat()
        end = formats.complete_until(path, position, share, status.st_size, self._settings)
        if end == position:
            check_line(path, position, status.st_size - position)
        return status.st_size if end == position and self._is_final(status) else end

    def _is_final(self, status: os.stat_result) -> bool:
        unchanged_ms = (time.time() - status.st_mtime) * 1000
        return 0 <= self._settings.wait_ms <= unchanged_ms

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Returns one partition for each file with new data."""
        parts = []
        for path, until in sorted(end["files"].items()):
            begin = start["files"].get(path, 0)
            kind = self._settings.format_of(Path(path))
            if until > begin and kind is not None:
                columns = self._csv_columns() if kind is FileFormat.CSV else None
                parts.append(FilePart(path, kind, begin, until, columns))
        return parts

    def _csv_columns(self) -> formats.Columns:
        """Returns the columns of all CSV files: the configured ones, or those inferred from the first file by name that
        has rows; none if no file has.
        """
        if self._columns is None:
            files = [path for path in self._all_files() if self._settings.format_of(path) is FileFormat.CSV]
            if not files:
                raise RetriableError(f"the CSV files of {self._settings.path} were removed before they were read")
            failure: DataError | None = None
            for path in files:
                try:
                    self._columns = self._inferred(path) or None
                except DataError as error:
                    self._warn(path, f"has rows that cannot be read, so no columns are inferred from it: {error}")
                    failure = failure or error
                if self._columns is not None:
                    _logger.info("Columns inferred from %s: %s", path, self._columns)
                    return self._columns
            if failure is not None:
                raise failure
        return self._columns or ()

    def _inferred(self, path: Path) -> formats.Columns:
        try:
            status = path.stat()
            regular = stat.S_ISREG(status.st_mode)
            return formats.infer_columns(path, self._settings, final=self._is_final(status)) if regular else ()
        except OSError as error:
            self._skip(path, error)
            return ()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields batches of records in the order of the file. Raises DataError if a row cannot be read, RetriableError
        if the file is gone, so that the next batch is one without it.
        """
        assert isinstance(partition, FilePart)  # noqa: S101
        try:
            for value, metadata in formats.read(partition, self._settings):
                topics = one_topic(self._settings.topic, len(value))
                fields = [pa.field("topic", topics.type), pa.field("value", value.type, metadata=metadata or None)]
                yield pa.RecordBatch.from_arrays([topics, value], schema=pa.schema(fields))
        except FileNotFoundError as error:
            raise RetriableError(f"file {partition.path} was removed before it was read") from error

    @override
    def to_source_offsets(self, offset: dict[str, Any]) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        return [({"filename": path}, {"position": position}) for path, position in offset["files"].items()]

    @override
    def from_source_offsets(self, offsets: Sequence[tuple[SourcePartition, SourceOffset]]) -> dict[str, Any]:
        """Returns the positions of this task's files only, so that a change of tasks.max reassigns files."""
        root = Path(self._settings.path)
        files = {}
        for partition, offset in offsets:
            path = partition.get("filename")
            if isinstance(path, str) and offset and isinstance(offset.get("position"), int):
                inside = root in Path(path).parents
                if (inside and self._owns(Path(path).relative_to(root))) or (Path(path) == root and self._index == 0):
                    files[path] = offset["position"]
        return {"files": files}
