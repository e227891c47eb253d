"""Frames between the Java plugin host and a worker or its executors: JSON messages, and records as flat columns
that pyarrow wraps without copying.

Connection.java and Columns.java in heeler/java_host/src implement the other end and document the layout.
"""

from __future__ import annotations

import json
import socket
import struct
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA
from spark_tasks.data.host_records import CUT, CutRecords, is_converted, schema_text
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.plugins.api import TransactionSignal

MESSAGE: Final = 1
BATCH: Final = 2
HEAD: Final = struct.Struct("<iiq")  # kind, id, bytes of the body
MOST_MESSAGE_BYTES: Final = 64 << 20
_MOST_BATCH_BYTES: Final = 2**31 - 1  # Arrow's offsets
REFUSED: Final = -2
"""In place of a partition: the record could not be appended, which errors.tolerance allows."""
_BODY: Final = struct.Struct("<iiii")  # rows, bytes of the meta JSON, sections, 0
_TOPIC, _PARTITION, _TIMESTAMP, _KEY, _VALUE, _HEADERS, _HEADER_KEY, _HEADER_VALUE = 0, 1, 2, 3, 6, 9, 10, 13
_SECTIONS: Final = 16
_KEY_SCHEMA, _VALUE_SCHEMA, _CUT_SECTIONS = 16, 17, 18  # of records between the Java and Python parts of a chain


class HostGoneError(RetriableError):
    """The Java plugin host has ended, or the connection to it was closed. `wanted`: by this side, on purpose."""

    wanted = False


def thrown_text(fields: Mapping[str, Any]) -> str:
    """Returns the text of an exception that the host reports, as Java's Throwable.toString."""
    reason = fields.get("message")
    return str(fields.get("class")) if reason is None else f"{fields.get('class')}: {reason}"


def received(connection: socket.socket, size: int) -> memoryview:
    """Reads exactly `size` bytes into memory that is aligned as Arrow requires. Raises HostGoneError, OSError."""
    view, at = np.empty(size, np.uint8).data, 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            raise HostGoneError("The Java plugin host has ended")
        at += count
    return view


def received_frame(connection: socket.socket) -> tuple[int, int, memoryview]:
    """Reads a frame: its kind, its id and its body. Raises ConnectError if it is not a valid frame, and the
    errors of `received`.
    """
    kind, number, size = HEAD.unpack(received(connection, HEAD.size))
    most = {MESSAGE: MOST_MESSAGE_BYTES, BATCH: _MOST_BATCH_BYTES}.get(kind, -1)
    if not 0 <= size <= most:
        raise ConnectError(f"the Java plugin host sent no valid frame: kind {kind}, {size} bytes")
    return kind, number, received(connection, size)


@dataclass(frozen=True, slots=True)
class Batch:
    """A frame of records from a source task.

    `topic`: for each record an index into `topics` (int32). `partition`: for each record its Kafka partition (int32),
    -1 if the partitioner chooses. `raw`: the records (RAW_SCHEMA). `offsets`: pairs of source partition and source
    offset, as JSON. `more`: the next frame continues the result of the same `poll`. `wanted`: the task needs to know at
    which Kafka offsets its records were appended. `signal`: the plugin's request to commit or abort the transaction
    after this batch. `cut`: the records for the Python part of the chain, if there is one. `meta`: the frame's whole
    meta JSON. `letters`: dead letters of records that are not in the batch (RAW_SCHEMA); None if there are none.
    """

    number: int
    topics: tuple[str, ...]
    topic: np.ndarray[Any, Any]
    partition: np.ndarray[Any, Any]
    raw: pa.RecordBatch
    offsets: tuple[tuple[str, str], ...]
    more: bool
    wanted: bool
    signal: TransactionSignal | None
    cut: CutRecords | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    letters: pa.RecordBatch | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the records and the letters."""
        return int(self.raw.nbytes) + (0 if self.letters is None else int(self.letters.nbytes))


def message(number: int, content: Mapping[str, Any]) -> bytes:
    """Returns a frame with `content` as JSON."""
    body = json.dumps(content).encode()
    return HEAD.pack(MESSAGE, number, len(body)) + body


class AppendedPositions:
    """Collects where the records of a frame were appended. `named`: heeler runs the last part of the chain, so the host
    needs the topics, too; a record without a topic was filtered out.
    """

    def __init__(self, number: int, rows: int, *, named: bool = False) -> None:
        self._number = number
        self._topics: dict[str, list[int]] | None = {} if named else None
        self._partition = np.full(rows, -1, np.int32)
        self._offset = np.full(rows, -1, np.int64)

    def appended(self, rows: np.ndarray[Any, Any], partition: int, offset: int) -> None:
        """Adds rows of the frame that were appended consecutively. `offset`: that of the first row, -1 if unknown."""
        self._partition[rows] = partition
        if offset >= 0:
            self._offset[rows] = offset + np.arange(len(rows))

    def refused(self, rows: np.ndarray[Any, Any]) -> None:
        """Adds rows of the frame that could not be appended."""
        self._partition[rows] = REFUSED

    def named(self, rows: np.ndarray[Any, Any], topic: str) -> None:
        """Adds the topic of some rows of the frame. Does nothing without `named`."""
        if self._topics is not None:
            self._topics.setdefault(topic, []).extend(rows.tolist())

    def to_json(self) -> Mapping[str, Any]:
        """Returns the message for the host: partitions as little-endian int32 (REFUSED for records that were not
        appended), offsets as int64, in Base64.
        """
        return {"frame": self._number, "topics": self._topics,
                "partitions": b64encode(self._partition.tobytes()).decode(),
                "offsets": b64encode(self._offset.tobytes()).decode()}


def records(topic: str, partition: int, start: int, end: int, raw: pa.RecordBatch, *, reset: bool) -> bytes:
    """Returns a frame of records for a sink task. `raw` (RAW_SCHEMA): all records of the partition from offset `start`
    to `end` (exclusive). `reset`: the previous frame of this partition did not end at `start`.
    """
    meta = {"topic": topic, "partition": partition, "from": start, "to": end, "reset": reset}
    return _packed(meta, len(raw), _sections(raw) if len(raw) else [b""] * _SECTIONS)


def cut_records(
    topic: str, partition: int, start: int, end: int, batch: pa.RecordBatch | None, *, reset: bool
) -> bytes:
    """As `records`, if heeler has run the first part of the chain. `batch` (CUT_SCHEMA): the records that were not
    filtered out, or None. The frame has the sections of the records as they are in Kafka, then those of the results.
    """
    meta: dict[str, Any] = {"topic": topic, "partition": partition, "from": start, "to": end, "reset": reset}
    if batch is None:
        return _packed({**meta, "cut": {}}, 0, [b""] * _SECTIONS)
    topics = batch.column(f"{CUT}topic")
    meta["cut"] = {"topics": topics.dictionary.to_pylist(), **{
        part: {"json": is_converted(batch, part), "schema": schema_text(batch, part)} for part in ("key", "value")}}
    names = [f"{CUT}{name}" for name in ("timestamp", "key", "value", "headers")]
    raw = pa.RecordBatch.from_arrays(batch.columns[: len(RAW_SCHEMA)], schema=RAW_SCHEMA)
    behind = pa.RecordBatch.from_arrays([raw.column("offset"), *map(batch.column, names)], schema=RAW_SCHEMA)
    sections = _sections(behind)
    sections[_TOPIC] = topics.indices.to_numpy().astype(np.int32).tobytes()
    sections[_PARTITION] = batch.column(f"{CUT}partition").fill_null(partition).to_numpy().tobytes()
    return _packed(meta, len(batch), [*_sections(raw), *sections])


def chain_records(topic: str, partitions: pa.Array | None, raw: pa.RecordBatch, schemas: Mapping[str, str | None],
                  converted: frozenset[str]) -> bytes:
    """Returns a frame of a Python source's records (RAW_SCHEMA) for the Java part of its chain. `converted`: which of
    "key" and "value" are JSON that Java converts; `schemas`: their schemas as JSON.
    """
    meta = {"topic": topic, "partition": -1, "from": 0, "to": 0, "reset": False, "cut": {"topics": [topic], **{
        part: {"json": part in converted, "schema": schemas.get(part)} for part in ("key", "value")}}}
    sections = _sections(raw)
    sections[_TOPIC] = np.zeros(len(raw), np.int32).tobytes()
    known = np.full(len(raw), -1) if partitions is None else partitions.fill_null(-1).to_numpy(zero_copy_only=False)
    sections[_PARTITION] = known.astype(np.int32).tobytes()
    offsets = [np.zeros(len(raw), np.int64).tobytes(), *[b""] * (_SECTIONS - 1)]
    return _packed(meta, len(raw), [*offsets, *sections])


def _packed(meta_data: Mapping[str, Any], rows: int, sections: list[bytes]) -> bytes:
    meta = json.dumps(meta_data).encode()
    parts = [_BODY.pack(rows, len(meta), len(sections), 0), struct.pack(f"<{len(sections)}q", *map(len, sections))]
    for part in (meta, *sections):
        parts += [part, bytes(-len(part) % 8)]
    body = b"".join(parts)
    return HEAD.pack(BATCH, 0, len(body)) + body


def _sections(raw: pa.RecordBatch) -> list[bytes]:
    """Returns the sections of a batch. The first has offsets; in frames from a source it has topics."""
    offset, timestamp, key, value, headers = raw.columns
    ends, pairs = b"", [b""] * 6
    pairs_column = headers.flatten()
    if len(pairs_column):
        counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32).tobytes()
        pairs = [*_column(pairs_column.field("key")), *_column(pairs_column.field("value"))]
    return [offset.to_numpy().tobytes(), b"", timestamp.to_numpy().tobytes(), *_column(key), *_column(value), ends,
            *pairs]


def _column(column: pa.Array) -> list[bytes]:
    """Returns the buffers of a string or binary column: offsets from 0, bytes, validity bitmap (b"" without nulls)."""
    _, ends, data = column.buffers()
    numbers = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    valid = b""
    if column.null_count:
        valid = np.packbits(column.is_valid().to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    content = b"" if data is None else memoryview(data)[numbers[0] : numbers[-1]].tobytes()
    return [(numbers - numbers[0]).tobytes(), content, valid]


def batch(number: int, body: memoryview) -> Batch:
    """Parses a frame's body. The batch shares its memory, so do not change it later. Raises ConnectError if invalid."""
    try:
        return _batch(number, body)
    except (struct.error, ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError,
            pa.ArrowException) as error:
        raise ConnectError(f"the Java plugin host sent an invalid batch: {error!r}") from error


def _batch(number: int, body: memoryview) -> Batch:
    rows, meta_bytes, sections, _ = _BODY.unpack_from(body)
    if sections not in (_SECTIONS, _CUT_SECTIONS):
        raise ValueError(f"{sections} sections")
    if rows < 0 or meta_bytes < 0:
        raise ValueError(f"{rows} rows, {meta_bytes} bytes of meta JSON")
    sizes = struct.unpack_from(f"<{sections}q", body, _BODY.size)
    at = _BODY.size + 8 * sections
    meta = json.loads(bytes(body[at : at + meta_bytes]))
    at += _padded(meta_bytes)
    whole, parts = pa.py_buffer(body), []
    for size in sizes:
        if size < 0 or at + size > len(body):
            raise ValueError("a section is longer than the frame")
        parts.append(whole.slice(at, size))
        at += _padded(size)
    topics, raw = _texts(meta["topics"]), _raw(rows, sizes, parts)
    topic, partition = _indexes(parts[_TOPIC], rows, 0, len(topics)), _numbers(parts[_PARTITION], rows)
    letters, kept = None, np.ones(rows, np.bool_)
    if marked := meta.get("letters"):
        kept[np.array(marked, np.int64)] = False
        letters, raw = raw.filter(pa.array(~kept)), raw.filter(pa.array(kept))
        topic, partition = topic[kept], partition[kept]
    cut = None
    if sections == _CUT_SECTIONS:
        schemas = _texts(meta["schemas"])
        keys, values = (_indexes(parts[place], rows, -1, len(schemas))[kept] for place in (_KEY_SCHEMA, _VALUE_SCHEMA))
        cut = CutRecords(topics, topic, partition, raw, keys, values, schemas)
    if (signal := meta.get("signal")) not in (None, *get_args(TransactionSignal)):
        raise ValueError(f"the signal {signal!r}")
    offsets = tuple((partition, offset) for partition, offset in map(_texts, meta["offsets"]))
    return Batch(number, topics, topic, partition, raw, offsets, bool(meta["more"]), bool(meta.get("wanted")), signal,
                 cut, meta, letters)


def _texts(found: list[Any]) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise TypeError(f"not a list of texts: {found!r:.200}")
    return tuple(found)


def _numbers(part: pa.Buffer, rows: int) -> np.ndarray[Any, Any]:
    """Returns the int32 number of each row."""
    numbers = np.frombuffer(part, np.int32)
    if len(numbers) != rows:
        raise ValueError(f"{len(numbers)} numbers for {rows} rows")
    return numbers


def _indexes(part: pa.Buffer, rows: int, least: int, end: int) -> np.ndarray[Any, Any]:
    """As `_numbers`; each has to be at least `least` and lower than `end`."""
    indexes = _numbers(part, rows)
    if rows and not least <= indexes.min() <= indexes.max() < end:
        raise ValueError(f"indexes from {indexes.min()} to {indexes.max()}, not from {least} to {end - 1}")
    return indexes


def _raw(rows: int, sizes: tuple[int, ...], parts: list[pa.Buffer]) -> pa.RecordBatch:
    if rows == 0:
        return pa.RecordBatch.from_pylist([], schema=RAW_SCHEMA)

    def strings(section: int, kind: pa.DataType, count: int) -> pa.Array:
        valid = parts[section + 2] if sizes[section + 2] else None
        array = pa.Array.from_buffers(kind, count, [valid, parts[section], parts[section + 1]])
        array.validate()
        return array

    if sizes[_HEADERS]:
        count = sizes[_HEADER_KEY] // 4 - 1
        pairs = [strings(_HEADER_KEY, pa.string(), count), strings(_HEADER_VALUE, pa.binary(), count)]
        structs = pa.StructArray.from_arrays(pairs, fields=list(HEADERS_TYPE.value_type))
        headers = pa.Array.from_buffers(HEADERS_TYPE, rows, [None, parts[_HEADERS]], children=[structs])
        headers.validate()
    else:
        headers = pa.nulls(rows, HEADERS_TYPE)
    times = pa.Array.from_buffers(pa.int64(), rows, [None, parts[_TIMESTAMP]])
    columns = [times, times, strings(_KEY, pa.binary(), rows), strings(_VALUE, pa.binary(), rows), headers]
    raw = pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)  # nothing reads a source's offset column
    raw.validate(full=True)  # code without checks reads it: wrong ends of values would crash the worker
    return raw


def _padded(size: int) -> int:
    return (size + 7) & ~7
