"""The writer of the parquet sink."""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from typing_extensions import override

from spark_tasks.connectors.parquet.claims import KEPT_S, claim, finish, labels, name_of_claim, sync_folder
from spark_tasks.connectors.parquet.file_names import OffsetRange, present
from spark_tasks.connectors.parquet.settings import ParquetSettings
from spark_tasks.data.arrow_types import with_child_types
from spark_tasks.data.columns import is_json, metadata_of
from spark_tasks.errors import ConnectError, DataError, RetriableError
from spark_tasks.pipeline.converters.json_columns import parse_columns
from spark_tasks.pipeline.converters.json_write import JsonWriter
from spark_tasks.plugins.origin import kafka_partition
from spark_tasks.process import code_folders

_STALE_S = 24 * 3600  # older hidden files do not belong to a running task


@dataclass
class WrittenFiles(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no types
    """The commit message of one split: the paths of hidden files, and their offsets."""

    files: list[tuple[str, OffsetRange]]


class ParquetWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """Creates hidden files in `write`, and renames them in `commit`: readers never see files of a batch that failed.
    The worker and all executors must use the same folder.
    """

    def __init__(self, settings: ParquetSettings) -> None:
        self.settings = settings
        self._claims = deque[tuple[float, Path]]()  # claims of its own commits, with their times

    @override
    def __reduce__(self) -> tuple[type[ParquetWriter], tuple[ParquetSettings]]:
        """Pickles without the claims, which only the worker needs."""
        return ParquetWriter, (self.settings,)

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        settings, done = self.settings, list[tuple[str, OffsetRange]]()
        code_folders.check(settings.folder, settings.code)
        try:
            Path(settings.folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConnectError(f"path: cannot create the folder {settings.folder}: {error.strerror}") from error
        current: _OpenFile | None = None
        try:
            for batch in iterator:
                for piece in _pieces(batch, settings.records):
                    table = as_table(piece, kafka_columns=settings.kafka_columns)
                    if current and not current.takes(piece, table.schema):
                        done.append(current.close())
                        current = None
                    current = current or _OpenFile(settings, piece, table.schema)
                    current.add(piece, table)
            if current:
                done.append(current.close())
        except BaseException:
            if current:
                current.discard()
            _remove(path for path, _ in done)
            raise
        return WrittenFiles(done)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Renames the files in the order of their offsets, so that a crash leaves no gap."""
        files = sorted((r, path) for m in messages if isinstance(m, WrittenFiles) for path, r in m.files)
        for held in {(r.topic, r.partition) for r, _ in files}:
            self._refuse_overlap([r for r, _ in files if (r.topic, r.partition) == held])
        folder = Path(self.settings.folder)
        code_folders.check(self.settings.folder, self.settings.code)
        for held_range, path in files:
            if not claim(folder, path, held_range):
                raise OverlapError(
                    f"{folder} already has a file that starts at offset {held_range.first} of {held_range.topic}-"
                    f"{held_range.partition}: another task has written it"
                )
            try:
                os.replace(path, folder / held_range.name)  # noqa: PTH105
            except FileNotFoundError as error:  # this task was suspended after it had claimed the offset
                raise OverlapError(f"another task has completed or removed {folder / held_range.name}") from error
            self._claims.append((time.monotonic(), name_of_claim(folder, held_range)))
        if files:
            sync_folder(folder)
        while self._claims and time.monotonic() - self._claims[0][0] > KEPT_S:
            self._claims.popleft()[1].unlink(missing_ok=True)

    def _refuse_overlap(self, new: Sequence[OffsetRange]) -> None:
        """Raises OverlapError if another task has in the meantime written a file with some of the offsets, and
        ConnectError if two of the new files have a common offset, so that a repetition could not find what is missing.
        """
        for first, second in pairwise(new):
            if first.overlaps(second):
                raise ConnectError(
                    f"offset {second.first} of {first.topic}-{first.partition} would be in two files: what the "
                    "transforms make from one record must have the same topic and columns"
                )
        for existing in present(self.settings.folder, new[0].topic, new[0].partition):
            if any(existing.overlaps(added) for added in new):
                raise OverlapError(
                    f"cannot add offsets {new[0].first} to {new[-1].last} of {existing.topic}-{existing.partition}: "
                    f"another task has written {existing.name} to {self.settings.folder}"
                )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Removes the files of the splits."""
        _remove(path for m in messages if isinstance(m, WrittenFiles) for path, _ in m.files)

    @override
    def resume_from(self, topic: str, partition: int) -> int | None:
        """Returns the offset after those of the existing files, or None. Also removes stale hidden files."""
        self._remove_stale()
        finish(Path(self.settings.folder), topic, partition)
        existing = present(self.settings.folder, topic, partition)
        return existing[-1].last + 1 if existing else None

    def _remove_stale(self) -> None:
        folder = Path(self.settings.folder)
        for path in folder.glob(".*.parquet.tmp") if folder.is_dir() else ():
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _STALE_S:
                    path.unlink()


class OverlapError(RetriableError):
    """Another task has written the same offsets in the meantime. The next batch starts after them."""


class _OpenFile:
    """A hidden file that is being written."""

    def __init__(self, settings: ParquetSettings, first: pa.RecordBatch, schema: pa.Schema) -> None:
        self._settings = settings
        self._partition_of = _partition_of(first)
        self._place = kafka_partition() or self._partition_of  # as resume_from gets the original partition, too
        self._first = self._last = _offset(first, 0)
        self._schema = schema
        self._path = str(Path(settings.folder) / f".{uuid.uuid4().hex}.parquet.tmp")
        self._records = self._size = 0
        self._begun = time.monotonic()
        try:
            self._writer = pq.ParquetWriter(self._path, schema, compression=settings.compression)
        except BaseException:  # a type that Parquet does not support is found when the file exists
            _remove([self._path])
            raise

    def takes(self, batch: pa.RecordBatch, schema: pa.Schema) -> bool:
        """Returns whether the batch can be added to this file. If it starts with the last offset of the file (of a
        record from which transforms have made several), limits do not matter.

        Rows whose schemas alternate are not put together by schema: a task continues after the last file's offsets, and
        files are claimed and renamed one after the other, so after a crash rows between those of a file would be lost.
        """
        limits = self._settings
        full = (
            (limits.records and self._records + len(batch) > limits.records)
            or (limits.bytes and self._size >= limits.bytes)
            or (limits.millis and (time.monotonic() - self._begun) * 1000 >= limits.millis)
        )
        again = _offset(batch, 0) == self._last
        return (again or not full) and _partition_of(batch) == self._partition_of and schema.equals(self._schema)

    def add(self, batch: pa.RecordBatch, table: pa.Table) -> None:
        self._writer.write_table(table)
        self._last = _offset(batch, len(batch) - 1)
        self._records += len(batch)
        self._size += table.nbytes

    def close(self) -> tuple[str, OffsetRange]:
        """Closes the file and forces its data to the disk, before `commit` changes its name."""
        held = OffsetRange(*self._place, self._first, self._last)
        self._writer.add_key_value_metadata(labels(self._path, held))
        self._writer.close()
        fd = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        return self._path, held

    def discard(self) -> None:
        self._writer.close()
        _remove([self._path])


def _pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Yields pieces of at most `limit` rows, or more if one record has more: a file has all rows of an offset."""
    offsets, start = batch.column("offset").to_numpy(), 0
    while start < len(batch):
        end = min(start + (limit or len(batch)), len(batch))
        if offsets[start] < offsets[end - 1] and end < len(batch) and offsets[end] == offsets[end - 1]:
            end = int(np.searchsorted(offsets, offsets[end]))
        else:
            end = int(np.searchsorted(offsets, offsets[end - 1], "right"))
        yield batch.slice(start, end - start)
        start = end


def _partition_of(batch: pa.RecordBatch) -> tuple[str, int]:
    return str(batch.column("topic")[0].as_py()), int(batch.column("partition")[0].as_py())


def _offset(batch: pa.RecordBatch, row: int) -> int:
    return int(batch.column("offset")[row].as_py())


def _remove(paths: Iterator[str] | Sequence[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108


def as_table(batch: pa.RecordBatch, *, kafka_columns: bool) -> pa.Table:
    """Converts records to a table with the fields of the values as columns. Values other than structs and maps become
    one column `value`. `kafka_columns`: see the setting. Raises DataError if a field has the name of one of them.
    """
    value, field = batch.column("value"), batch.schema.field("value")
    if is_json(field.metadata):
        parsed, _ = parse_columns(value.cast(pa.binary()))
        value = parsed if pa.types.is_struct(parsed.type) else value
    if pa.types.is_struct(value.type) and value.type.num_fields:
        columns = dict(zip((f.name for f in value.type), value.flatten(), strict=True))
        described = {f.name: metadata_of(f) for f in value.type}
    else:
        columns, described = {"value": value}, {"value": metadata_of(field)}
    arrays = {name: storable(array, json=is_json(described[name])) for name, array in columns.items()}
    if kafka_columns:
        own = {
            "_topic": batch.column("topic").cast(pa.string()),
            "_partition": batch.column("partition"),
            "_offset": batch.column("offset"),
            "_timestamp": batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC")),
        }
        if doubled := sorted(own.keys() & arrays):
            raise DataError(f"the records have a field {doubled[0]}, as a column of kafka.columns: rename it with a "
                            "transform, or set kafka.columns=false")
        arrays = {**own, **arrays}
    return pa.table(arrays)


def storable(array: pa.Array, *, json: bool = False) -> pa.Array:
    """Converts an array to a form that Parquet supports: mixed numbers become doubles, structs without fields JSON, and
    decimals with a negative scale get the scale 0. `json`: the array has schemaless values as JSON.
    """
    if json:
        parsed = _as_doubles(array)
        return array if parsed is None else parsed
    if _has_empty_struct(array.type):
        texts = JsonWriter().write(array, None)
        return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))
    kind = _storable_type(array.type)
    return array if array.type == kind else array.cast(kind)


def _as_doubles(texts: pa.Array) -> pa.Array | None:
    try:
        cleaned = pc.if_else(pc.equal(texts, "null"), pa.scalar(None, pa.string()), texts)
        return cleaned.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def _has_empty_struct(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields == 0 or any(_has_empty_struct(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _has_empty_struct(kind.key_type) or _has_empty_struct(kind.item_type)
    return pa.types.is_list(kind) and _has_empty_struct(kind.value_type)


def _storable_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type with other decimals where Parquet would refuse them, because of a scale that is negative or
    larger than the precision.
    """
    if not pa.types.is_decimal(kind):
        return with_child_types(kind, _storable_type)
    if 0 <= kind.scale <= kind.precision:
        return kind
    scale = max(kind.scale, 0)
    precision = min(max(kind.precision - min(kind.scale, 0), scale), 76)
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
