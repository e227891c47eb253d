"""Converts between a stream reader's offset (a JSON dict) and Connect's offsets (a mapping per source partition)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from spark_tasks.errors import DataError
from spark_tasks.plugins.api import SourceOffset, SourcePartition

StreamOffset = dict[str, Any]
CommittedOffsets = Sequence[tuple[SourcePartition, SourceOffset]]
SourceOffsets = Sequence[tuple[SourcePartition, SourceOffset | None]]  # None removes the offset

_NEVER: Final = object()  # equals no offset
_NESTED = "stream"  # the only key of a Connect offset whose stream offset is not flat; its value is that offset as JSON


def plain(reader: Any, offset: Any) -> StreamOffset:
    """Returns a copy of a stream offset after a round trip through JSON, as in Spark: keys are strings and tuples are
    lists. So the reader gets the same offset as after a restart. Raises DataError.
    """
    if not isinstance(offset, dict):
        raise DataError(f"an offset of {type(reader).__name__} is a {type(offset).__name__}; it must be a dict")
    try:
        copy: StreamOffset = json.loads(json.dumps(offset))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"an offset of {type(reader).__name__} has values that JSON cannot represent: {error}") from error
    return copy


def to_connect(reader: Any, task: int, offset: StreamOffset) -> SourceOffsets:
    """Converts a stream offset to Connect's offsets: with the reader's PartitionedOffsets, or to one offset for the
    source partition {"task": n}.
    """
    if hasattr(reader, "to_source_offsets"):
        offsets: SourceOffsets = reader.to_source_offsets(offset)
        return offsets
    flat = all(map(_is_plain, offset.values())) and _NESTED not in offset
    return [({"task": task}, offset if flat else {_NESTED: json.dumps(offset)})]


def _is_plain(value: Any) -> bool:
    """Returns whether a value is the same after Kafka Connect's JSON, in which NaN and infinities become texts."""
    return isinstance(value, str | int | None) or (isinstance(value, float) and isfinite(value))


def from_connect(reader: Any, task: int, offsets: CommittedOffsets) -> StreamOffset:
    """Returns the stream offset to start from: `reader.initialOffset()` if this task has no committed offset."""
    if hasattr(reader, "from_source_offsets"):
        return plain(reader, reader.from_source_offsets(offsets))
    for partition, offset in offsets:
        if dict(partition) == {"task": task}:
            return json.loads(offset[_NESTED]) if set(offset) == {_NESTED} else dict(offset)
    return plain(reader, reader.initialOffset())


class Changed:
    """Filters out offsets that have not changed since they were last written."""

    def __init__(self) -> None:
        self._written: dict[str, SourceOffset | None] = {}

    def of(self, offsets: SourceOffsets) -> SourceOffsets:
        """Returns the offsets that are new or have changed."""
        return [(p, o) for p, o in offsets if self._written.get(partition_key(p), _NEVER) != o]

    def note(self, offsets: SourceOffsets) -> None:
        """Records that these offsets have been written."""
        self._written |= {
            partition_key(partition): None if offset is None else dict(offset) for partition, offset in offsets
        }


def partition_key(partition: SourcePartition) -> str:
    """Returns a string that identifies a source partition, independent of the order of its fields."""
    return json.dumps(dict(partition), sort_keys=True)
