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

from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.connectors.file_stream.line_ends import last_line_end
from spark_tasks.connectors.files.settings import FileFormat, FilesSettings
from spark_tasks.connectors.lines import split_lines
from spark_tasks.data.rows import as_value, value_field
from spark_tasks.errors import ConnectError, DataError
from spark_tasks.pipeline.converters.base import BadRowError, Column
from spark_tasks.pipeline.converters.json_columns import parse_columns

Columns = tuple[tuple[str, pa.DataType], ...]

_SAMPLE_BYTES = 1024 * 1024  # of the start of a file, for its header and the types of columns
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


def complete_until(path: Path, start: int, share: int | None, size: int, quote: str | None) -> int:
    """Returns the end of the last complete row within `share` bytes (None: no limit) after `start`, or of the first row
    if it is longer. `size`: that of the file. `quote`: the quote character if quoted fields may contain line ends, else
    None.
    """
    bound = size if share is None else min(size, start + share)
    fd = os.open(path, os.O_RDONLY)
    try:
        if quote is None:
            return last_line_end(fd, start, bound, size)
        for stop in (bound, size):
            data = np.frombuffer(os.pread(fd, stop - start, start), np.uint8)
            end = int(_last_unquoted_end(data, ord(quote)))
            if end:
                return start + end
        return start
    finally:
        os.close(fd)


@jit
def _last_unquoted_end(data: Any, quote: int) -> int:
    """Returns the position after the last LF outside of quotes, 0 if there is none."""
    inside, end = False, 0
    for i in range(len(data)):
        if data[i] == quote:
            inside = not inside
        elif data[i] == 10 and not inside:
            end = i + 1
    return end


@jit
def _end_of_rows(data: Any, begin: int, size: int, quote: int) -> int:
    """Returns the end of the rows from `begin` that have at most `size` bytes, or of the first row if it is longer.
    `quote`: the quote character if quoted fields may contain line ends, else -1.
    """
    inside, end = False, begin
    for i in range(begin, len(data)):
        if end > begin and i >= begin + size:
            return end
        if data[i] == quote:
            inside = not inside
        elif not inside and (data[i] == 10 or (data[i] == 13 and i + 1 < len(data) and data[i + 1] != 10)):
            end = i + 1
    return len(data)


def _options(settings: FilesSettings) -> tuple[csv.ParseOptions, dict[str, Any]]:
    parsing = csv.ParseOptions(
        delimiter=settings.delimiter, quote_char=settings.quote, newlines_in_values=settings.multiline
    )
    converting = {
        "null_values": list(settings.nulls), "strings_can_be_null": True, "quoted_strings_can_be_null": False,
    }  # fmt: skip
    return parsing, converting


def _head(path: str | Path) -> bytes:
    """Returns complete lines from the start of a file."""
    with open(path, "rb") as file:  # noqa: PTH123
        data = file.read(_SAMPLE_BYTES)
    end = data.rfind(b"\n") + 1
    return data[:end] if end and len(data) == _SAMPLE_BYTES else data


def infer_columns(path: Path, settings: FilesSettings) -> Columns:
    """Infers the names and types of columns from the start of a file; none if it has only empty lines. A column without
    values there is a string. Raises DataError, OSError.
    """
    head = _head(path)
    if not head.strip(b"\r\n"):
        return ()
    parsing, converting = _options(settings)
    reading = csv.ReadOptions(
        use_threads=False, block_size=_SAMPLE_BYTES, autogenerate_column_names=not settings.header)
    try:
        table = csv.read_csv(
            pa.BufferReader(head), reading, parsing, csv.ConvertOptions(**converting)
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"file {path} is not a readable CSV file: {error}") from error
    _check_once(table.column_names, table.column_names, path)
    return tuple((f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in table.schema)


def _check_once(needed: Sequence[str], names: Sequence[str], path: Path | str) -> None:
    """Raises DataError if a file has several columns with a name that is needed."""
    counts = Counter(names)
    doubled = [name for name in needed if counts[name] > 1]
    if doubled:
        raise DataError(f"file {path} has several columns named {doubled[0]}: rename them in its header")


def _header(path: str, parsing: csv.ParseOptions) -> tuple[list[str], int]:
    """Returns the names in the first line that is not empty, and where it ends; no names if there is none."""
    end = 0
    for line in _head(path).splitlines(keepends=True):
        end += len(line)
        if line.strip(b"\r\n"):
            table = csv.read_csv(pa.BufferReader(line), csv.ReadOptions(use_threads=False), parsing)
            return list(table.column_names), end
    return [], end


def _read_csv(part: FilePiece, settings: FilesSettings) -> Iterator[Column]:
    columns = part.columns or ()
    parsing, converting = _options(settings)
    names, begin = _header(part.path, parsing) if settings.header else ([name for name, _ in columns], 0)
    _check_once([name for name, _ in columns], names, part.path)
    conversion = csv.ConvertOptions(
        **converting, column_types=dict(columns), include_columns=[name for name, _ in columns],
        include_missing_columns=True,
    )  # fmt: skip
    source = _bytes(part, begin)
    data, at = np.frombuffer(source, np.uint8), 0
    quote = ord(settings.quote) if settings.multiline else -1
    while at < len(data):
        # one block of whole rows: Arrow cannot read a row that is longer than a block, and if a block ends between the
        # CR and the LF of a quoted field, the LF is lost
        end = int(_end_of_rows(data, at, BLOCK_BYTES, quote))
        reading = csv.ReadOptions(use_threads=False, block_size=end - at, column_names=names)
        try:
            table = csv.read_csv(pa.BufferReader(source.slice(at, end - at)), reading, parsing, conversion)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):  # only empty lines
                first = part.end - len(data) + at
                where = f"{part.path}, bytes {first} to {first + end - at}"
                hint = "" if settings.columns else " (the types were inferred; `schema` sets them)"
                if "zone offset" in str(error):
                    hint = " (in `schema`, TIMESTAMP is for times with a zone, TIMESTAMP_NTZ for times without)"
                raise DataError(f"a row of {where} cannot be read: {error}{hint}") from error
        else:
            yield from ((as_value(batch), value_field(batch.schema)) for batch in table.to_batches() if len(batch))
        at = end


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
    at = 0
    while at < len(data):
        piece = data[at : at + BLOCK_BYTES]
        last = at + len(piece) == len(data)
        lines, used = split_lines(piece, final=last)
        rest = piece[used:]
        if last and len(rest):  # a last line without a line end
            lines, used = pa.concat_arrays([lines, pa.array([rest.tobytes().decode("utf-8", "replace")])]), len(piece)
        if not used:
            lines, used = split_lines(np.append(data[at:], np.uint8(10)), final=True)  # a line is longer than a block
            used = min(used, len(data) - at)
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
