"""Planning a batch of any PySpark stream reader."""
# ruff: noqa: N802, ARG002 - the names and signatures are PySpark's

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from spark_tasks.errors import DataError
from spark_tasks.sources.readers import StreamReader
from spark_tasks.tasks.pace import SplitSize


class Reader(DataSourceStreamReader):  # type: ignore[misc]
    """Counts in a dict that it keeps and gives away."""

    def __init__(self) -> None:
        self.at: dict[Any, Any] = {1: 0}
        self.asked: list[Any] = []

    def latestOffset(self) -> Any:
        self.at[1] += 1
        return self.at

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        self.asked.append((start, end))
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())


class InPlace(Reader):
    """Counts in the offset that it is given."""

    def latestOffset(self, start: Any, limit: Any) -> Any:
        start["1"] += 1
        return start


class Wrong(Reader):
    def latestOffset(self) -> Any:
        return 5


class Limited(Reader):
    """Notes the limits of its batches."""

    def __init__(self, limit: ReadLimit) -> None:
        super().__init__()
        self.limit = limit

    def getDefaultReadLimit(self) -> ReadLimit:
        return self.limit

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:
        self.asked.append(limit)
        return start


class Source(DataSource):  # type: ignore[misc]
    def __init__(self, reader: DataSourceStreamReader) -> None:
        super().__init__({})
        self.reader = reader

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return self.reader


@pytest.mark.parametrize("kind", [Reader, InPlace])
def test_a_reader_may_change_its_offset_dicts(kind: type[Reader]) -> None:
    reader, position = kind(), {"1": 0}
    stream = StreamReader(Source(reader))
    for turn in range(1, 4):
        plan = stream.plan(position, SplitSize())
        assert plan is not None
        assert plan.end == {"1": turn}
        position = plan.end
    assert reader.asked == [({"1": turn}, {"1": turn + 1}) for turn in range(3)]


def test_an_invalid_offset_is_reported() -> None:
    with pytest.raises(DataError, match="an offset of Wrong is a int; it must be a dict"):
        StreamReader(Source(Wrong())).plan({"1": 0}, SplitSize())


@pytest.mark.parametrize(("limit", "size", "used"), [
    (ReadMaxBytes(10_000), SplitSize(50, 20.0), ReadMaxBytes(1000)), (ReadMaxBytes(900), SplitSize(50, 20.0), None),
    (ReadMaxBytes(10_000), SplitSize(50), ReadMaxBytes(4000)), (ReadMaxRows(100), SplitSize(50, 20.0), ReadMaxRows(50)),
    (ReadMaxRows(40), SplitSize(50, 20.0), None), (ReadMaxRows(1_000_000), SplitSize(500_000), ReadMaxRows(10_000)),
    (ReadAllAvailable(), SplitSize(50, 20.0), None),
])
def test_a_readers_limit_is_reduced_to_the_size_of_a_batch(
    limit: ReadLimit, size: SplitSize, used: ReadLimit | None
) -> None:
    reader = Limited(limit)
    assert StreamReader(Source(reader)).plan({"1": 0}, size) is None, "it says that there is nothing new"
    assert reader.asked == [used or limit]
