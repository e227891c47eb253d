"""Latency of a running worker, after its first record: a record each 100 ms through a source and through a sink.

    python -m tests.benchmarks.bench_latency [--seconds 30]

Prints p50 and p99 from the write of a line until a consumer has the record (exactly once: one that reads committed
records, `transaction.boundary=poll`), and from the send of a record until its line is in the sink's file. Exactly once,
also how long the ends of the transactions took: offsets written and flushed, EndTxn answered.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.rigs.workers import Kafka, Rig, running_worker

PACE_S = 0.1
LATE_S = 60.0
ENDS = "spark_tasks.sources.transactional"
SETTINGS = {"group.min.session.timeout.ms": "500"}  # for the sessions of worker_settings
CONFIG = {"tasks.max": "1"}


def stamp() -> str:
    return f"{time.monotonic_ns()}"


def since(stamped: str | bytes) -> float:
    return (time.monotonic_ns() - int(stamped)) / 1e6


def paced(count: int, send: Callable[[str], object]) -> None:
    """Sends so many stamps, in a thread."""

    def body() -> None:
        begun = time.monotonic()
        for n in range(count):
            time.sleep(max(0.0, begun + n * PACE_S - time.monotonic()))
            send(stamp())

    threading.Thread(target=body, daemon=True).start()


def source(rig: Rig, count: int) -> list[float]:
    topic = rig.kafka.create("lines")
    file = rig.folder / "lines.txt"
    file.touch()
    with file.open("a", buffering=1) as out:
        consumer = Consumer({"bootstrap.servers": rig.kafka.servers, "group.id": topic, "enable.auto.commit": False,
                             "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        rig.create("source", {**CONFIG, "connector.class": "FileStreamSource", "topic": topic, "file": str(file)},
                   ["RUNNING", "RUNNING"])
        out.write(f"{stamp()}\n")
        found: list[float] = []
        deadline = time.monotonic() + count * PACE_S + LATE_S
        while len(found) <= count and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(since(message.value() or b""))
                if len(found) == 1:  # Spark is up, its Python workers are warm
                    paced(count, lambda text: out.write(f"{text}\n"))
        consumer.close()
    return found[1:]


def sink(rig: Rig, count: int) -> list[float]:
    topic = rig.kafka.create("records")
    file = rig.folder / "records.txt"
    producer = Producer({"bootstrap.servers": rig.kafka.servers, "linger.ms": 0})
    rig.create("sink", {**CONFIG, "connector.class": "FileStreamSink", "topics": topic, "file": str(file)},
               ["RUNNING", "RUNNING"])

    def send(text: str) -> None:
        producer.produce(topic, text)
        producer.poll(0)

    send(stamp())
    found: list[float] = []
    seen = 0
    deadline = time.monotonic() + count * PACE_S + LATE_S
    while len(found) <= count and time.monotonic() < deadline:
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        found += [since(line) for line in lines[seen:]]
        if seen == 0 and lines:
            paced(count, send)
        seen = len(lines)
        time.sleep(0.001)
    return found[1:]


def tell(name: str, found: list[float], count: int) -> None:
    cuts = statistics.quantiles(found, n=100)
    print(f"{name}: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms, {len(found)} of {count}", flush=True)  # noqa: T201


def ends_of_transactions(rig: Rig) -> list[float]:
    return [float(ms) for ms in re.findall(r"Committed \d+ offsets in ([\d.]+) ms", rig.process.log.read_text())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    count = int(parser.parse_args().seconds / PACE_S)
    kinds = {"at least once": "disabled", "exactly once": "enabled"}
    for kind, support in kinds.items():
        with tempfile.TemporaryDirectory() as name, EmbeddedBroker(settings=SETTINGS) as broker:
            folder = Path(name)
            more = {"exactly_once_source_support": support}
            with running_worker(Kafka(broker.bootstrap_servers), folder, "latency", **more) as rig:
                rig.call("PUT", f"/admin/loggers/{ENDS}", {"level": "DEBUG"})
                tell(f"source, {kind}", source(rig, count), count)
                rig.tidy()
                if support == "disabled":
                    tell("sink", sink(rig, count), count)
                else:
                    tell("ends of transactions", ends_of_transactions(rig), count)


if __name__ == "__main__":
    main()
