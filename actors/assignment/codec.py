"""Binary layouts of the group protocol "connect" (KIP-415, KIP-507): metadata and assignments as bytes.

Numbers are big-endian; a string is an int16 length and UTF-8; an array is an int32 count; -1 stands for null where
null is allowed. Every version is decoded by the same function, as in Kafka Connect's workers: version 0 ends before the
fields that later versions added, and missing fields at the end take their defaults. Bytes after the known fields are
ignored, so that a later version can add fields.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from actors.assignment.protocol import Allocation, Assignment, AssignmentError, MemberMetadata, Protocol
from spark_tasks.errors import ConnectError
from storage.ids import ConnectorName, ConnectorTaskId, ItemId
from storage.log.record import shown

CONNECTOR_TASK = -1  # the task number that stands for the connector's own instance
_STRING_LIMIT = 32767  # the largest int16


class CodecError(ConnectError):
    """Bytes that are not metadata or an assignment of any version, or a value that cannot be encoded."""


# ---------------------------------------------------------------- metadata
def encode_metadata(metadata: MemberMetadata, protocol: Protocol) -> bytes:
    """A member's metadata, sent when it joins; version 0 has no field for `owned`. CodecError if a name is too long."""
    head = struct.pack(">h", protocol.version) + _string(metadata.url) + _int64(metadata.config_offset)
    if protocol is Protocol.EAGER:
        return head
    if metadata.owned is None:
        return head + struct.pack(">i", -1)
    # Readers use only the allocation's items; its other fields have no meaning here.
    inner = Assignment(leader="", leader_url="", config_offset=metadata.config_offset, assigned=metadata.owned)
    allocation = encode_assignment(inner, protocol)
    return head + struct.pack(">i", len(allocation)) + allocation


def decode_metadata(data: bytes) -> MemberMetadata:
    """The inverse of encode_metadata, for every version. CodecError for anything else."""
    reader = _Reader(data)
    reader.version()
    url, offset = reader.string(), reader.int64()
    if reader.at_end:
        return MemberMetadata(url, offset)
    size = reader.int32()
    if size < 0:
        return MemberMetadata(url, offset)
    return MemberMetadata(url, offset, decode_assignment(reader.take(size)).assigned)


# ---------------------------------------------------------------- assignment
def encode_assignment(assignment: Assignment, protocol: Protocol) -> bytes:
    """What the leader assigns to a member; version 0 has no fields for `revoked` and `delay_ms`."""
    parts = [
        struct.pack(">hh", protocol.version, assignment.error),
        _string(assignment.leader),
        _string(assignment.leader_url),
        _int64(assignment.config_offset),
        _allocation(assignment.assigned),
    ]
    if protocol is not Protocol.EAGER:
        parts += [_allocation(assignment.revoked), _int32(assignment.delay_ms)]
    return b"".join(parts)


def decode_assignment(data: bytes) -> Assignment:
    """The inverse of encode_assignment, for every version. CodecError for anything else.

    Any unknown error number also means a failed rebalance, so it is read as CONFIG_MISMATCH.
    """
    reader = _Reader(data)
    reader.version()
    error = AssignmentError.CONFIG_MISMATCH if reader.int16() else AssignmentError.NONE
    leader, leader_url, offset = reader.string(), reader.string(), reader.int64()
    assigned = Allocation() if reader.at_end else reader.allocation()
    revoked = Allocation() if reader.at_end else reader.allocation()
    delay_ms = 0 if reader.at_end else reader.int32()
    return Assignment(leader, leader_url, offset, assigned, revoked, delay_ms, error)


# ---------------------------------------------------------------- writing
def _string(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise CodecError(f"{text!r} cannot be encoded as UTF-8") from error
    if len(data) > _STRING_LIMIT:
        raise CodecError(f"{text[:80]!r}… is {len(data)} bytes long; the limit is {_STRING_LIMIT}")
    return struct.pack(">h", len(data)) + data


def _int64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def _int32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


@lru_cache(4)  # a member encodes the same allocation for each protocol that it offers
def _allocation(allocation: Allocation) -> bytes:
    """Grouped by connector, those whose own instance is included first, as Kafka Connect's workers write it."""
    numbers: dict[ConnectorName, list[int]] = {name: [CONNECTOR_TASK] for name in allocation.connectors}
    for task in allocation.tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [_int32(len(numbers))]
    for name, tasks in numbers.items():
        parts += [_string(name), struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)]
    return b"".join(parts)


# ---------------------------------------------------------------- reading
class _Reader:
    """A cursor over bytes; every method advances it or raises CodecError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise CodecError(f"{size} bytes expected at {self._position}, but there are only {len(self._data)} bytes")
        chunk = self._data[self._position : end]
        self._position = end
        return chunk

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def version(self) -> None:
        version = self.int16()
        if version < 0:
            raise CodecError(f"unknown protocol version {version}")

    def string(self) -> str:
        try:
            return self.take(self.int16()).decode()
        except UnicodeDecodeError as error:
            raise CodecError(f"the string before position {self._position} is not valid UTF-8") from error

    def allocation(self) -> Allocation:
        items: list[ItemId] = []
        for _ in range(self._count()):
            name = ConnectorName(self.string())
            numbers = self._task_numbers()
            if (least := min(numbers, default=0)) < CONNECTOR_TASK:
                raise CodecError(f"{shown(name)} has no task {least}")
            items += [name if number == CONNECTOR_TASK else ConnectorTaskId(name, number) for number in numbers]
        return Allocation.of(items)

    def _count(self) -> int:
        count = self.int32()
        # An element takes at least six bytes; a larger count is corrupt and must not cause a long loop.
        if count > (len(self._data) - self._position) // 6:
            raise CodecError(f"invalid connector count {count} at position {self._position}")
        return max(count, 0)  # null is read as empty

    def _task_numbers(self) -> tuple[int, ...]:
        count = self.int32()
        return struct.unpack(f">{count}i", self.take(4 * count)) if count > 0 else ()
