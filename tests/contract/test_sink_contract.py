"""The contract of exactly-once sinks, run on the parquet sink, and on sinks that break it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter

from spark_tasks.connectors.parquet.connector import ParquetSinkConnector
from spark_tasks.errors import RetriableError
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins.origin import kafka_partition
from spark_tasks.plugins.testing import SinkUnderTest, check_exactly_once_sink
from tests.rigs.raw_records import JSON, converted, raw_batch, worker

PIPELINE = SinkPipeline(worker(), {"value.converter": JSON, "value.converter.schemas.enable": "false"})


def batch(topic: str, partition: int, first: int, count: int) -> Any:
    values = [json.dumps({"id": n}).encode() for n in range(first, first + count)]
    return converted(PIPELINE, topic, partition, raw_batch(values, offset=first))


def parquet(folder: Path, **options: str) -> SinkUnderTest:
    config = {"path": str(folder), "kafka.columns": "true", **{k.replace("_", "."): v for k, v in options.items()}}

    def contents() -> list[tuple[str, int, int]]:
        found = []
        for file in folder.glob("[!.]*.parquet"):
            rows = pq.read_table(file).to_pylist()
            found += [(row["_topic"], row["_partition"], row["_offset"]) for row in rows]
        return found

    return SinkUnderTest(
        writer=lambda: ParquetSinkConnector.data_source(config).writer(None, overwrite=False),
        batch=batch, contents=contents, clear=lambda: shutil.rmtree(folder, ignore_errors=True),
    )


@pytest.mark.integration
def test_parquet_is_exactly_once_when_it_rotates_files(tmp_path: Path) -> None:
    assert check_exactly_once_sink(parquet(tmp_path / "rows", rotate_records="3"), kills=8) > 8


@pytest.mark.integration
def test_parquet_is_exactly_once_when_killed_at_every_step(tmp_path: Path) -> None:
    assert check_exactly_once_sink(parquet(tmp_path / "rows"), kills=30) > 40


class Table(DataSourceWriter):  # type: ignore[misc]  # PySpark has no types
    """A sink that keeps rows, and where it stands, in one transaction of a database."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def write(self, rows: Any) -> Any:
        topic, partition = kafka_partition()
        return [(topic, partition, row.offset, row.value["id"]) for row in rows]

    def commit(self, messages: Any) -> None:
        with closing(self.connect()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            for rows in filter(None, messages):
                (topic, partition, first, _), last = rows[0], rows[-1][2]
                if (self.next(database, topic, partition) or 0) != first:
                    raise RetriableError("another task was faster")
                database.executemany("INSERT INTO data VALUES (?, ?, ?, ?)", rows)
                database.execute("REPLACE INTO next VALUES (?, ?, ?)", (topic, partition, last + 1))

    def abort(self, messages: Any) -> None:
        pass

    def resume_from(self, topic: str, partition: int) -> int | None:
        with closing(self.connect()) as database:
            return self.next(database, topic, partition)

    def connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.file, isolation_level=None)
        database.execute("PRAGMA synchronous = OFF")  # only processes are killed here
        database.execute("CREATE TABLE IF NOT EXISTS data (topic, partition, at, id)")
        database.execute("CREATE TABLE IF NOT EXISTS next (topic, partition, at, PRIMARY KEY (topic, partition))")
        return database

    @staticmethod
    def next(database: sqlite3.Connection, topic: str, partition: int) -> int | None:
        found = database.execute("SELECT at FROM next WHERE topic = ? AND partition = ?", (topic, partition)).fetchone()
        return None if found is None else int(found[0])


@pytest.mark.integration  # processes that are killed
def test_a_database_that_keeps_rows_and_offsets_in_one_transaction(tmp_path: Path) -> None:
    file = tmp_path / "data.sqlite"

    def contents() -> list[tuple[str, int, int]]:
        with closing(Table(file).connect()) as database:
            rows = database.execute("SELECT topic, partition, at, id FROM data").fetchall()
        assert all(at == id_ for _, _, at, id_ in rows)
        return [(topic, partition, at) for topic, partition, at, _ in rows]

    sink = SinkUnderTest(lambda: Table(file), batch, contents, lambda: file.unlink(missing_ok=True))
    assert check_exactly_once_sink(sink, kills=4) > 4


class Left:
    """Garbage of the parent's that must not be collected by another process, as a Kafka client."""

    def __init__(self) -> None:
        self.itself, self.pid = self, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.pid:
            os._exit(77)


@pytest.mark.integration  # processes that are killed
def test_unread_data_of_the_parent_are_not_used_in_a_child(tmp_path: Path) -> None:
    sink, parent = parquet(tmp_path / "rows"), os.getpid()
    left: list[Left] = []

    def writer() -> Any:
        left[:] = [Left()] if os.getpid() == parent else []
        gc.collect()
        return sink.writer()

    assert check_exactly_once_sink(replace(sink, writer=writer), partitions=1, records=12, kills=1) > 1


class Lines(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """A sink that appends lines, and says where to resume; exactly once only as long as nothing happens."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def write(self, batches: Any) -> list[Any]:
        return [row for b in batches for row in b.select(["topic", "partition", "offset"]).to_pylist()]

    def commit(self, messages: list[Any]) -> None:
        for message in messages:
            with self.file.open("a") as out:
                for row in message:
                    out.write(json.dumps(row) + "\n")
                    out.flush()

    def abort(self, messages: list[Any]) -> None:
        pass

    def resume_from(self, topic: str, partition: int) -> int | None:  # noqa: ARG002
        rows = [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        mine = [row["offset"] for row in rows if row["partition"] == partition]
        return max(mine) + 1 if mine else None


def lines(file: Path, kind: type[Lines]) -> SinkUnderTest:
    def contents() -> list[tuple[str, int, int]]:
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [(row["topic"], row["partition"], row["offset"]) for row in rows]

    return SinkUnderTest(lambda: kind(file), batch, contents, lambda: file.unlink(missing_ok=True))


class Forgetful(Lines):
    """Resumes at the beginning."""

    def resume_from(self, topic: str, partition: int) -> int | None:
        found = super().resume_from(topic, partition)
        return None if found is None else 0


class Hasty(Lines):
    """Shows records before they are committed."""

    def write(self, batches: Any) -> list[Any]:
        super().commit([super().write(batches)])
        return []


def test_a_sink_that_accepts_late_commits_fails_the_contract(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)after a late commit, .* twice"):
        check_exactly_once_sink(lines(tmp_path / "a", Lines))


@pytest.mark.parametrize(
    ("kind", "says"), [(Forgetful, "resume_from returns"), (Hasty, "records of an aborted batch are visible")])
def test_sinks_with_known_defects_fail_the_contract(tmp_path: Path, kind: type[Lines], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_exactly_once_sink(lines(tmp_path / "a", kind))
