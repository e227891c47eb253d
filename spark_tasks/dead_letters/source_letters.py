"""The records of a source's dead letters, for replays.

The key and the value of such a letter are what the connector's converters make of the record, or a text if they cannot
write it; neither can be converted back in all cases. So the letter has a header with the record as the source read it,
before the transforms. A record that only Kafka refused has passed through the transforms and converters already: its
letter has the bytes that were to be written, and a header that says so. If it was refused because of its timestamp, the
letter has the time of writing, as its own would be refused too, and the record's timestamp in another header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.dead_letters.letters import LETTER_PREFIX, DeadLetters, Rows, own_records

RECORD: Final = f"{LETTER_PREFIX}record"
"""The header whose value is the record: an Arrow IPC stream with one batch of one row."""

JAVA_RECORD: Final = f"{LETTER_PREFIX}java.record"
"""The header of a letter of a Java source, whose value is the record as text: see RecordText.java."""

PRODUCED: Final = f"{LETTER_PREFIX}produced"
"""The header of a letter with the bytes to be written. Its value is the Kafka partition, -1 if the producer chooses."""

TIMESTAMP: Final = f"{LETTER_PREFIX}timestamp"
"""The header with the timestamp of a record, in ms since 1970, whose letter has the time of writing instead."""

Header = tuple[str, bytes | None]


def record_header(batch: pa.RecordBatch, row: int, limit: int) -> tuple[Header, ...]:
    """Returns the header for a row of a source's batch; none if it would be larger than `limit` bytes."""
    one = batch.slice(row, 1)
    try:
        for number, field in enumerate(batch.schema):
            if _shares(field.type):
                alone = _alone(field)
                one = one.set_column(number, alone, one.column(number).cast(alone.type))
    except pa.ArrowNotImplementedError:  # a dictionary of views
        return ()
    if any(_shares(kind) for kind in one.schema.types):
        return ()
    one = pa.concat_batches([one, one.slice(0, 0)])  # a copy: the stream of a slice has bytes of the rows beside it
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, one.schema) as stream:
        stream.write_batch(one)
    written = sink.getvalue()
    return () if written.size > limit else ((RECORD, written.to_pybytes()),)


_SHARING: Final = frozenset(kind.id for kind in (
    pa.string_view(), pa.binary_view(), pa.list_view(pa.null()), pa.large_list_view(pa.null()),
    pa.dictionary(pa.int8(), pa.null()), pa.run_end_encoded(pa.int32(), pa.null()), pa.dense_union([])))


def _shares(kind: pa.DataType) -> bool:
    """Whether values of this type may be the same bytes of a buffer: views, dictionaries, and what contains them."""
    if isinstance(kind, pa.BaseExtensionType):
        return _shares(kind.storage_type)
    return kind.id in _SHARING or any(_shares(kind.field(number).type) for number in range(kind.num_fields))


def _alone(field: pa.Field) -> pa.Field:
    return field.with_type(_alone_type(field.type))


def _alone_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values whose rows share nothing."""
    if pa.types.is_dictionary(kind):
        return _alone_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([_alone(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_alone(kind.key_field), _alone(kind.item_field), kind.keys_sorted)
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_alone(kind.value_field))
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_alone(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_alone(kind.value_field), kind.list_size)
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)


def produced_header(partition: int) -> tuple[Header, ...]:
    """Returns the header for a record that Kafka refused."""
    return ((PRODUCED, str(partition).encode()),)


def untimed(raw: pa.RecordBatch) -> tuple[pa.RecordBatch, tuple[Header, ...]]:
    """Returns a record (RAW_SCHEMA) without its timestamp, and the header with the timestamp."""
    place = raw.schema.get_field_index("timestamp")
    header = TIMESTAMP, str(raw.column(place)[0].as_py()).encode()
    return raw.set_column(place, raw.schema.field(place), pa.array([-1], pa.int64())), (header,)


def record_of(header: bytes | None) -> pa.RecordBatch | None:
    """Returns the record in a RECORD header; None if there is none, or if it is not as `record_header` writes it."""
    if header is None:
        return None
    try:
        if not all(_is_plain(message, len(header)) for message in pa.ipc.MessageReader.open_stream(header)):
            return None
        stream = pa.ipc.open_stream(header)
        if any(map(_shares, stream.schema.types)):
            return None
        batch = stream.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, StopIteration, struct.error):
        return None
    return batch if len(batch) == 1 else None


@dataclass(frozen=True, slots=True)
class Produced:
    """Records (RAW_SCHEMA) of one topic that Kafka refused. `partitions`: -1 where the producer chooses."""

    topic: str
    partitions: pa.Array
    raw: pa.RecordBatch


class SourceLetters:
    """A batch of the queue of a source (RAW_SCHEMA), which may contain other records. `takes`: whether the source's
    pipeline takes a record.
    """

    def __init__(self, raw: pa.RecordBatch, connector: str, takes: Callable[[pa.RecordBatch], bool]) -> None:
        self.letters = DeadLetters.of(raw)
        records = map(record_of, self.letters.header(RECORD).to_pylist())
        self._records = [record if record is not None and takes(record) else None for record in records]
        self._partitions = self.letters.numbers(PRODUCED).to_pylist()
        self._timestamps = pc.coalesce(self.letters.times(TIMESTAMP), raw.column("timestamp"))
        sound = [record is not None or partition is not None
                 for record, partition in zip(self._records, self._partitions, strict=True)]
        self.replayable: np.ndarray[Any, Any] = (
            np.array(sound, np.bool_) & self.letters.topic.is_valid().to_numpy(False)
            & self.letters.are_of(connector))

    def chosen(self, rows: Rows) -> Iterator[pa.RecordBatch | Produced]:
        """Yields the records of these rows in order: as the source read them, or as they were to be written."""
        run: list[pa.RecordBatch] = []
        for row in rows.tolist():
            record = self._records[row]
            if run and (record is None or not record.schema.equals(run[0].schema, check_metadata=True)):
                yield pa.concat_batches(run)
                run = []
            if record is not None:
                run.append(record)
            else:
                raw = own_records(self.letters.raw.slice(row, 1), [None])
                place = raw.schema.get_field_index("timestamp")
                raw = raw.set_column(place, raw.schema.field(place), self._timestamps.slice(row, 1))
                partition = pa.array([self._partitions[row]], pa.int32())
                yield Produced(self.letters.topic[row].as_py(), partition, raw)
        if run:
            yield pa.concat_batches(run)


def _is_plain(message: pa.ipc.Message, size: int) -> bool:
    """Whether a message of a stream of `size` bytes cannot become much larger than that: it is not compressed, its
    buffers do not overlap, and each value has a bit at least. (A list of nulls, or of structs without fields, can have
    2^31 of them and no buffer.)

    By Arrow's Message.fbs, the third field of a Message is its header; the fields of the header of a RecordBatch are
    length, nodes (of all nested arrays: length, null count), buffers (offset, length), compression.
    """
    if message.type == "schema":
        return True
    if message.type != "record batch":
        return False
    data = message.metadata.to_pybytes()
    (root,) = struct.unpack_from("<I", data)
    batch = _target(data, _field(data, root, 2))
    values = sum(abs(length) for length, _ in _pairs(data, _field(data, batch, 1)))
    held = sum(abs(length) for _, length in _pairs(data, _field(data, batch, 2)))
    return not _field(data, batch, 3) and values <= 8 * size and held <= size


def _target(data: bytes, place: int) -> int:
    (distance,) = struct.unpack_from("<I", data, place)
    return place + int(distance)


def _pairs(data: bytes, place: int) -> Iterator[tuple[int, int]]:
    """A flatbuffers vector of structs of two int64."""
    if place:
        vector = _target(data, place)
        (count,) = struct.unpack_from("<I", data, vector)
        yield from struct.iter_unpack("<qq", data[vector + 4 : vector + 4 + 16 * count])


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a field of a flatbuffers table; 0 if the table does not have it."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    if 4 + 2 * number >= size:
        return 0
    (distance,) = struct.unpack_from("<H", data, table - back + 4 + 2 * number)
    return table + distance if distance else 0
