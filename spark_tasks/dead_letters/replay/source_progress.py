"""The progress of a source's replays, which is stored with the connector's offsets: one source partition for each
partition of the queue. A sink's is in its consumer group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.cluster import TopicPartition

_QUEUE: Final = "heeler.dead.letters"
_PARTITION: Final = "partition"
_OFFSET: Final = "offset"
_RANGES: Final = "replayed"
_MAX_INT64: Final = 2**63 - 1

Offsets = Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]


def is_progress(partition: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    """Whether a source partition is one of a dead letter queue, which plugins do not see."""
    return partition is not None and _QUEUE in partition


def progress_offset(place: TopicPartition, done: ReplayedOffsets) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the source partition and the offset to write. Raises ScatteredError."""
    ranges = done.metadata()
    return {_QUEUE: place[0], _PARTITION: place[1]}, {_OFFSET: done.low} | ({_RANGES: ranges} if ranges else {})


def progress_in(offsets: Offsets) -> dict[TopicPartition, tuple[int, str]]:
    """Returns what has been replayed, as arguments of `ReplayedOffsets.of`. Ignores what heeler did not write."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for partition, offset in offsets:
        if is_progress(partition) and offset is not None and _is_whole(offset.get(_OFFSET)):
            ranges = offset.get(_RANGES)
            place = str(partition[_QUEUE]), partition.get(_PARTITION, 0)
            found[place] = offset[_OFFSET], ranges if isinstance(ranges, str) else ""
    return found


def check_progress(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    """Raises ConfigError for an altered progress that no replay could read."""
    if set(partition) != {_QUEUE, _PARTITION} or not isinstance(partition[_QUEUE], str) or not _is_whole(
        partition[_PARTITION]
    ):
        raise ConfigError(f"the partition {dict(partition)} must have {_QUEUE} (the queue's topic) and {_PARTITION} (a "
                          "number)")
    if offset is not None and (set(offset) - {_OFFSET, _RANGES} or not _is_whole(offset.get(_OFFSET))):
        raise ConfigError(f"the offset of {dict(partition)} must be null, or have {_OFFSET} (that of the first letter "
                          "to replay)")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT64
