"""Between a stream reader's offset (one JSON dict) and Connect's offsets (a flat map for each source partition)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from spark_tasks.errors import DataError
from spark_tasks.plugins.api import SourceOffset, SourcePartition

StreamOffset = dict[str, Any]
SourceOffsets = Sequence[tuple[SourcePartition, SourceOffset]]

_NESTED = "stream"  # the one key of an offset that Connect's flat maps cannot hold


def plain(reader: Any, offset: Any) -> StreamOffset:
    """A copy as Kafka will give it back: through JSON, as Spark does it, so keys are texts and tuples lists at once and
    not only after a restart. Raises DataError.
    """
    if not isinstance(offset, dict):
        raise DataError(f"an offset of {type(reader).__name__} is a {type(offset).__name__}; it must be a dict")
    try:
        copy: StreamOffset = json.loads(json.dumps(offset))
    except (TypeError, ValueError) as error:
        raise DataError(f"an offset of {type(reader).__name__} has values that JSON cannot express: {error}") from error
    return copy


def to_connect(reader: Any, task: int, offset: StreamOffset) -> SourceOffsets:
    """Connect's offsets: as a reader with PartitionedOffsets says, else one for the source partition {"task": n}."""
    if hasattr(reader, "to_source_offsets"):
        found: SourceOffsets = reader.to_source_offsets(offset)
        return found
    simple = all(isinstance(value, str | int | float | bool | None) for value in offset.values())
    flat = simple and _NESTED not in offset
    return [({"task": task}, offset if flat else {_NESTED: json.dumps(offset)})]


def from_connect(reader: Any, task: int, offsets: SourceOffsets) -> StreamOffset:
    """The offset to start from; `reader.initialOffset()` where nothing is committed for this task."""
    if hasattr(reader, "from_source_offsets"):
        return plain(reader, reader.from_source_offsets(offsets))
    for partition, offset in offsets:
        if dict(partition) == {"task": task}:
            return json.loads(offset[_NESTED]) if set(offset) == {_NESTED} else dict(offset)
    return plain(reader, reader.initialOffset())


class Changed:
    """Leaves out offsets that are the same as when they were last written."""

    def __init__(self) -> None:
        self._written: dict[str, SourceOffset] = {}

    def of(self, offsets: SourceOffsets) -> SourceOffsets:
        """Those that are new or different."""
        return [(p, o) for p, o in offsets if self._written.get(partition_key(p)) != dict(o)]

    def note(self, offsets: SourceOffsets) -> None:
        """They are written."""
        self._written |= {partition_key(partition): dict(offset) for partition, offset in offsets}


def partition_key(partition: SourcePartition) -> str:
    """The same text for the same partition, in whatever order its fields are."""
    return json.dumps(dict(partition), sort_keys=True)
