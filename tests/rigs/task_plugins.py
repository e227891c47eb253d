"""Connectors for tests of the runners; their options say how they misbehave. Executors import them by this name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_tasks.config.definition import ConfigDef
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.plugins.api import Options, SinkConnector, SourceConnector
from spark_tasks.plugins.errant_records import errant_record_reporter
from tests.rigs.support import wait_until


class Folder:
    """Notes that processes exchange: `say` adds a line to a file, `recorded` reads all complete lines."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def say(self, name: str, *words: Any) -> None:
        with (self.path / name).open("a") as out:
            out.write(json.dumps(words) + "\n")

    def recorded(self, name: str) -> list[Any]:
        file = self.path / name
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]  # a long one is written in pieces

    def once(self, name: str) -> bool:
        """True for the first caller."""
        try:
            (self.path / f"{name}.once").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def misbehave(options: Options, folder: Folder) -> None:
    """`fail`: always; `retry`: the first time; `slow`: for this many seconds, once."""
    if options.get("fail"):
        raise ConnectError(options["fail"])
    if options.get("late"):
        raise TimeoutError(options["late"])
    if options.get("retry") and folder.once("retry"):
        raise RetriableError(options["retry"])
    if options.get("slow") and folder.once("slow"):
        time.sleep(float(options["slow"]))


# ---------------------------------------------------------------- sources
class NumbersConnector(SourceConnector):
    """Numbers from 0 up to the number in the file `folder/limit`, from `streams` source partitions in parallel."""

    version = "1.2.3"
    config_def = ConfigDef()

    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        return [dict(self.config)] * min(max_tasks, 1)

    @classmethod
    def data_source(cls, options: Options) -> DataSource:
        return Numbers(dict(options))


class Numbers(DataSource):  # type: ignore[misc]
    def schema(self) -> str:
        return "topic string, value string"

    def streamReader(self, _schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return NumbersReader(dict(self.options))


@dataclass
class Range(InputPartition):  # type: ignore[misc]
    stream: str
    start: int
    end: int


class NumbersReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = Folder(options["folder"])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {str(n): 0 for n in range(int(self.options.get("streams", "1")))}

    def getDefaultReadLimit(self) -> ReadMaxRows:  # noqa: N802
        return ReadMaxRows(int(self.options.get("rows", "1000")))

    def latestOffset(self, start: dict[str, Any], limit: ReadMaxRows) -> dict[str, Any]:  # noqa: N802
        if self.options.get("fail.latest"):
            raise ConnectError(self.options["fail.latest"])
        last = int((self.folder.path / "limit").read_text())
        return {stream: min(max(at, last), at + limit.max_rows) for stream, at in start.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start.get("0", 0) >= int(self.options.get("silent.from", "1000000000")):
            return []
        return [Range(stream, start[stream], end[stream]) for stream in start if end[stream] > start[stream]]

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:
        misbehave(self.options, self.folder)
        plain, large = int(self.options.get("plain.from", "-1")), int(self.options.get("large", "-1"))
        texts = [str(n) if 0 <= plain <= n else f"{partition.stream}:{n}" + "x" * 20_000 * (n == large)
                 for n in range(partition.start, partition.end)]
        topics = [self.options["topic"]] * len(texts)
        if self.options.get("spoil"):
            yield spoiled(topics, partition)
            return
        if self.options.get("lost"):
            yield unroutable(topics, texts)
            return
        key = None if self.options.get("keyless") else partition.stream.encode()
        keys = pa.array([key] * len(texts), pa.binary())
        yield pa.record_batch({"topic": topics, "key": keys, "value": texts})

    def commit(self, end: dict[str, Any]) -> None:
        self.folder.say("commits", end)

    def to_source_offsets(self, offset: dict[str, Any]) -> Sequence[tuple[dict[str, Any], dict[str, Any]]]:
        return [({"stream": stream}, {"at": at}) for stream, at in offset.items()]

    def from_source_offsets(self, offsets: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
        return self.initialOffset() | {p["stream"]: o["at"] for p, o in offsets}


class SimpleConnector(NumbersConnector):
    """The same numbers with the simple interface, as tuples that are rows."""

    yields: ClassVar[Any] = "rows"

    @classmethod
    def data_source(cls, options: Options) -> DataSource:
        return SimpleNumbers(dict(options))


class SimpleNumbers(DataSource):  # type: ignore[misc]
    def schema(self) -> str:
        return "n BIGINT, text STRING"

    def simpleStreamReader(self, _schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return SimpleReader(dict(self.options))


class SimpleReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: Options) -> None:
        self.folder = Folder(options["folder"])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"n": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        last = min(int((self.folder.path / "limit").read_text()), start["n"] + 100)
        return iter([(n, f"t{n}") for n in range(start["n"], last)]), {"n": max(last, start["n"])}

    def commit(self, end: dict[str, Any]) -> None:
        self.folder.say("commits", end)


REQUIRED_INT64 = {SCHEMA_KEY: b'{"type":"int64","optional":false}'}


def unroutable(topics: list[str], texts: list[str]) -> pa.RecordBatch:
    """Of each ten records, the fourth has no valid topic, the fifth and the sixth have partitions that do not exist."""
    last = [int(text[-1]) for text in texts]
    topics = ["bad topic!" if n == 3 else topic for n, topic in zip(last, topics, strict=True)]
    partitions = pa.array([{4: 3, 5: -5}.get(n, 0) for n in last], pa.int32())
    return pa.record_batch({"topic": topics, "value": texts, "partition": partitions})


def spoiled(topics: Sequence[str], numbers: Range) -> pa.RecordBatch:
    """`spoil`: of ten records, one has no key although its schema requires it, one no value, one a text as header, one
    a timestamp before that of any clock, and one a timestamp that means none.
    """
    values = range(numbers.start, numbers.end)
    headers = [[("h", "text")] if n % 10 == 3 else None for n in values]
    columns = {
        "topic": pa.array(topics),
        "key": pa.array([None if n % 10 == 1 else n for n in values], pa.int64()),
        "value": pa.array([None if n % 10 == 2 else n for n in values], pa.int64()),
        "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))),
        "timestamp": pa.array([{4: -86_400_000, 5: -1}.get(n % 10, 1_700_000_000_000 + n) for n in values]),
    }
    fields = [pa.field(name, array.type, metadata=REQUIRED_INT64 if name in ("key", "value") else None)
              for name, array in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


# ---------------------------------------------------------------- sinks
class NotesConnector(SinkConnector):
    """Notes each batch's topic, partition, offsets and values in `folder/writes`, each commit in `folder/commits`."""

    version = "3.2.1"
    config_def = ConfigDef()

    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        return [dict(self.config)] * max_tasks

    @classmethod
    def data_source(cls, options: Options) -> DataSource:
        return Notes(dict(options))


class Notes(DataSource):  # type: ignore[misc]
    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        kinds = {"rows": RowWriter, "resumable": ResumableWriter, "plain": PlainWriter}
        kind = kinds.get(self.options.get("writer", ""), NotesWriter)
        return kind(dict(self.options))


@dataclass
class Noted(WriterCommitMessage):  # type: ignore[misc]
    count: int


class NotesWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = Folder(options["folder"])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Noted:
        count = 0
        for batch in iterator:
            misbehave(self.options, self.folder)
            self.refuse(batch)
            if self.options.get("fail.partition") == str(batch.column("partition")[0]):
                raise ConnectError("not this one")
            self.folder.say(
                "writes", batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py(),
                batch.column("offset").to_pylist(), batch.column("value").to_pylist(),
            )
            count += len(batch)
        return Noted(count)

    def refuse(self, batch: pa.RecordBatch) -> None:
        """`refuse`: values that a batch must not contain; `report`: values that are reported; `down`: an outage, once;
        `away`: an outage while the file `down` is there.
        """
        values = batch.column("value").to_pylist()
        if self.options.get("away") and (self.folder.path / "down").exists():
            raise RetriableError("the target is away")
        if self.options.get("down") and self.folder.once("down"):
            raise ConnectionRefusedError("nobody listens")
        for value in self.options.get("refuse", "").split(","):
            if value in values:
                raise ValueError("the target takes no such value")
        for row, value in enumerate(values):
            if value in self.options.get("report", "").split(","):
                offset = batch.column("offset")[row].as_py()
                errant_record_reporter().report(ValueError(f"{value} is reported"), offset=offset)

    def commit(self, messages: Sequence[Noted]) -> None:
        self.folder.say("commits", [m.count for m in messages if m is not None])

    def abort(self, messages: Sequence[Noted]) -> None:
        self.folder.say("aborts", [m.count for m in messages if m is not None])


class ResumableWriter(NotesWriter):
    """`resume`: the end of its data at the beginning; `half`: the first commit stores up to there and fails; while the
    file `no-commits` is there, all of them fail.
    """

    def commit(self, messages: Sequence[Noted]) -> None:
        if (self.folder.path / "no-commits").exists():
            self.folder.say("failed", [m.count for m in messages if m is not None])
            raise RetriableError("nothing could be stored")
        if self.options.get("half") and self.folder.once("half"):
            raise RetriableError("the rest could not be stored")
        super().commit(messages)

    def resume_from(self, topic: str, partition: int) -> int | None:  # noqa: ARG002
        if self.options.get("away") and (self.folder.path / "down").exists():
            raise RetriableError("the target is away")
        stored = "half" if (self.folder.path / "half.once").exists() else "resume"
        return int(self.options[stored]) if self.options.get(stored) else None


class RowWriter(DataSourceWriter):  # type: ignore[misc]
    def __init__(self, options: Options) -> None:
        self.folder = Folder(options["folder"])

    def write(self, iterator: Iterator[Any]) -> Noted:
        rows = [row.asDict() for row in iterator]
        self.folder.say("rows", rows)
        return Noted(len(rows))


class PlainWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Notes as NotesWriter, but has nothing to commit. A record that begins with `hang` hangs, once, until there is a
    file `free`; `fail` always fails.
    """

    def __init__(self, options: Options) -> None:
        self.folder = Folder(options["folder"])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Noted:
        count = 0
        for batch in iterator:
            values = batch.column("value").to_pylist()
            if any(value and value.startswith("hang") and self.folder.once(value) for value in values):
                wait_until((self.folder.path / "free").exists, 100, "the test lets the write go on")
            if "fail" in values:
                raise ConnectError("as it is asked to")
            self.folder.say("writes", batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py(),
                            batch.column("offset").to_pylist(), values)
            count += len(batch)
        return Noted(count)


class RowsConnector(NotesConnector):
    accepts: ClassVar[Any] = "rows"
