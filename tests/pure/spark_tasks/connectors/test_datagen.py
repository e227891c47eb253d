"""Streams of numbered records: rates, limits, offsets."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_tasks.connectors.datagen import DatagenSourceConnector
from spark_tasks.errors import ConnectError


def readers(tasks=1, **options):
    config = {"topic": "t", **{k.replace("_", "."): v for k, v in options.items()}}
    configs = DatagenSourceConnector(config, None).task_configs(tasks)
    return [DatagenSourceConnector.data_source(c).streamReader(None) for c in configs]


def test_limits_are_divided_among_streams_and_offsets_round_trip():
    (reader,) = readers(streams="3")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    assert end == {"0": 4, "1": 3, "2": 3}
    offsets = reader.to_source_offsets(end)
    assert offsets[0] == ({"stream": 0}, {"sequence": 4})
    assert reader.from_source_offsets(offsets) == end
    assert reader.from_source_offsets([]) == {"0": 0, "1": 0, "2": 0}


def test_streams_are_distributed_to_tasks():
    assert [list(r.initialOffset()) for r in readers(2, streams="3")] == [["0", "2"], ["1"]]
    assert [list(r.initialOffset()) for r in readers(3)] == [["0"], ["1"], ["2"]]
    assert len(readers(5, streams="2")) == 2


def test_the_rate_is_respected(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("spark_tasks.connectors.datagen.time.monotonic", lambda: now[0])
    (reader,) = readers(rate="10")
    position = reader.latestOffset({"0": 50})
    assert position == {"0": 50}
    now[0] += 2
    position = reader.latestOffset(position)
    assert position == {"0": 70}
    assert reader.latestOffset(position) == position


def test_records_come_together_at_the_pace_that_was_set(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("spark_tasks.connectors.datagen.time.monotonic", lambda: now[0])
    (reader,) = readers(rate="10", **{"pace.ms": "500"})
    position, found = reader.latestOffset({"0": 0}), []
    for _ in range(5):
        now[0] += 0.25
        position = reader.latestOffset(position)
        found.append(position["0"])
    assert found == [0, 5, 5, 10, 10]


@pytest.mark.parametrize(("payload", "rows"), [(0, 20_000), (50_000, 671), (40_000_000, 1)])
def test_large_payloads_are_generated_in_small_batches(payload, rows):
    """All records of a batch were generated at once: gigabytes, and more than a column holds."""
    (reader,) = readers(payload_bytes=str(payload))
    (part,) = reader.partitions({"0": 5}, {"0": 20_005})
    batch = next(reader.read(part))
    assert len(batch) == rows
    values = batch.column("value")
    assert values.field("sequence").to_pylist() == list(range(5, 5 + rows))
    assert pc.unique(pc.binary_length(values.field("payload"))).to_pylist() == [payload]


def test_invalid_offsets_are_refused():
    with pytest.raises(ConnectError):
        DatagenSourceConnector.alter_offsets({}, [({"stream": 0}, {"sequence": -1})])
    assert DatagenSourceConnector.alter_offsets({}, [({"stream": 0}, None), ({"stream": 0}, {"sequence": 3})])
