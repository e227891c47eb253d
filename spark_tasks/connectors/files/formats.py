"""Reads parts of CSV, JSON lines and Parquet files as Connect values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from spark_tasks.connectors.file_stream.line_ends import check_line, last_line_end
from spark_tasks.connectors.files import csv_rows
from spark_tasks.connectors.files.settings import FileFormat, FilesSettings
from spark_tasks.connectors.lines import as_text, split_lines
from spark_tasks.data.rows import as_value, value_field
from spark_tasks.errors import ConnectError, DataError, RetriableError
from spark_tasks.pipeline.converters.base import BadRowError, Column
from spark_tasks.pipeline.converters.json_columns import parse_columns

Columns = tuple[tuple[str, pa.DataType], ...]

SAMPLE_BYTES = 1024 * 1024  # of the start of a file, for its header and the types of columns
_LONG_SAMPLE_BYTES = 64 * SAMPLE_BYTES
BLOCK_BYTES = 4 * 1024 * 1024
_ROWS = 65_536


class FilePiece(Protocol):
    """A part of a file, see reader.FilePart."""

    path: str
    format: FileFormat
    start: int
    end: int
    columns: Columns | None


def read(part: FilePiece, settings: FilesSettings) -> Iterator[Column]:
    """Yields the values of a part of a file with the metadata of their field, in batches of some megabytes."""
    if part.format is FileFormat.CSV:
        return _read_csv(part, settings)
    return _read_json(part) if part.format is FileFormat.JSON else _read_parquet(part)


def complete_until(path: Path, start: int, share: int | None, size: int, settings: FilesSettings) -> int:
    """Returns the end of the last complete row within `share` bytes (None: no limit) after `start`, or of the first row
    if it is longer, or `start` if no row is complete. `size`: that of the file.
    """
    bound = size if share is None else min(size, start + share)
    fd = os.open(path, os.O_RDONLY)
    try:
        if settings.multiline and settings.format_of(path) is FileFormat.CSV:
            return csv_rows.complete_until(fd, start, bound, size, settings)
        return last_line_end(fd, start, bound, size)
    finally:
        os.close(fd)


def _options(settings: FilesSettings) -> tuple[csv.ParseOptions, dict[str, Any]]:
    parsing = csv.ParseOptions(
        delimiter=settings.delimiter, quote_char=settings.quote, newlines_in_values=settings.multiline
    )
    converting = {
        "null_values": list(settings.nulls), "strings_can_be_null": True, "quoted_strings_can_be_null": False,
    }  # fmt: skip
    return parsing, converting


def infer_columns(path: Path, settings: FilesSettings, *, final: bool) -> Columns:
    """Infers the names and types of columns from complete rows at the start of a file; none if it has no rows besides
    the header. A column without values there is a string. `final`: whether the last row needs no line end. Raises
    DataError, OSError.
    """
    with path.open("rb") as file:
        for size in (SAMPLE_BYTES, _LONG_SAMPLE_BYTES):  # the first row may be long
            file.seek(0)
            sample = file.read(size)
            whole = len(sample) < size
            rows = sample if whole and final else csv_rows.complete_rows(sample, settings)
            if (columns := _columns_of(rows, path, settings)) or whole:
                return columns
    return ()


def _columns_of(rows: bytes, path: Path, settings: FilesSettings) -> Columns:
    if not rows.strip(b"\r\n"):
        return ()
    table = _table(rows, path, settings)
    names = _names(table, path)
    _check_once(names, names, path)
    return tuple(zip(names, map(_inferred_type, table.schema.types), strict=True)) if len(table) else ()


def _inferred_type(kind: pa.DataType) -> pa.DataType:
    """Returns strings for columns without values and for those with invalid UTF-8, which Arrow calls binary."""
    return pa.string() if pa.types.is_null(kind) or pa.types.is_binary(kind) else kind


def _check_once(needed: Sequence[str], names: Sequence[str], path: Path | str) -> None:
    """Raises DataError if a file has several columns with a name that is needed."""
    counts = Counter(names)
    doubled = [name for name in needed if counts[name] > 1]
    if doubled:
        raise DataError(f"file {path} has several columns named {doubled[0]}: rename them in its header")


def _header(path: str, settings: FilesSettings) -> tuple[list[str], int]:
    """Returns the names in the first row that is not empty, and where it ends; no names if there is none."""
    with open(path, "rb") as file:  # noqa: PTH123
        start, end = file.read(SAMPLE_BYTES), 0
        while end < len(start):
            begin, end = end, end + csv_rows.end_of_rows(np.frombuffer(start, np.uint8)[end:], 1, settings)
            if end == len(start) < _LONG_SAMPLE_BYTES and (more := file.read(_LONG_SAMPLE_BYTES - end)):
                start, end = start + more, begin  # the row may be longer
            elif (row := start[begin:end]).strip(b"\r\n"):
                return _names(_table(row, path, settings), path), end
    return [], end


def _table(rows: bytes, path: object, settings: FilesSettings) -> pa.Table:
    """Returns rows, the first of which may be a header, with inferred types. Raises DataError."""
    parsing, converting = _options(settings)
    reading = csv.ReadOptions(
        use_threads=False, block_size=len(rows) + 1, autogenerate_column_names=not settings.header)
    try:
        return csv.read_csv(pa.BufferReader(rows + b"\n"), reading, parsing, csv.ConvertOptions(**converting))
    except pa.ArrowInvalid as error:
        raise DataError(f"file {path} is not a readable CSV file: {error}") from error


def _names(table: pa.Table, path: object) -> list[str]:
    try:
        return list(table.column_names)
    except UnicodeDecodeError:
        raise DataError(f"the header of file {path} is not UTF-8") from None


def _read_csv(part: FilePiece, settings: FilesSettings) -> Iterator[Column]:
    columns = part.columns or ()
    parsing, converting = _options(settings)
    names, begin = _header(part.path, settings) if settings.header else ([name for name, _ in columns], 0)
    wanted = [name for name, _ in columns]
    conversion = csv.ConvertOptions(
        **converting, column_types={name: pa.binary() if pa.types.is_string(kind) else kind for name, kind in columns},
        include_columns=wanted, include_missing_columns=True,
    )  # fmt: skip
    source = _bytes(part, begin)
    is_odd = not set(names) & set(wanted) or len(set(names)) < len(names)
    if is_odd and source.to_pybytes().strip(b"\r\n"):  # a file without rows has nothing to lose
        _check_columns(part.path, names, wanted)
    data, at = np.frombuffer(source, np.uint8), 0
    while at < len(data):
        # one block of whole rows: Arrow cannot read a row that is longer than a block, and if a block ends between the
        # CR and the LF of a quoted field, the LF is lost
        end = at + csv_rows.end_of_rows(data[at:], BLOCK_BYTES, settings)
        first = part.end - len(data)
        if not settings.multiline and (wrong := csv_rows.quoted_line_end(data[at:end], settings)) >= 0:
            raise DataError(f"a quoted field of {part.path} contains a line end at byte {first + at + wrong}: set "
                            "csv.multiline=true, or correct the quotes")
        reading = csv.ReadOptions(use_threads=False, block_size=end - at, column_names=names)
        try:
            table = csv.read_csv(pa.BufferReader(source.slice(at, end - at)), reading, parsing, conversion)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):  # only empty lines
                where = f"{part.path}, bytes {first + at} to {first + end}"
                hint = "" if settings.columns else " (the types were inferred; `schema` sets them)"
                if "zone offset" in str(error):
                    hint = " (in `schema`, TIMESTAMP is for times with a zone, TIMESTAMP_NTZ for times without)"
                raise DataError(f"a row of {where} cannot be read: {error}{hint}") from error
        else:
            texts = (_with_texts(batch, columns) for batch in table.to_batches() if len(batch))
            yield from ((as_value(batch), value_field(batch.schema)) for batch in texts)
        at = end


def _check_columns(path: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises an error if a file with the columns `names` does not have the ones that are wanted."""
    if not wanted:
        raise RetriableError(f"the columns of {path} could not be inferred when its rows were found")
    _check_once(wanted, names, path)
    if not set(names) & set(wanted):
        raise DataError(f"file {path} has the columns {', '.join(names)}, but none of {', '.join(wanted)}: "
                        "`pattern` selects files, `schema` sets columns")


def _with_texts(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Decodes strings as those of JSON lines: invalid UTF-8 becomes U+FFFD."""
    for index, (name, kind) in enumerate(columns):
        if pa.types.is_string(kind):
            batch = batch.set_column(index, name, as_text(batch.column(index)))
    return batch


def _bytes(part: FilePiece, begin: int = 0) -> pa.Buffer:
    """Returns the bytes of the part, without those before `begin`."""
    with pa.memory_map(part.path) as file:
        if file.size() < part.end:
            raise ConnectError(f"file {part.path} has shrunk from at least {part.end} to {file.size()} bytes: was it "
                               "truncated?")
        start = min(max(part.start, begin), part.end)
        file.seek(start)
        return file.read_buffer(part.end - start)


def _read_json(part: FilePiece) -> Iterator[Column]:
    data = np.frombuffer(_bytes(part), np.uint8)
    at, size = 0, BLOCK_BYTES
    while at < len(data):
        piece = data[at : at + size]
        last = at + len(piece) == len(data)
        lines, used = split_lines(piece, final=last)
        if not used and not last:  # a line is longer than the block
            check_line(part.path, part.start + at, size)
            size *= 2
            continue
        rest, size = piece[used:], BLOCK_BYTES
        if last and len(rest):  # a last line without a line end
            lines, used = pa.concat_arrays([lines, pa.array([rest.tobytes().decode("utf-8", "replace")])]), len(piece)
        texts = lines.filter(pc.not_equal(pc.utf8_trim_whitespace(lines), "")).cast(pa.binary())
        try:
            if len(texts):
                yield parse_columns(texts)
        except BadRowError as bad:
            near = texts[bad.row].as_py()[:100]
            raise DataError(f"a line of {part.path} after byte {part.start + at} is not JSON: {bad}: {near!r}") from bad
        at += used


def row_groups(path: Path) -> int | None:
    """Returns the number of row groups of a Parquet file, or None if it is incomplete or not a Parquet file. Raises
    OSError if it cannot be opened.
    """
    with path.open("rb") as file:
        try:
            return int(pq.read_metadata(file).num_row_groups)
        except (OSError, pa.ArrowInvalid):
            return None


def row_groups_within(path: Path, start: int, share: int | None) -> int:
    """Returns the end (exclusive) of the row groups from `start` that have at most `share` bytes (None: no limit); at
    least one.
    """
    metadata = pq.read_metadata(path)
    end, size = start, 0
    while end < metadata.num_row_groups:
        size += metadata.row_group(end).total_byte_size
        if share is not None and end > start and size > share:
            break
        end += 1
    return end


def _read_parquet(part: FilePiece) -> Iterator[Column]:
    with pq.ParquetFile(part.path) as file:
        groups = range(part.start, part.end)
        for batch in file.iter_batches(batch_size=_ROWS, row_groups=groups, use_threads=False):
            if len(batch):
                yield as_value(batch), value_field(batch.schema)
