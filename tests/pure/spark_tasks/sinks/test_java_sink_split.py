"""How much a split of a Java sink returns."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.sinks import split as module
from spark_tasks.sinks.java_sink_split import ReturningWriter, java_replay_job, java_sink_job
from spark_tasks.sinks.split import SinkResult, SinkSplit
from spark_tasks.spark.executor import Outcome, pickled_outcomes

JSON = "org.apache.kafka.connect.json.JsonConverter"
VALUE = b'"' + b"x" * (300 << 10) + b'"'


def test_a_split_of_large_records_returns_only_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 of 300 KB were planned, as their size was not known, and the result was too large: again after a restart."""
    read = [0]

    def read_range(*_range: Any, **_more: Any) -> Iterator[pa.RecordBatch]:
        for offset in range(512):
            read[0] += 1
            columns = [pa.array([offset]), pa.array([0]), pa.nulls(1, pa.binary()), pa.array([VALUE], pa.binary()),
                       pa.nulls(1, RAW_SCHEMA.field("headers").type)]
            yield pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)

    monkeypatch.setattr(module, "read_range", read_range)
    monkeypatch.setattr(module, "shared_cluster", lambda _client: None)
    connector = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    context: Any = SimpleNamespace(worker=SimpleNamespace(converters={}, max_record_bytes=1 << 20), connector=connector)
    settings: Any = SimpleNamespace(client={}, isolation="read_uncommitted", errors=ErrorHandling())
    job = java_sink_job(context, settings, Cut(converted=frozenset({"value"})))
    in_time = 3600.0  # without it, a split ends after four seconds, which is too early on a busy machine
    result: SinkResult = SinkSplit(job, "t", 0, 0, 512, expected_seconds=in_time).run()
    assert result.failure is None
    assert result.records == result.next_offset == read[0] == 28  # 8 MiB
    assert sum(len(batch) for batch in result.messages[0]) == 28
    (outcome,) = pickle.loads(pickled_outcomes([Outcome(result)], 17 << 20))
    assert outcome.error is None


@pytest.mark.parametrize(("connector", "worker", "value"), [
    ({}, {}, b"q-0-7"),
    ({"header.converter": JSON, "header.converter.schemas.enable": "false"}, {}, b'"q-0-7"'),
    ({}, {"header.converter": JSON, "header.converter.schemas.enable": "false"}, b'"q-0-7"'),
    ({"header.converter": "com.acme.InAJar"}, {}, None),
])
def test_a_replayed_record_is_marked_for_the_header_converter_of_the_connector(
    connector: dict[str, str], worker: dict[str, str], value: bytes | None
) -> None:
    """It runs in the host: heeler gives it the header as bytes."""
    context: Any = SimpleNamespace(
        worker=SimpleNamespace(converters={"key.converter": JSON, **worker}, max_record_bytes=1 << 20),
        connector={"value.converter": JSON, "transforms": "a", "transforms.a.type": "com.acme.Transform", **connector})
    settings: Any = SimpleNamespace(client={}, isolation="read_uncommitted", errors=ErrorHandling())
    pipeline = pickle.loads(java_replay_job(context, settings, None)).pipeline
    assert pipeline.header_of("t", "heeler.replay.of", "q-0-7") == value
    raw = pa.RecordBatch.from_pylist([{"offset": 3, "timestamp": 5, "key": b"{", "value": b"any"}], RAW_SCHEMA)
    (batch,) = pipeline.to_connect_by_schema("t", 0, raw)
    assert (batch.column("value").to_pylist(), batch.column("cut.key").to_pylist()) == ([b"any"], [b"{"])


def test_each_piece_of_a_batch_is_returned_without_the_others() -> None:
    """Where tombstones and records alternate, each is a piece, and was sent with the whole batch."""
    whole = pa.record_batch({"value": pa.array([b"x" * 1000] * 100)})
    pieces = ReturningWriter().write(iter([whole.slice(n, 1) for n in range(100)]))
    assert [piece.column(0).to_pylist() for piece in pieces] == [[b"x" * 1000]] * 100
    assert len(pickle.dumps(pieces)) < 3 * whole.nbytes
