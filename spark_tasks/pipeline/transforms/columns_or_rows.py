"""Applies transforms record by record, as Java does, if they cannot be applied to columns.

`ColumnsOrRows` tries a transform on columns first. If this raises NotInColumnsError, it tries halves of the batch, each
with the members and types of its own records (narrowing.py), and changes what is left record by record: a few records
that columns cannot express slow down only a few others. If pieces differ only in members that no record of some of
them has, they become one batch again (widening.py). If a record is bad, it tries halves of the batch, too. It
raises BadRowsError with the bad records that it has found; there may be more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from spark_tasks.data.columns import HEADERS_TYPE
from spark_tasks.data.schema import Schema
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError, Column, schema_of
from spark_tasks.pipeline.converters.java_columns import NULLS_KEY, column, runs
from spark_tasks.pipeline.converters.java_values import typed_values, values
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.key_groups import Group, Rows, in_rows
from spark_tasks.pipeline.transforms.narrowing import narrowed, varies
from spark_tasks.pipeline.transforms.widening import widened

# Pieces with a bad record, or one that columns cannot express, are halved; those of up to this many rows are changed
# record by record.
_MIN_PIECE = 64
_MOST_GROUPS = 64  # and batches that they become; if there are more, maps have the order of one with all keys
_MIN_TRIED = 48  # rows of a piece that is tried in columns
_MOST = 3 / 4  # of a batch: if columns can express fewer, it is not divided into the many batches that would result


class NotInColumnsError(Exception):
    """The transform cannot be applied to the columns of this batch."""


class _Allowance:
    """A number of records, each of which is used once."""

    def __init__(self, left: float) -> None:
        self._left = left

    def use(self, records: int) -> None:
        """Raises _TooManyError if there are not as many left."""
        self._left -= records
        if self._left < 0:
            raise _TooManyError


class _TooManyError(Exception):
    """Columns cannot express too many records of a batch for a division of it."""


class SuspectRowsError(DataError):
    """Rows of a column that are probably bad. `length`: the number of rows in the column."""

    def __init__(self, rows: np.ndarray[Any, Any], length: int) -> None:
        super().__init__(f"{len(rows)} rows cannot be changed in columns")
        self.rows, self.length = rows, length


class Record:
    """One record, as for a transform in Java. Headers are names and bytes, as in Kafka."""

    __slots__ = ("headers", "is_sink", "key", "key_schema", "offset", "partition", "timestamp", "topic", "value",
                 "value_schema")  # fmt: skip

    def __init__(self, topic: Any, partition: Any, offset: Any, timestamp: Any, *, is_sink: bool) -> None:
        self.topic, self.partition, self.offset, self.timestamp = topic, partition, offset, timestamp
        self.is_sink = is_sink
        self.headers: list[tuple[str, bytes | None]] = []
        self.key_schema: Schema | None = None
        self.value_schema: Schema | None = None
        self.key: Any = None
        self.value: Any = None

    def get(self, part: str) -> tuple[Schema | None, Any]:
        """Returns schema and value of a part. `part`: "key" or "value"."""
        return getattr(self, f"{part}_schema"), getattr(self, part)

    def set(self, part: str, schema: Schema | None, value: Any) -> None:
        """Sets schema and value of a part. `part`: "key" or "value"."""
        setattr(self, f"{part}_schema", schema)
        setattr(self, part, value)


class ColumnsOrRows(Transform):
    """Changes columns or single records. `reads`, `writes`: the columns that `record` needs and changes."""

    reads: ClassVar[tuple[str, ...]] = ("value",)
    writes: ClassVar[tuple[str, ...]] = ("value",)

    @abstractmethod
    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Changes a batch in columns. Raises NotInColumnsError if this is not possible, and DataError or ArrowException
        if a record is or may be bad.
        """

    @abstractmethod
    def record(self, record: Record) -> None:
        """Changes one record. Raises DataError."""

    @property
    def is_for_columns(self) -> bool:
        """Whether columns can express some records. If not, no part of a batch is tried."""
        return True

    def groups(self, batch: pa.RecordBatch) -> list[Group]:  # noqa: ARG002
        """Returns groups of records that are changed separately, or none if all can be together."""
        return []

    @override
    def apply(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        bad: list[tuple[int, Exception]] = []
        changed = joined(widened(list(self._apply(batch, 0, bad))))
        if bad:
            raise BadRowsError(sorted(bad, key=lambda one: one[0]))
        return changed

    def _apply(
        self, batch: pa.RecordBatch, begin: int, bad: list[tuple[int, Exception]]
    ) -> Iterator[pa.RecordBatch]:
        if not len(batch):
            return
        groups, before = self.groups(batch), len(bad)
        if 0 < len(groups) <= _MOST_GROUPS:
            found = self._in_groups(groups, begin, bad)
            if len(found) <= _MOST_GROUPS or len(bad) > before:
                yield from found
                return
        try:
            changed = [self.columns(batch)]
        except NotInColumnsError:
            changed = list(self._divided(batch, begin, bad))
        except SuspectRowsError as suspect:
            if self._are_bad(batch, begin, suspect, bad):
                return
            changed = list(self._halves(batch, begin, bad))
        except (DataError, pa.ArrowException, OverflowError, ValueError):
            changed = list(self._halves(batch, begin, bad))
        yield from changed

    def _in_groups(
        self, groups: Sequence[Group], begin: int, bad: list[tuple[int, Exception]]
    ) -> list[pa.RecordBatch]:
        """Returns the changed records of the groups in the order of the batch, or nothing if some are bad."""
        pieces: list[tuple[Rows, pa.RecordBatch]] = []
        found: list[tuple[int, Exception]] = []
        for rows, group, one_by_one in groups:
            own: list[tuple[int, Exception]] = []
            at = 0
            for piece in self.by_rows(group, 0, own) if one_by_one else self._apply(group, 0, own):
                pieces.append((rows[at : at + len(piece)], piece))
                at += len(piece)
            found += [(begin + int(rows[row]), error) for row, error in own]
        bad += found
        if found:
            return []
        changed = widened([piece for _, piece in pieces])
        return in_rows([(rows, piece) for (rows, _), piece in zip(pieces, changed, strict=True)])

    def _divided(
        self, batch: pa.RecordBatch, begin: int, bad: list[tuple[int, Exception]]
    ) -> Iterator[pa.RecordBatch]:
        """Changes pieces in columns if most records are in such pieces, and all others record by record."""
        done, found = 0, []
        if self.is_for_columns and varies(batch, (*_parts(self.reads), "timestamp", "partition")):
            found_bad: list[tuple[int, Exception]] = []
            try:
                found = list(self._in_columns(batch, 0, begin, found_bad, _Allowance((1 - _MOST) * len(batch))))
                bad += found_bad
            except _TooManyError:
                pass
        for at, length, changed in found:
            if done < at:
                yield from self.by_rows(batch.slice(done, at - done), begin + done, bad)
            yield from changed
            done = at + length
        if done < len(batch):
            yield from self.by_rows(batch.slice(done), begin + done, bad)

    def _in_columns(
        self, batch: pa.RecordBatch, at: int, begin: int, bad: list[tuple[int, Exception]], others: _Allowance
    ) -> Iterator[tuple[int, int, list[pa.RecordBatch]]]:
        """Yields the first row and the length of each piece of the batch that columns can express, and the changed
        piece. `at`: the batch's first row. `others`: how many may be in other pieces. Raises _TooManyError.
        """
        half = len(batch) // 2
        for first, piece in ((at, batch.slice(0, half)), (at + half, batch.slice(half))):
            if len(piece) < _MIN_TRIED:
                others.use(len(piece))
                continue
            try:
                narrow = narrowed(piece, _parts(self.reads))
            except (DataError, pa.ArrowException):
                narrow = piece  # a text is no JSON, and the error's row is its place in a part of the piece
            try:
                if self.groups(narrow):
                    yield first, len(piece), list(self._apply(narrow, begin + first, bad))
                else:
                    yield first, len(piece), [self.columns(narrow)]
            except NotInColumnsError:
                yield from self._in_columns(piece, first, begin, bad, others)
            except (DataError, pa.ArrowException, OverflowError, ValueError):
                yield first, len(piece), list(self._apply(narrow, begin + first, bad))

    def _halves(
        self, batch: pa.RecordBatch, begin: int, bad: list[tuple[int, Exception]]
    ) -> Iterator[pa.RecordBatch]:
        if len(batch) <= _MIN_PIECE:
            yield from self.by_rows(batch, begin, bad)
            return
        half = len(batch) // 2
        yield from self._apply(batch.slice(0, half), begin, bad)
        yield from self._apply(batch.slice(half), begin + half, bad)

    def _are_bad(
        self, batch: pa.RecordBatch, begin: int, suspect: SuspectRowsError, bad: list[tuple[int, Exception]]
    ) -> bool:
        """Returns whether all suspects are bad, and in this case adds them to `bad`. A retry without them shows whether
        others are bad, too.
        """
        rows = suspect.rows
        if suspect.length != len(batch):  # a suspect may be an element of a list, for example
            return False
        errors: list[tuple[int, Exception]] = []
        self.by_rows(batch.take(pa.array(rows)), 0, errors)
        if len(errors) < len(rows):
            return False
        bad += [(begin + int(rows[row]), error) for row, error in errors]
        return True

    def by_rows(
        self, batch: pa.RecordBatch, begin: int = 0, found: list[tuple[int, Exception]] | None = None
    ) -> list[pa.RecordBatch]:
        """Changes the batch record by record. Adds bad rows, counted from `begin`, to `found`; the result is then
        empty. Without `found`, raises BadRowsError.
        """
        bad = [] if found is None else found
        records, good = read_records(batch, self.reads), len(bad)
        for row, record in enumerate(records):
            try:
                self.record(record)
            except DataError as error:
                bad.append((begin + row, error))
        try:
            if len(bad) == good:
                return write_records(batch, records, self.writes)
        except BadRowError as error:
            bad.append((begin + error.row, error))
        if found is None:
            raise BadRowsError(bad)
        return []


def _parts(names: Sequence[str]) -> list[str]:
    return [name for name in names if name != "headers"]


def read_records(batch: pa.RecordBatch, parts: Sequence[str]) -> list[Record]:
    """Returns the records with the columns `parts`, and topic, partition, offset and timestamp."""
    names = batch.schema.names
    plain = [
        batch.column(name).to_pylist() if name in names else [None] * len(batch)
        for name in ("topic", "partition", "offset", "timestamp")
    ]
    records = [Record(*row, is_sink="offset" in names) for row in zip(*plain, strict=True)]
    for part in parts:
        if part == "headers":
            for record, pairs in zip(records, _headers(batch), strict=True):
                record.headers = pairs
        elif part in names:
            for record, found in zip(records, connect_values(batch, part), strict=True):
                record.set(part, *found)
    return records


def connect_values(batch: pa.RecordBatch, part: str) -> list[tuple[Schema | None, Any]]:
    """Returns schema and value of each record. Null for a required schema means that the record has no key or value."""
    array, field = batch.column(part), batch.schema.field(part)
    schema = schema_of(field.metadata)
    if schema is None:
        return [(None, value) for value in values(array, field.metadata)]
    kept = schema.optional or schema.default is not None or NULLS_KEY in (field.metadata or {})
    empty = schema if kept else None
    return [(empty if value is None else schema, value) for value in typed_values(array, schema)]


def _headers(batch: pa.RecordBatch) -> list[list[tuple[str, bytes | None]]]:
    if "headers" not in batch.schema.names:
        return [[] for _ in range(len(batch))]
    return [[(h["key"], h["value"]) for h in row or ()] for row in batch.column("headers").to_pylist()]


def write_records(batch: pa.RecordBatch, records: Sequence[Record], parts: Sequence[str]) -> list[pa.RecordBatch]:
    """Returns the batch with the columns `parts` of the records, in several batches if they do not fit into one."""
    if "headers" in parts:
        rows = [record.headers or None for record in records]
        batch = put(batch, "headers", pa.array(rows, HEADERS_TYPE))
    batches = [(0, batch)]
    for part in (part for part in parts if part != "headers"):
        split = []
        for start, piece in batches:
            found = [record.get(part) for record in records[start : start + len(piece)]]
            begin = 0
            for end in runs(found):
                array, metadata = _column(start + begin, found[begin:end])
                split.append((start + begin, put(piece.slice(begin, end - begin), part, array, metadata)))
                begin = end
        batches = split
    return [piece for _, piece in batches]


def _column(row: int, found: Sequence[tuple[Schema | None, Any]]) -> Column:
    """Returns a column of the records that start at `row`. Raises BadRowError for the first value that does not fit."""
    try:
        return column(found)
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (DataError, pa.ArrowException, OverflowError) as error:
        if len(found) == 1:
            raise BadRowError(row, error) from error
        for at, one in enumerate(found):
            _column(row + at, [one])
        raise


def put(
    batch: pa.RecordBatch, name: str, array: pa.Array, metadata: dict[bytes, bytes] | None = None
) -> pa.RecordBatch:
    """Returns the batch with this column replaced or added."""
    field = pa.field(name, array.type, metadata=metadata or None)
    index = batch.schema.get_field_index(name)
    return batch.append_column(field, array) if index < 0 else batch.set_column(index, field, array)


def joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Joins adjacent batches with the same schema."""
    groups: list[list[pa.RecordBatch]] = []
    for batch in batches:
        if not len(batch):
            continue
        if groups and groups[-1][0].schema.equals(batch.schema, check_metadata=True):
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return [group[0] if len(group) == 1 else pa.concat_batches(group) for group in groups]
