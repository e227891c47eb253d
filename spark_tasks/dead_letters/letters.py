"""Reads dead letters: their `__connect.errors.*` headers, and the original records."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.data.columns import HEADERS_TYPE
from spark_tasks.kafka.cluster import TopicPartition

PREFIX: Final = "__connect.errors."
LETTER_PREFIX: Final = "heeler.letter."
"""Of heeler's own headers of dead letters."""
MARKER: Final = "heeler.replay.of"
"""The header that marks a replayed record. Its value is topic-partition-offset of the letter."""

Rows = np.ndarray[Any, np.dtype[np.int64]]
_INT32: Final = "^[0-9]{1,9}$"  # fits into an int32, and is more than any real partition; similarly for offsets
_INT32_OR_NONE: Final = "^(-1|[0-9]{1,9})$"
_INT64: Final = "^[0-9]{1,18}$"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A batch of the queue (`raw`, RAW_SCHEMA), with the values of its headers as columns of the same length. A value
    is null if the header is missing or invalid. `partition` and `offset` are int64, the other columns strings.
    """

    raw: pa.RecordBatch
    connector: pa.Array
    topic: pa.Array
    partition: pa.Array
    offset: pa.Array
    stage: pa.Array
    error_class: pa.Array
    message: pa.Array

    @classmethod
    def of(cls, raw: pa.RecordBatch) -> DeadLetters:
        """Parses a batch of the queue, which may contain records that are not dead letters."""
        headers = raw.column("headers")

        def texts(name: str) -> pa.Array:
            return _texts(_header(headers, PREFIX + name))

        return cls(
            raw, texts("connector.name"), texts("topic"), _numbers(texts("partition"), _INT32),
            _numbers(texts("offset"), _INT64),
            texts("stage"), texts("exception.class.name"), texts("exception.message"),
        )

    def whole(self) -> np.ndarray[Any, Any]:
        """Returns for each letter whether it names the origin of its record, which needs context.headers.enable."""
        known = [self.connector, self.topic, self.partition, self.offset]
        complete: np.ndarray[Any, Any] = np.logical_and.reduce([c.is_valid().to_numpy(False) for c in known])
        return complete

    def header(self, name: str) -> pa.Array:
        """Returns each letter's last header of this name (binary)."""
        return _header(self.raw.column("headers"), name)

    def numbers(self, name: str) -> pa.Array:
        """Returns each letter's last header of this name as int64, -1 or larger; null if it is not such a number."""
        return _numbers(_texts(self.header(name)), _INT32_OR_NONE)

    def times(self, name: str) -> pa.Array:
        """Returns each letter's last header of this name as int64; null if it is not a timestamp."""
        return _numbers(_texts(self.header(name)), _INT64)

    def are_of(self, connector: str) -> np.ndarray[Any, Any]:
        """Returns for each letter whether its record is one of this connector."""
        same: np.ndarray[Any, Any] = pc.equal(self.connector, connector).fill_null(False).to_numpy(zero_copy_only=False)
        return same


def _header(headers: pa.Array, name: str) -> pa.Array:
    flat, parents = pc.list_flatten(headers), pc.list_parent_indices(headers).to_numpy()
    rows = pc.indices_nonzero(pc.equal(pc.struct_field(flat, "key"), name)).to_numpy().astype(np.int64)
    places = np.full(len(headers), -1, np.int64)
    places[parents[rows]] = rows  # if there are several, the last one is the newest
    return pc.struct_field(flat, "value").take(pa.array(places, mask=places < 0))


def _texts(found: pa.Array) -> pa.Array:
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if value is None else value.decode(errors="replace") for value in found.to_pylist()], pa.string()
        )


def _numbers(texts: pa.Array, form: str) -> pa.Array:
    sound = pc.match_substring_regex(texts, form)
    return pc.if_else(sound, texts, pa.scalar(None, pa.string())).cast(pa.int64())


@dataclass(frozen=True, slots=True)
class Run:
    """Original records (`raw`, RAW_SCHEMA) of one partition, with ascending offsets. `letters`: the offsets of their
    letters in the queue.
    """

    topic: str
    partition: int
    raw: pa.RecordBatch
    letters: Rows

    @property
    def place(self) -> TopicPartition:
        """Topic and partition of the records."""
        return self.topic, self.partition


def runs(letters: DeadLetters, rows: Rows, mark: Callable[[int], bytes | None], *, ordered: bool) -> list[Run]:
    """Returns the original records of the letters in `rows`, with their original offsets.

    `mark` maps the offset of a letter to the value of the record's MARKER header; None adds no header. `ordered`: in
    the order of the queue, otherwise grouped by partition.
    """
    topics = letters.topic.take(pa.array(rows)).dictionary_encode()
    codes = topics.indices.to_numpy()
    partitions, offsets = (column.take(pa.array(rows)).to_numpy() for column in (letters.partition, letters.offset))
    if not ordered:
        order = np.lexsort((partitions, codes))  # a stable sort
        rows, codes, partitions, offsets = rows[order], codes[order], partitions[order], offsets[order]
    cuts = (np.diff(codes) != 0) | (np.diff(partitions) != 0) | (np.diff(offsets) <= 0)
    bounds = [0, *(np.flatnonzero(cuts) + 1).tolist(), len(rows)]
    names = topics.dictionary.to_pylist()
    places = letters.raw.column("offset").to_numpy()
    runs = []
    for begin, end in itertools.pairwise(bounds):
        run_rows = rows[begin:end]
        raw = own_records(letters.raw.take(pa.array(run_rows)), [mark(int(place)) for place in places[run_rows]])
        raw = raw.set_column(0, raw.schema.field(0), pa.array(offsets[begin:end]))
        runs.append(Run(names[codes[begin]], int(partitions[begin]), raw, places[run_rows]))
    return runs


def own_records(raw: pa.RecordBatch, marks: list[bytes | None]) -> pa.RecordBatch:
    """Returns letters (RAW_SCHEMA) without the headers that were added to the record. `marks`: the values of their
    MARKER headers; None adds no header.
    """
    headers = []
    for pairs, mark in zip(raw.column("headers").to_pylist(), marks, strict=True):
        own = [(pair["key"], pair["value"]) for pair in pairs or ()
               if not pair["key"].startswith((PREFIX, LETTER_PREFIX)) and pair["key"] != MARKER]
        headers.append([*own, (MARKER, mark)] if mark is not None else own or None)
    place = raw.schema.get_field_index("headers")
    return raw.set_column(place, raw.schema.field(place), pa.array(headers, HEADERS_TYPE))
