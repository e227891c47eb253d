"""Converts between a stream reader's offset (one JSON dict) and Connect's offsets (a map per source partition)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from spark_tasks.errors import DataError
from spark_tasks.plugins.api import SourceOffset, SourcePartition

StreamOffset = dict[str, Any]
SourceOffsets = Sequence[tuple[SourcePartition, SourceOffset]]

_NESTED = "stream"  # the only key of an offset that cannot be a flat map


def plain(reader: Any, offset: Any) -> StreamOffset:
    """A copy as it will be read back from Kafka: through JSON, as in Spark, so that keys become texts and tuples lists
    at once and not only after a restart. Raises DataError.
    """
    if not isinstance(offset, dict):
        raise DataError(f"an offset of {type(reader).__name__} is a {type(offset).__name__}; it must be a dict")
    try:
        copy: StreamOffset = json.loads(json.dumps(offset))
    except (TypeError, ValueError) as error:
        raise DataError(f"an offset of {type(reader).__name__} has values that JSON cannot express: {error}") from error
    return copy


def to_connect(reader: Any, task: int, offset: StreamOffset) -> SourceOffsets:
    """Connect's offsets: those of a reader with PartitionedOffsets, else one for the source partition {"task": n}."""
    if hasattr(reader, "to_source_offsets"):
        found: SourceOffsets = reader.to_source_offsets(offset)
        return found
    simple = all(isinstance(value, str | int | float | bool | None) for value in offset.values())
    flat = simple and _NESTED not in offset
    return [({"task": task}, offset if flat else {_NESTED: json.dumps(offset)})]


def from_connect(reader: Any, task: int, offsets: SourceOffsets) -> StreamOffset:
    """The offset to start from; `reader.initialOffset()` if nothing is committed for this task."""
    if hasattr(reader, "from_source_offsets"):
        return plain(reader, reader.from_source_offsets(offsets))
    for partition, offset in offsets:
        if dict(partition) == {"task": task}:
            return json.loads(offset[_NESTED]) if set(offset) == {_NESTED} else dict(offset)
    return plain(reader, reader.initialOffset())


class Changed:
    """Skips offsets that have not changed since they were last written."""

    def __init__(self) -> None:
        self._written: dict[str, SourceOffset] = {}

    def of(self, offsets: SourceOffsets) -> SourceOffsets:
        """The offsets that are new or have changed."""
        return [(p, o) for p, o in offsets if self._written.get(partition_key(p)) != dict(o)]

    def note(self, offsets: SourceOffsets) -> None:
        """Note that these offsets were written."""
        self._written |= {partition_key(partition): dict(offset) for partition, offset in offsets}


def partition_key(partition: SourcePartition) -> str:
    """A text that identifies a partition, whatever the order of its fields."""
    return json.dumps(dict(partition), sort_keys=True)
