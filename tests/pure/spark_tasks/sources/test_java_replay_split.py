"""What an executor makes of a range of a Java source's dead letter queue."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.data.host_records import CutRecords
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.letters import PREFIX
from spark_tasks.dead_letters.replay.letter_range import LetterRange
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.dead_letters.replay.request import ReplayOrder
from spark_tasks.dead_letters.source_letters import JAVA_RECORD, produced_header, record_header
from spark_tasks.pipeline.handover import JavaSourcePipeline
from spark_tasks.sources import java_replay_split
from spark_tasks.sources.java_replay_split import (
    HostRecords,
    JavaReplayJob,
    JavaReplayResult,
    JavaSourceReplaySplit,
    NewLetters,
)
from spark_tasks.sources.java_source_split import JavaSourceJob, JavaSourceSplit
from tests.rigs.raw_records import JSON, raw_batch, worker

ERRORS = ErrorHandling("c", tolerant=True, queue="dead", with_headers=True)
CAST = {"transforms": "cast", "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "int32"}
Header = tuple[str, bytes | None]


def text(value: int) -> str:
    fields = {"from": None, "at": None, "topic": "t", "partition": None, "timestamp": None, "key": [None],
              "value": [["int32", value]], "headers": []}
    return json.dumps(fields)


def chain(**config: str) -> JavaSourceJob:
    """Python's part of a chain."""
    return JavaSourceJob(JavaSourcePipeline(worker(), {"value.converter": JSON, "value.converter.schemas.enable":
                                                       "false", **config}, {"key", "value"}), ERRORS)


def queue(*headers: list[Header], connector: str = "c") -> pa.RecordBatch:
    context = [(f"{PREFIX}connector.name", connector.encode()), (f"{PREFIX}topic", b"t")]
    return raw_batch([b"v"] * len(headers), offset=100, headers=[[*context, *own] for own in headers])


def replayed(
    monkeypatch: pytest.MonkeyPatch, read: pa.RecordBatch, of: JavaSourceJob | None = None, **order: Any
) -> JavaReplayResult:
    monkeypatch.setattr(java_replay_split, "shared_cluster", lambda _: None)
    monkeypatch.setattr(java_replay_split, "read_range", lambda *_, **__: iter([read]))
    part = LetterRange("dead", 0, 100, 100 + len(read), ReplayOrder.of(order), ReplayedOffsets(), 100)
    return JavaSourceReplaySplit(pickle.dumps(JavaReplayJob(ERRORS, of)), part).run()


def shown(result: JavaReplayResult) -> list[Any]:
    found: list[Any] = []
    for part in result.parts:
        if isinstance(part, HostRecords):
            found.append([(offset, json.loads(one)["value"][0][1]) for offset, one in part.texts])
        elif isinstance(part, NewLetters):
            found.append(("letters", part.raw.column("value").to_pylist()))
        else:
            partitions = None if part.partitions is None else part.partitions.to_pylist()
            found.append((part.topic, partitions, part.raw.column("value").to_pylist()))
    return found


def at_the_cut(*values: bytes) -> list[list[Header]]:
    """The headers of the letters of records that Python's part, which casts them, has refused."""
    none, zeros = np.full(len(values), -1, np.int32), np.zeros(len(values), np.int32)
    schemas = ('{"type":"string","optional":false}',)
    records = CutRecords(("t",), zeros, none, raw_batch(list(values)), none, zeros, schemas)
    split = JavaSourceSplit(pickle.dumps(chain(**CAST)), records)
    [(_, letters)] = split.run().letters
    return [[(pair["key"], pair["value"]) for pair in row if pair["key"].startswith("heeler")]
            for row in letters.column("headers").to_pylist()]


def test_records_of_the_host_and_those_to_be_written_are_returned_in_the_order_of_the_queue(monkeypatch):
    read = queue([(JAVA_RECORD, text(1).encode())], [(JAVA_RECORD, text(2).encode())], [*produced_header(3)],
                 [(JAVA_RECORD, text(4).encode())], [])
    result = replayed(monkeypatch, read)
    assert shown(result) == [[(100, 1), (101, 2)], ("t", [3], [b"v"]), [(103, 4)]]
    assert (result.counts.scanned, result.counts.chosen, result.counts.foreign) == (5, 4, 1)
    dry = replayed(monkeypatch, read, dry_run=True)
    assert (dry.parts, dry.counts.chosen) == ((), 4)


@pytest.mark.parametrize("header", [b"", b"[", b"[" * 100_000, b"{}", b'["topic"]', b"\xff", None])
def test_a_header_that_is_no_record_of_the_host_is_not_replayed(monkeypatch, header):
    result = replayed(monkeypatch, queue([(JAVA_RECORD, header)]))
    assert (result.parts, result.counts.foreign) == ((), 1)
    of_another = replayed(monkeypatch, queue([(JAVA_RECORD, text(1).encode())], connector="other"))
    assert of_another.counts.foreign == 1


def test_a_letter_of_pythons_part_passes_that_part_again(monkeypatch):
    headers = at_the_cut(b'"1"', b'"two"', b'"2.5"')
    assert len(headers) == 2
    read = queue(*headers)
    result = replayed(monkeypatch, read, chain(**{**CAST, "transforms.cast.spec": "float64"}))
    assert shown(result) == [("t", None, [b"2.5"]), ("letters", [b'"two"'])]
    assert (result.counts.chosen, result.refused.count, result.refused.letters) == (2, 1, 0)
    again = [(pair["key"], pair["value"]) for part in result.parts if isinstance(part, NewLetters)
             for pair in part.raw.column("headers").to_pylist()[0]]
    assert [one for one in again if one[0] == "heeler.letter.record"] == headers[0]
    assert replayed(monkeypatch, read).counts.foreign == 2, "the connector has no such part any more"


def test_a_record_of_other_columns_than_those_at_the_cut_is_not_replayed(monkeypatch):
    odd = pa.RecordBatch.from_pydict({"topic": ["t"], "value": ["x"], "odd": [1]})
    result = replayed(monkeypatch, queue([*record_header(odd, 0, 10_000)]), chain(**CAST))
    assert (result.parts, result.counts.foreign) == ((), 1)
