"""The contract of exactly-once sinks, run on the parquet sink, and on sinks that break it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_tasks.connectors.parquet import ParquetSinkConnector
from spark_tasks.pipeline import SinkPipeline
from spark_tasks.testing import SinkUnderTest, check_exactly_once_sink
from tests.pure.converters.samples import JSON, raw_batch, worker

PIPELINE = SinkPipeline(worker(), {"value.converter": JSON, "value.converter.schemas.enable": "false"})


def batch(topic: str, partition: int, first: int, count: int) -> Any:
    values = [json.dumps({"id": n}).encode() for n in range(first, first + count)]
    return PIPELINE.to_connect(topic, partition, raw_batch(values, offset=first))


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
def test_parquet_in_many_files(tmp_path: Path) -> None:
    assert check_exactly_once_sink(parquet(tmp_path / "rows", rotate_records="3"), kills=8) > 8


@pytest.mark.integration
def test_parquet_at_every_step(tmp_path: Path) -> None:
    assert check_exactly_once_sink(parquet(tmp_path / "rows"), kills=30) > 40


class Lines:
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


def test_a_sink_that_takes_late_commits_does_not_pass(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"after a late commit .* twice"):
        check_exactly_once_sink(lines(tmp_path / "a", Lines))


@pytest.mark.parametrize(("kind", "says"), [(Forgetful, "resume_from answers"), (Hasty, "an aborted batch is seen")])
def test_sinks_that_do_not_pass(tmp_path: Path, kind: type[Lines], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_exactly_once_sink(lines(tmp_path / "a", kind))
