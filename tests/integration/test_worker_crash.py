"""A worker that moves data in both directions is killed repeatedly: lost and duplicate records are counted."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from heeler.cli.support.worker_process import WorkerProcess
from spark_tasks.connectors.verify import read_summary
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, READY_S, Rig, processes_of, wait_gone, worker_settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KILLS = 2
CHUNK = 50_000  # lines that are there each time
WIDTH = 20  # bytes of a line
RATE, STREAMS, NUMBERS = 2_000, 2, 50_000  # not all is there before the last kill, however slow Spark's start is
SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The numbers as runs of consecutive ones, first and last."""
    array = pa.array(numbers, pa.int64())
    ends = pc.indices_nonzero(pc.not_equal(pc.pairwise_diff(array).fill_null(1), 1)).to_pylist()
    edges = [0, *ends, len(numbers)]
    return [(numbers[a], numbers[b - 1]) for a, b in pairwise(edges)]


def assert_resumed(found: Sequence[tuple[int, int]], total: int) -> int:
    """Each run but the first starts where the one before ended, or before that: nothing is lost.

    Returns how often it started again.
    """
    assert found[0][0] == 0, found
    assert max(last for _, last in found) == total - 1, found
    for before, after in pairwise(found):
        assert after[0] <= before[1] + 1, found
    return len(found) - 1


def position(rig: Rig, offsets_topic: str, connector: str) -> int:
    """What the offsets topic says of the file source."""
    mine = [m for m in rig.kafka.messages(offsets_topic) if json.loads(m.key())[0] == connector]
    return json.loads(mine[-1].value())["position"] if mine else 0


def test_sources_and_sinks_recover_from_a_killed_worker(kafka, tmp_path, topic_name):
    lines, numbers = f"{topic_name}-lines", f"{topic_name}-numbers"
    kafka.create(lines)
    kafka.create(numbers, 2)
    into, out, parquet, sums = (tmp_path / name for name in ("in.txt", "out.txt", "parquet", "sums"))
    connectors = {
        "lines-in": {"connector.class": "FileStreamSource", "file": str(into), "topic": lines},
        "lines-out": {"connector.class": "FileStreamSink", "file": str(out), "topics": lines},
        "numbers-in": {"connector.class": "datagen", "topic": numbers, "streams": str(STREAMS), "rate": str(RATE),
                       "records": str(NUMBERS), **SCHEMALESS},
        "numbers-out": {"connector.class": "parquet", "tasks.max": "2", "topics": numbers, "path": str(parquet),
                        "kafka.columns": "true", **SCHEMALESS},
        "numbers-checked": {"connector.class": "verify", "topics": numbers, "path": str(sums), **SCHEMALESS},
    }
    settings = worker_settings(kafka.servers, topic_name, heeler_spark_start_delay_ms="0")
    worker = WorkerProcess(tmp_path, settings)
    rig = Rig(worker, kafka, tmp_path)
    bound = 0  # of lines twice in the topic: what was there and not committed when the worker died
    try:
        for turn in range(KILLS + 1):
            with into.open("a") as file:
                file.writelines(f"{n:0{WIDTH - 1}d}\n" for n in range(turn * CHUNK, (turn + 1) * CHUNK))
            before = kafka.end(lines), kafka.end(numbers), lines_of(out)
            worker.start()
            worker.wait_ready(READY_S)
            if turn == 0:
                for name, config in connectors.items():
                    rig.create(name, config)
            if turn == KILLS:
                rig.create("numbers-in", {**connectors["numbers-in"], "rate": "0"})
                break
            wait_until(lambda: kafka.end(lines) > before[0] and kafka.end(numbers) > before[1]  # noqa: B023
                       and lines_of(out) > before[2], 170, "data in all directions")  # noqa: B023
            family = processes_of(worker)
            worker.kill()
            wait_gone(family)
            bound += kafka.end(lines) - position(rig, f"{topic_name}-offsets", "lines-in") // WIDTH
        total = (KILLS + 1) * CHUNK
        twice = check_lines(rig, lines, out, total)
        assert twice <= bound
        check_numbers(rig, numbers, parquet, sums)
        assert worker.stop() == 128 + signal.SIGTERM or worker.exit_code() in (0, None)
    finally:
        worker.kill()


def lines_of(file):
    return file.stat().st_size // WIDTH if file.exists() else 0


def check_lines(rig, topic, out, total):
    """All lines are in the topic and in the file, each turn in order; answers how many are twice in the topic."""
    wait_until(lambda: rig.kafka.committed("connect-lines-out").get((topic, 0), 0) == rig.kafka.end(topic) >= total
               and position(rig, f"{rig.process.properties['offset.storage.topic']}", "lines-in") == total * WIDTH,
               120, "all lines")
    sent = [int(value) for value in rig.kafka.values(topic)]
    assert assert_resumed(runs(sent), total) <= KILLS
    written = [int(line) for line in out.read_text().splitlines()]
    at = {}
    place = []  # the file's lines as offsets of the topic: a duplicate in the topic is not a duplicate of the sink
    for offset, value in enumerate(sent):
        at.setdefault(value, []).append(offset)
    expected = 0
    for value in written:
        if expected >= len(sent) or sent[expected] != value:  # begun anew, at the last place that fits
            expected = max((o for o in at[value] if o <= expected), default=at[value][0])
        place.append(expected)
        expected += 1
    assert assert_resumed(runs(place), len(sent)) <= KILLS, (len(sent), runs(sent), runs(written))
    return len(sent) - total


def check_numbers(rig, topic, parquet, sums):
    wait_until(lambda: read_summary(sums).to_json()["records"] >= STREAMS * NUMBERS
               and all(s.highest == NUMBERS - 1 for s in read_summary(sums).streams.values()), 120, "all numbers")
    # The end is asked for each time: what was not committed at the last kill may still be on its way a second time.
    def committed():  # the broker is shared, and other tests' connectors may have had that name
        places = rig.kafka.committed("connect-numbers-out").items()
        return sum(offset for (of, _), offset in places if of == topic)

    wait_until(lambda: committed() == rig.kafka.end(topic), 120, "all rows")
    records = rig.kafka.end(topic)
    assert read_summary(sums).to_json()["missing"] == 0
    table = pq.read_table(parquet)
    assert table.num_rows == records
    places = table.select(["_partition", "_offset"]).group_by(["_partition", "_offset"]).aggregate([])
    assert places.num_rows == records  # each record once
