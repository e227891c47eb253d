"""A projection with a filter by three engines, for ADR 0018: milliseconds of CPU a batch.

`python -m tests.benchmarks.bench_sql`, with `pip install datafusion polars duckdb`; without one of them
that is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

QUERY = "SELECT name, amount * 2 AS double FROM records WHERE amount > 500"
SIZES = (1, 1_000, 100_000)


def records(size: int) -> pa.RecordBatch:
    """Half of them pass."""
    amounts = np.random.default_rng(7).integers(0, 1000, size)
    return pa.record_batch({"name": pa.array([f"n{n}" for n in amounts]), "amount": pa.array(amounts)})


def by_heeler(batch: pa.RecordBatch) -> None:
    """The transform, with all that it does for a record beside its value."""
    HEELER.apply(pa.RecordBatch.from_arrays(
        [pa.StructArray.from_arrays(batch.columns, batch.schema.names), pa.nulls(len(batch), HEADERS_TYPE)],
        ["value", "headers"]))


def by_datafusion(batch: pa.RecordBatch) -> None:
    """DataFusion alone."""
    CONTEXT.register_record_batches("records", [[batch]])
    CONTEXT.sql(QUERY).collect()
    CONTEXT.deregister_table("records")


def by_polars(batch: pa.RecordBatch) -> None:
    """Polars alone."""
    pl.SQLContext(records=pl.from_arrow(batch)).execute(QUERY, eager=True).to_arrow()


def by_duckdb(batch: pa.RecordBatch) -> None:
    """DuckDB alone."""
    table = pa.Table.from_batches([batch])
    DUCK.register("records", table)
    DUCK.sql(QUERY).to_arrow_table()
    DUCK.unregister("records")


def measured(run: Callable[[pa.RecordBatch], None], batch: pa.RecordBatch) -> float:
    """The median of many, in milliseconds of CPU."""
    run(batch)
    times = []
    for _ in range(30):
        begun = time.process_time()
        run(batch)
        times.append(time.process_time() - begun)
    return float(np.median(times)) * 1000


ENGINES: dict[str, Callable[[pa.RecordBatch], None]] = {}
try:
    from datafusion import SessionConfig, SessionContext

    from spark_tasks.data.columns import HEADERS_TYPE
    from spark_tasks.pipeline.transforms.sql import Sql

    CONTEXT = SessionContext(SessionConfig().with_target_partitions(1))
    HEELER = Sql()
    HEELER.configure({"query": QUERY})
    ENGINES |= {"heeler's Sql": by_heeler, "DataFusion": by_datafusion}
except ImportError:
    pass
try:
    import polars as pl

    ENGINES["Polars"] = by_polars
except ImportError:
    pass
try:
    import duckdb

    DUCK = duckdb.connect(config={"threads": 1})
    ENGINES["DuckDB"] = by_duckdb
except ImportError:
    pass


if __name__ == "__main__":
    batches = [records(size) for size in SIZES]
    for name, engine in ENGINES.items():
        print(f"{name:14}", *(f"{measured(engine, batch):8.2f} ms for {len(batch)}" for batch in batches))  # noqa: T201
