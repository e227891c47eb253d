"""The cost of bad records: 0, 1 and 1,000 in 1,000,000, in one process without Kafka and Spark.

    python -m tests.benchmarks.bench_bad_records [--records 1000000] [--rounds 3] [--postgres]

Sink: schemaless JSON values through converter and three transforms (Cast, InsertField, ReplaceField), bad by their JSON
or by what Cast cannot read; source: the same records to JSON, bad by Cast; writer: a DataSourceArrowWriter that takes
all records of a split in one transaction, and raises at the first that it does not like, alone and behind a sink's
JSON and two transforms. The rate is that of all records, in thousands a second of
CPU time; the share is of the clean rate of the same round, the median of the rounds.

With `--postgres`, the writer is that of a real server (psycopg, COPY in one transaction for each call), whose primary
key refuses keys that exist already. The CPU time then includes the server's, and the elapsed time has a row of its own.
It needs `pip install '.[connectors]'` and Debian's postgresql.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import psutil
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter

from spark_tasks.data.columns import RAW_SCHEMA, in_order
from spark_tasks.pipeline.errors.failures import Failure
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.sinks.writes import WriterRunner

C = "org.apache.kafka.connect."
WORKER = {"key.converter": C + "storage.StringConverter", "value.converter": C + "json.JsonConverter",
          "value.converter.schemas.enable": "false"}
CONFIG = {
    "transforms": "cast,insert,replace", "transforms.cast.type": C + "transforms.Cast$Value",
    "transforms.cast.spec": "amount:int64", "transforms.insert.type": C + "transforms.InsertField$Value",
    "transforms.insert.static.field": "origin", "transforms.insert.static.value": "here",
    "transforms.replace.type": C + "transforms.ReplaceField$Value", "transforms.replace.renames": "name:who",
    "topic": "t",
}  # fmt: skip
BATCH = 50_000
Run = Callable[[list[pa.RecordBatch]], int]


def bad_rows(count: int, bad: int) -> set[int]:
    """Spread evenly, not at the borders of batches."""
    return {int((n + 0.37) * count / bad) for n in range(bad)}


def values(count: int, bad: set[int], what: str) -> Iterator[list[dict[str, Any]]]:
    """Batches of values; those of `bad` cannot be cast: all alike, or (`each`) each in its own way. `key`: good amounts
    are even, bad ones odd.
    """
    words = {"cast": "x", "each": "x{}"}
    for begin in range(0, count, BATCH):
        numbers = range(begin, min(count, begin + BATCH))
        if what == "key":
            amounts = [str(2 * n + (n in bad)) for n in numbers]
        else:
            amounts = [words[what].format(n) if n in bad and what in words else str(n) for n in numbers]
        yield [{"id": n, "name": f"name {n % 1000}", "amount": amount}
               for n, amount in zip(numbers, amounts, strict=True)]


def raw(count: int, bad: set[int], what: str) -> list[pa.RecordBatch]:
    """As a sink reads them."""
    found = []
    for at, batch in enumerate(values(count, bad, what)):
        size, first = len(batch), at * BATCH
        texts = [b'{"id":%d,"name":"%b","amount":"%b"}' % (v["id"], v["name"].encode(), v["amount"].encode())
                 for v in batch]
        if what == "json":
            texts = [text[:-1] if first + row in bad else text for row, text in enumerate(texts)]
        columns = [range(first, first + size), [1] * size, [b"key"] * size, texts, [None] * size]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW_SCHEMA, strict=True)]
        found.append(pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA))
    return found


def sink(batches: list[pa.RecordBatch]) -> int:
    """Bad records found."""
    pipeline, refused = SinkPipeline(WORKER, CONFIG), list[Failure]()
    for batch in batches:
        for _ in in_order(pipeline.to_connect_by_schema("t", 0, batch, refused.append)):
            pass
    return len(refused)


def connect(count: int, bad: set[int], what: str) -> list[pa.RecordBatch]:
    """As a source has them."""
    return [pa.RecordBatch.from_pydict({"value": batch}) for batch in values(count, bad, what)]


def source(batches: list[pa.RecordBatch]) -> int:
    """Bad records found."""
    pipeline, refused = SourcePipeline(WORKER, CONFIG), list[Failure]()
    for batch in batches:
        for _ in pipeline.to_raw(batch, refused.append):
            pass
    return len(refused)


class Table(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """Copies what it is given, as a driver does; does not take amounts that are not numbers."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> int:
        """Rows."""
        rows = 0
        for batch in iterator:
            amounts = batch.column("value").field("amount").to_pylist()
            rows += sum(map(int, amounts)) >= 0 and len(batch)
        return rows


class Unique(Table):
    """Has all odd amounts already, and quotes one that it refuses: it looks like a good one."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> int:
        """Rows."""
        rows = 0
        for batch in iterator:
            amounts = [int(one) for one in batch.column("value").field("amount").to_pylist()]
            known = next((one for one in amounts if one & 1), None)
            if known is not None:
                raise ValueError(f"duplicate key: Key (amount)=({known}) already exists")
            rows += len(batch)
        return rows


class Silent(Table):
    """The same, but its error does not quote the value."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> int:
        """Rows."""
        try:
            return super().write(iterator)
        except ValueError:
            raise ValueError("the table refuses it") from None


def new_writer(kind: str) -> bytes:
    """Pickled. Plugins' classes are modules' too, not those of __main__, which are pickled whole."""
    return cloudpickle.dumps(getattr(import_module("tests.benchmarks.bench_bad_records"), kind)())


def put(splits: Iterable[Callable[[], list[pa.RecordBatch]]], table: bytes) -> int:
    """Bad records found, as splits find them one after the other (SinkSplit). Each is read once more where its only
    call has failed.
    """
    found, spacing = 0, None
    for read in splits:
        runner = WriterRunner(table, "records", None, tolerant=True, refuse=lambda *_: None)
        raised = None
        if spacing is None:
            try:
                runner.write(read())
                continue
            except Exception as error:  # noqa: BLE001  # of a driver
                raised = error
        batches = read()
        bad = len(runner.write_accepted(batches, spacing, raised)[1])
        spacing = sum(map(len, batches)) // bad if bad >= 4 else None
        found += bad
    return found


def writer(batches: list[pa.RecordBatch], kind: str = "Table", table: bytes = b"") -> int:
    """Bad records found."""
    return put((lambda batch=batch: [batch] for batch in batches), table or new_writer(kind))


def whole(batches: list[pa.RecordBatch], kind: str = "Table", table: bytes = b"") -> int:
    """Bad records found by the writer behind the sink's converter and transforms."""
    pipeline = SinkPipeline(WORKER, {**CONFIG, "transforms": "insert,replace"})
    splits = (lambda raw=raw: list(pipeline.to_connect_batches("t", 0, raw)) for raw in batches)
    return put(splits, table or new_writer(kind))


def written(count: int, bad: set[int], what: str) -> list[pa.RecordBatch]:
    """As a writer gets them."""
    return [pa.RecordBatch.from_pydict({"offset": list(range(len(batch))), "value": batch})
            for batch in values(count, bad, what)]


WORKLOADS: dict[str, tuple[Callable[..., list[pa.RecordBatch]], Run, str]] = {
    "sink, bad JSON": (raw, sink, "json"), "sink, bad for Cast": (raw, sink, "cast"),
    "source, bad for Cast": (connect, source, "cast"), "writer, all alike": (written, writer, "cast"),
    "writer, each its own": (written, writer, "each"), "sink with that, alike": (raw, whole, "cast"),
    "sink, each its own": (raw, whole, "each"), "its error says less": (raw, partial(whole, kind="Silent"), "cast"),
    "writer, existing keys": (written, partial(writer, kind="Unique"), "key"),
    "sink, existing keys": (raw, partial(whole, kind="Unique"), "key"),
}  # fmt: skip


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    if options.postgres:
        with_postgres(options.records, options.rounds)
        return
    for name, (make, run, what) in WORKLOADS.items():
        report(name, options.rounds, options.records, make, run, what, time.process_time)


def with_postgres(records: int, rounds: int) -> None:
    """The two last rows with a real database."""
    from tests.rigs.postgres import running_postgres  # optional packages
    from tests.rigs.postgres_table import TableWriter

    with running_postgres() as postgres:
        postgres.sql("create table target (amount text primary key, id bigint, name text, who text, origin text)")

        def prepare(bad: set[int]) -> None:
            """An empty table but for the keys of the bad records."""
            postgres.sql("truncate target")
            for n in range(0, len(bad), 1000):
                keys = ", ".join(f"('{2 * row + 1}')" for row in sorted(bad)[n : n + 1000])
                postgres.sql(f"insert into target values {keys}")  # noqa: S608
            postgres.sql("checkpoint")

        table = cloudpickle.dumps(TableWriter(postgres.port))
        for name, make, run in (("COPY", written, writer), ("JSON and COPY", raw, whole)):
            for what, clock in (("CPU", cpu_of_all), ("elapsed", time.perf_counter)):
                report(f"{name}, {what}", rounds, records, make, partial(run, table=table), "key", clock, prepare)


def cpu_of_all() -> float:
    """CPU seconds of this process and its descendants."""
    seconds = time.process_time()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # the server has short-lived ones too
            times = child.cpu_times()
            seconds += times.user + times.system
    return seconds


def report(
    name: str, rounds: int, records: int, make: Callable[..., list[pa.RecordBatch]], run: Run, what: str,
    clock: Callable[[], float], prepare: Callable[[set[int]], object] = id,
) -> None:
    """Measure and print one row."""
    bad_of = {bad: bad_rows(records, bad) if bad else set() for bad in (0, 1, records // 1000)}
    inputs = {bad: make(records, rows, what) for bad, rows in bad_of.items()}
    prepare(bad_of[records // 1000])
    run(inputs[records // 1000][:1])
    rates: dict[int, list[float]] = {bad: [] for bad in inputs}
    for _ in range(rounds):
        for bad, batches in inputs.items():
            prepare(bad_of[bad])
            begun = clock()
            assert run(batches) == bad
            rates[bad].append(records / (clock() - begun) / 1000)
    shares = {bad: statistics.median(rate / clean for rate, clean in zip(rates[bad], rates[0], strict=True))
              for bad in inputs}
    print(f"{name:22}" + "".join(  # noqa: T201
        f" {bad:5} bad: {statistics.median(rates[bad]):7.0f} ({shares[bad]:4.0%})" for bad in inputs))


if __name__ == "__main__":
    main()
