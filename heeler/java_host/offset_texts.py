"""Source offsets as the JSON texts of the offsets topic, exchanged between worker and host so that a number means the
same on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_tasks.errors import DataError
from spark_tasks.task import AlteredOffsets, SourceOffset, SourcePartition
from storage.log.java_json import dumps, loads


def as_texts(offsets: AlteredOffsets) -> list[tuple[str, str]]:
    """Each source partition and its offset as JSON texts, as Java writes them."""
    return [(dumps(partition).decode(), dumps(offset).decode()) for partition, offset in offsets]


def from_texts(pairs: Iterable[tuple[str, str]]) -> list[tuple[SourcePartition, SourceOffset | None]]:
    """Parses the texts, so that the store writes the same bytes again. An offset of null is to be removed. Raises
    DataError for an invalid one.
    """
    offsets: list[tuple[SourcePartition, SourceOffset | None]] = []
    for partition_text, offset_text in pairs:
        partition, offset = loads(partition_text.encode()), loads(offset_text.encode())
        if not isinstance(partition, dict) or not isinstance(offset, dict | None):
            raise DataError(f"a source partition and its offset must be maps, not {partition_text} and {offset_text}")
        offsets.append((partition, offset))
    return offsets
