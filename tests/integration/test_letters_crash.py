"""An exactly-once sink whose worker is killed again and again has each record once, or its letter once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from heeler.cli.support.worker_process import WorkerProcess
from tests.rigs.support import wait_until
from tests.rigs.topic_reader import read_topic
from tests.rigs.workers import JSON, READY_S, Kafka, Rig, processes_of, wait_gone, worker_settings

pytestmark = pytest.mark.integration

KILLS = 3
RECORDS = 20_000
BATCH = 250  # records of a partition, of which 25 are bad


def test_a_killed_worker_writes_each_letter_once_without_context_headers(
    kafka: Kafka, tmp_path: Path, topic_name: str
) -> None:
    """It is killed when letters of a batch have just arrived, often before the sink has committed the batch."""
    queue, out = f"{topic_name}-dead", tmp_path / "parquet"
    kafka.create(topic_name, 2)
    kafka.create(queue)
    for partition in (0, 1):
        kafka.send(topic_name, [f"{{{n}" if n % 20 >= 18 else f'{{"n": {n}}}' for n in range(partition, RECORDS, 2)],
                   partition=partition)
    worker = WorkerProcess(tmp_path, worker_settings(kafka.servers, topic_name, heeler_spark_start_delay_ms="0"))
    try:
        for turn in range(KILLS + 1):
            worker.start()
            worker.wait_ready(READY_S)
            if turn == 0:
                Rig(worker, kafka, tmp_path).create("numbers", {
                    "connector.class": "parquet", "tasks.max": "2", "topics": topic_name, "path": str(out),
                    "value.converter": JSON, "value.converter.schemas.enable": "false", "kafka.columns": "true",
                    "errors.tolerance": "all", "errors.deadletterqueue.topic.name": queue,
                    "errors.deadletterqueue.topic.replication.factor": "1",
                    "consumer.override.max.poll.records": str(BATCH),
                })
            if turn == KILLS:
                break
            written = kafka.end(queue)
            wait_until(lambda: kafka.end(queue) > written + 4 * BATCH // 10, 60, "more letters")  # noqa: B023
            family = processes_of(worker)
            worker.kill()
            wait_gone(family)
        wait_until(lambda: kafka.committed("connect-numbers") == {
            (topic_name, partition): RECORDS // 2 for partition in (0, 1)}, 120, "all records")
        rows = Counter(number for file in out.glob("*.parquet")
                       for number in pq.read_table(file, columns=["n"]).column("n").to_pylist())
        assert rows == Counter(n for n in range(RECORDS) if n % 20 < 18)
        letters = Counter(message.value() for message in read_topic(kafka.servers, queue))
        assert letters == Counter(b"{%d" % n for n in range(RECORDS) if n % 20 >= 18)
    finally:
        worker.kill()
