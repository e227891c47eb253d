"""The sink that counts the numbered records of datagen: those missing, duplicate or out of order."""

from __future__ import annotations

import json
import os
import pickle
import threading
from pathlib import Path

import pytest

from spark_tasks.connectors.datagen import DatagenSourceConnector
from spark_tasks.connectors.intervals import SequenceSummary
from spark_tasks.connectors.verify import VerifySinkConnector, read_summary
from spark_tasks.errors import DataError
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from tests.rigs.raw_records import JSON, converted, raw_batch, worker

WORKER = worker(**{"value.converter": JSON, "value.converter.schemas.enable": "false"})


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
    messages = [pickle.loads(pickle.dumps(writer)).write(iter([converted(pipeline, "t", 0, raw)])) for raw in raws]
    writer.commit([*messages, None])
    return read_summary(folder).to_json()


def test_verify_finds_all_records_of_datagen(tmp_path):
    config = {"topic": "t", "streams": "2", "records": "1000", "payload.bytes": "5"}
    (options,) = DatagenSourceConnector(config, None).task_configs(1)
    reader = DatagenSourceConnector.data_source(options).streamReader(None)
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
