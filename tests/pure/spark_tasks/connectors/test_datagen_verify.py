import json
import os
import pickle
import threading
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_tasks.connectors.datagen import DatagenSourceConnector
from spark_tasks.connectors.intervals import SequenceSummary
from spark_tasks.connectors.verify import VerifySinkConnector, read_summary
from spark_tasks.errors import ConnectError, DataError
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from tests.pure.spark_tasks.pipeline.samples import JSON, raw_batch, worker

WORKER = worker(**{"value.converter": JSON, "value.converter.schemas.enable": "false"})


def readers(tasks=1, **options):
    config = {"topic": "t", **{k.replace("_", "."): v for k, v in options.items()}}
    configs = DatagenSourceConnector(config, None).task_configs(tasks)
    return [DatagenSourceConnector.data_source(c).streamReader(None) for c in configs]


def raw_of(reader, start, end):
    pipeline = SourcePipeline(WORKER, {})
    return [
        raw
        for part in reader.partitions(start, end)
        for b in pickle.loads(pickle.dumps(reader)).read(part)
        for _, _, raw in pipeline.to_raw(b)
    ]


def verify(folder, *raws, task=0):
    config = VerifySinkConnector({"path": str(folder)}, None).task_configs(task + 1)[task]
    writer = VerifySinkConnector.data_source(config).writer(None, overwrite=False)
    pipeline = SinkPipeline(WORKER, {})
    messages = [pickle.loads(pickle.dumps(writer)).write(iter([pipeline.to_connect("t", 0, raw)])) for raw in raws]
    writer.commit([*messages, None])
    return read_summary(folder).to_json()


def test_verify_finds_all_records_of_datagen(tmp_path):
    (reader,) = readers(streams="2", records="1000", payload_bytes="5")
    end = reader.latestOffset(reader.initialOffset())
    assert end == {"0": 1000, "1": 1000}
    raws = raw_of(reader, reader.initialOffset(), end)
    assert raws[0].column("key")[0].as_py() == b"0"
    value = json.loads(raws[0].column("value")[7].as_py())
    assert (value["stream"], value["sequence"], value["payload"]) == (0, 7, "xxxxx")
    found = verify(tmp_path, *raws)
    assert {k: found[k] for k in ("records", "duplicates", "disorder", "missing")} == {
        "records": 2000, "duplicates": 0, "disorder": 0, "missing": 0,
    }  # fmt: skip
    assert reader.latestOffset(end) == end


def numbers(*sequences):
    return raw_batch([b'{"stream":0,"sequence":%d}' % n for n in sequences])


@pytest.mark.parametrize(("batches", "expected"), [
    ([(0, 1, 2), (3, 4)], (5, 0, 0, 0)),
    ([(0, 1), (3, 4)], (4, 0, 0, 1)),
    ([(0, 1, 2), (1, 2, 3)], (6, 2, 1, 0)),
    ([(0, 1, 2), (0, 1, 2)], (6, 3, 0, 0)),
    ([(2, 3), (0, 1)], (4, 0, 1, 0)),
    ([(0, 2, 1)], (3, 0, 1, 0)),
])  # fmt: skip
def test_duplicate_missing_and_disordered_records_are_counted(tmp_path, batches, expected):
    for batch in batches:
        found = verify(tmp_path, numbers(*batch))
    assert (found["records"], found["duplicates"], found["disorder"], found["missing"]) == expected


def test_the_summaries_of_several_tasks_are_combined(tmp_path):
    verify(tmp_path, numbers(0, 1, 2), task=0)
    found = verify(tmp_path, numbers(2, 3), task=1)
    assert (found["records"], found["duplicates"], found["missing"]) == (5, 1, 0)


@pytest.mark.parametrize("step", ["read", "write", "link"])
def test_two_tasks_that_write_one_summary_lose_no_records(tmp_path, monkeypatch, step):
    """A worker is suspended before a step of its commit, while another one has the task and commits."""
    verify(tmp_path, numbers(0))
    owner, name = {"read": (SequenceSummary, "from_json"), "write": (Path, "write_text"), "link": (os, "link")}[step]
    run, others = getattr(owner, name), [numbers(2), numbers(3)]

    def suspended(*arguments, **keywords):
        if others:
            other = threading.Thread(target=verify, args=(tmp_path, others.pop(0)))
            other.start()
            other.join(10)
        return run(*arguments, **keywords)

    monkeypatch.setattr(owner, name, suspended)
    verify(tmp_path, numbers(1))
    assert read_summary(tmp_path).to_json()["records"] == 4
    assert len(list(tmp_path.iterdir())) == 2, "the summary, and its newest version"


def test_records_without_a_sequence_are_refused(tmp_path):
    with pytest.raises(DataError, match="sequence"):
        verify(tmp_path, raw_batch([b'{"a":1}']))


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


def test_invalid_offsets_are_refused():
    with pytest.raises(ConnectError):
        DatagenSourceConnector.alter_offsets({}, [({"stream": 0}, {"sequence": -1})])
    assert DatagenSourceConnector.alter_offsets({}, [({"stream": 0}, None), ({"stream": 0}, {"sequence": 3})])
