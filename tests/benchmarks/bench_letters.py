"""The cost of bad records in an exactly-once sink with a dead letter queue: 0, 1 and 1,000 in 1,000,000, beside a real
broker.

    python -m tests.benchmarks.bench_letters [--records 1000000] [--rounds 3]

Whole tasks of the parquet sink (bench_bad_records' JSON and three transforms, bad by their JSON), in this process and
without Spark, in batches of 50,000 records. The first line is the same task without a queue and without bad records.
Letters are written once, with context headers (ADR 0045) and without (ADR 0054). Thousands of records a second of
this process's CPU time, and of time, from the end of the first batch to that of the last; the shares are of the first
line's in the same round, the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from typing_extensions import override

from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.task_clients import connection_settings
from spark_tasks.task import Progress
from tests.benchmarks.bench_bad_records import BATCH, CONFIG, WORKER, bad_rows, raw
from tests.rigs.task_rigs import TaskRig
from tests.rigs.tasks import Loop, context_of

QUEUE = "errors.deadletterqueue."
HEADERS = f"{QUEUE}context.headers.enable"
KINDS = {"none": {}, "headers": {HEADERS: "true"}, "no headers": {HEADERS: "false"}}
RUNS = (("none", 0), *((kind, bad) for kind in ("headers", "no headers") for bad in (0, 1, 1000)))


class Watch(Loop):
    """A loop that notes the times of its batches: the process's CPU time and time."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[tuple[float, float]] = []

    @override
    def _step(self, progress: Progress) -> None:
        if progress.records:
            self.times.append((time.process_time(), time.perf_counter()))
        super()._step(progress)


def produce(rig: TaskRig, count: int, bad: int) -> str:
    """A topic with these records."""
    topic = f"{rig.topic}-{bad}"
    rig.make_topic(topic=topic)
    appender = Appender(shared_cluster(connection_settings({"bootstrap.servers": rig.bootstrap})), None)
    for batch in raw(count, bad_rows(count, bad) if bad else set(), "json"):
        appender.append(topic, 0, batch)
    appender.flush()
    appender.close()
    return topic


def run(rig: TaskRig, topic: str, kind: str, bad: int, number: int, count: int) -> tuple[float, float]:
    """Thousands of records a second of CPU time, and of time."""
    name = f"{topic}-{kind.replace(' ', '-')}-{number}"
    errors = {} if kind == "none" else {
        "errors.tolerance": "all", f"{QUEUE}topic.name": f"dead-{name}", f"{QUEUE}topic.replication.factor": "1",
        **KINDS[kind],
    }  # fmt: skip
    connector = {key: value for key, value in CONFIG.items() if key != "topic"} | errors | {
        "name": name, "connector.class": "parquet", "topics": topic, "path": str(rig.notes.path / name),
        "consumer.override.max.poll.records": str(BATCH),
    }  # fmt: skip
    loop = Watch()
    context = context_of(rig.engine, {**rig.worker, **WORKER}, connector, loop.wake)
    rig.run(context, loop)
    loop.await_records(count, 120)
    loop.stop()
    assert (context.metrics.skipped, context.metrics.letters) == (bad, bad)
    (first_cpu, first), (last_cpu, last) = loop.times[0], loop.times[-1]
    measured = (count - loop.batches[0][1].records) / 1000
    return measured / (last_cpu - first_cpu), measured / (last - first)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates = defaultdict[tuple[str, int], list[tuple[float, float]]](list)
    kept = {"log.retention.ms": "-1"}  # the records are of 1970
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(settings=kept) as broker:
        rig = TaskRig(broker.bootstrap_servers, Path(folder), "letters")
        topics = {bad: produce(rig, options.records, bad) for bad in (0, 1, 1000)}
        run(rig, topics[1000], "headers", 1000, 0, options.records)
        for number in range(1, options.rounds + 1):
            for kind, bad in RUNS:
                rates[kind, bad].append(run(rig, topics[bad], kind, bad, number, options.records))
        rig.close()
        del rig.admin  # librdkafka would print that the broker is gone
    for (kind, bad), found in rates.items():
        text = f"{kind:14} {bad:5} bad:"
        for at, what in enumerate(("of CPU", "of time")):
            share = statistics.median(one[at] / clean[at] for one, clean in zip(found, rates["none", 0], strict=True))
            text += f" {statistics.median(one[at] for one in found):7.0f} {what} ({share:4.0%})"
        print(text)  # noqa: T201


if __name__ == "__main__":
    main()
