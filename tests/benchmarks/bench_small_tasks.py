"""Many small tasks beside Java Kafka Connect, on one broker, and a backfill beside them.

    python -m tests.benchmarks.bench_small_tasks [--harness ../shared/bench] [--connectors 50] [--tasks 10] [--rate 10]
                                                 [--seconds 60] [--backfill 10000000] [--only heeler]

Each connector is a FileStreamSink; each of its tasks has a partition that gets `rate` records a second. Prints, for
each system, from the send of a record until its line is in the file (p50, p99; looked at every 5 ms), the cores of
worker and broker, and when all tasks were RUNNING; the same while one more FileStreamSink works off `backfill`
records; and how fast that was alone, beside the sender of the small tasks' records, which takes CPU time of its own and
of the broker, and beside the small tasks. The harness of docs/benchmarks.md starts broker and
workers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from confluent_kafka import Producer
from kafka.protocol.producer import ProduceRequest

from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.connections import Deadline
from spark_tasks.kafka.records.encode import encode
from tests.benchmarks import harness

LOOK_S = 0.005
READ_BYTES = 1 << 20
SEND_S = 0.02
LATE_S = 120.0
FIRST_S = 10.0
BEHIND_S = 0.5


class Lines:
    """Reads what comes to the files and notes how old each line is. The files stay open: what takes CPU here is missing
    there.
    """

    def __init__(self, files: list[Path]) -> None:
        self._missing = files
        self._open: list[tuple[BinaryIO, bytearray]] = []  # with the start of the next line
        self.ages: list[float] = []
        self.count = 0

    def look(self) -> None:
        """Read on in every file."""
        found = [file for file in self._missing if file.exists()]
        self._missing = [file for file in self._missing if file not in found]
        self._open += [(file.open("rb", buffering=0), bytearray()) for file in found]
        for file, rest in self._open:
            if data := file.read(READ_BYTES):
                now = time.time_ns()
                *whole, rest[:] = (rest + data).split(b"\n")
                self.ages += [(now - int(line)) / 1e6 for line in whole]
                self.count += len(whole)

    def until(self, enough: Any, within: float) -> bool:
        """Look until `enough()`."""
        deadline = time.perf_counter() + within
        while not enough():
            if time.perf_counter() > deadline:
                return False
            self.look()
            time.sleep(LOOK_S)
        return True


class Sender:
    """Sends a time stamp to each partition of each topic, `rate` times a second, evenly spread: a request every 20 ms
    with a record for each partition whose turn it is. (With confluent-kafka each record is a request. A broker serves
    one request of a connection at a time, so that records waited for seconds until they were sent.)
    """

    def __init__(self, bootstrap: str, topics: list[str], partitions: int, rate: float) -> None:
        self._cluster = KafkaCluster(client_settings({"bootstrap.servers": bootstrap}))
        find, io = self._cluster.find_leader, self._cluster.io
        self._leader = {topic: io.run(find, topic, 0, Deadline(30_000)) for topic in topics}[topics[0]]  # one has all
        self._places = [(topic, number) for number in range(partitions) for topic in topics]
        self._per_second = rate * len(self._places)
        self._over = threading.Event()
        self.sent = 0
        self.acknowledged = 0
        self.ages: list[float] = []
        """ms from the send of each record to its acknowledgment."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begun = time.perf_counter()
        while not self._over.wait(SEND_S):
            due = int((time.perf_counter() - begun) * self._per_second)
            while self.sent < due:
                self._send(min(due - self.sent, len(self._places)))

    def _send(self, count: int) -> None:
        at = self.sent % len(self._places)
        topics: dict[str, list[Any]] = defaultdict(list)
        now, data = time.time_ns(), ProduceRequest.TopicProduceData
        row = pa.record_batch({"key": pa.array([None], pa.binary()), "value": pa.array([str(now).encode()])})
        record = encode(row, no_timestamp=now // 1_000_000)[0].data
        for topic, number in (self._places + self._places)[at : at + count]:
            topics[topic].append(data.PartitionProduceData(index=number, records=record))
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, min_version=9, max_version=9,
                                 topic_data=[data(name=name, partition_data=of) for name, of in topics.items()])
        self.sent += count
        self._cluster.io.start(self._exchange, request, now, count)

    async def _exchange(self, request: Any, now: int, count: int) -> None:
        response = await self._cluster.io.send(request, self._leader, lane="small")
        if any(part.error_code for topic in response.responses for part in topic.partition_responses):
            raise AssertionError(response)
        self.ages += [(time.time_ns() - now) / 1e6] * count
        self.acknowledged += count

    def stop(self) -> None:
        """All that was sent is with the broker."""
        self._over.set()
        self._thread.join()
        deadline = time.monotonic() + 30
        while self.acknowledged < self.sent:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.sent - self.acknowledged} records were not acknowledged")
            time.sleep(LOOK_S)
        self._cluster.close()


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 500_000,
                         "queue.buffering.max.messages": 1_000_000})  # fmt: skip
    value = b"x" * 80
    for i in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=i & 1)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(120)


def quantiles(ages: list[float]) -> str:
    """p50 / p99 / max."""
    if len(ages) < 2:
        return "none"
    cuts = statistics.quantiles(ages, n=100)
    return f"{cuts[49]:.0f} / {cuts[98]:.0f} / {max(ages):.0f}"


class Run:
    """One system."""

    def __init__(self, rigs: Any, workloads: Any, rig: Any, system: Any, asked: argparse.Namespace) -> None:
        self._rigs, self._workloads, self._rig, self._asked = rigs, workloads, rig, asked
        self._label = system.label
        self._worker = rig.worker(system, rig.new_group()).start()
        self._worker.wait_ready()

    def _create(self, name: str, topic: str, tasks: int) -> Path:
        file: Path = self._worker.directory / f"{name}.txt"
        self._workloads.create(self._worker.rest, name, {
            "connector.class": self._workloads.SINK, "topics": topic, "file": str(file), "tasks.max": str(tasks),
            **self._workloads.STRING})  # fmt: skip
        return file

    def _backfill(self, name: str) -> float:
        """Records a second, from the POST on; 0 if that took LATE_S."""
        name = f"{self._label}-{name}"  # its consumer group must be new
        begun = time.perf_counter()
        file = self._create(name, "backfill", 1)
        size, deadline = self._asked.backfill * 81, begun + LATE_S
        while not file.exists() or file.stat().st_size < size:
            if time.perf_counter() > deadline:
                return 0.0
            time.sleep(0.01)
        rate: float = self._asked.backfill / (time.perf_counter() - begun)
        self._workloads.delete(self._worker.rest, name)
        file.unlink()
        return rate

    def _tell(self, what: str, figure: object) -> None:
        sys.stdout.write(f"| {self._label} | {what} | {figure} |\n")
        sys.stdout.flush()

    def measure(self, topics: list[str], unread: list[str]) -> None:
        asked = self._asked
        self._backfill("warm")
        self._tell("backfill alone, records/s", f"{self._backfill('alone'):,.0f}")
        sender = Sender(self._rig.bootstrap, unread, asked.tasks, asked.rate)
        self._tell("backfill beside the sender of their records, records/s", f"{self._backfill('sender'):,.0f}")
        sender.stop()
        begun = time.perf_counter()
        files = [self._create(f"{self._label}-small-{i}", topic, asked.tasks) for i, topic in enumerate(topics)]
        wanted = asked.connectors * asked.tasks
        self._workloads.wait_for(lambda: self._workloads.running(self._worker.rest, asked.connectors, asked.tasks), 300,
                                 "RUNNING")  # fmt: skip
        self._tell(f"{wanted} tasks RUNNING after the first POST, s", f"{time.perf_counter() - begun:.1f}")
        lines, sender = Lines(files), Sender(self._rig.bootstrap, topics, asked.tasks, asked.rate)
        begun, rate = time.perf_counter(), wanted * asked.rate
        lines.until(lambda: False, FIRST_S)  # else there is too little to be late with
        lines.until(lambda: lines.count > sender.sent - BEHIND_S * rate, asked.patience)
        self._tell(f"then all within {BEHIND_S} s of the end after, s", f"{time.perf_counter() - begun:.1f}")
        sender.ages.clear()
        self._window("small tasks", lines, asked.seconds)
        self._tell("their acknowledgments: p50 / p99 / max, ms", quantiles(sender.ages))
        rates: list[float] = []
        beside = threading.Thread(target=lambda: rates.append(self._backfill("beside")), daemon=True)
        beside.start()
        self._window("small tasks beside the backfill", lines, None, beside)
        self._tell("backfill beside them, records/s", f"{rates[0]:,.0f}")
        sender.stop()
        if not lines.until(lambda: lines.count >= sender.sent, LATE_S) or lines.count != sender.sent:
            self._tell("WRONG RECORDS", f"{lines.count} lines of {sender.sent} records")

    def _window(self, what: str, lines: Lines, seconds: float | None, other: threading.Thread | None = None) -> None:
        lines.ages.clear()
        meter = self._rigs.Meter(self._rig, [self._worker])
        lines.until(lambda: other is not None and not other.is_alive(), LATE_S if seconds is None else seconds)
        cores = meter.stop()
        self._tell(f"{what}: p50 / p99 / max, ms", quantiles(lines.ages))
        self._tell(f"{what}: cores of worker / broker / others", " / ".join(
            f"{cores[f'cores_{party}']:.2f}" for party in ("worker", "broker", "other")))  # fmt: skip


def main() -> int:
    """Print a table."""
    parser = harness.arguments(__doc__, 29290)
    parser.add_argument("--connectors", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--backfill", type=int, default=10_000_000)
    parser.add_argument("--patience", type=float, default=180.0, help="s until all have to be caught up")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    rigs, workloads, rig = harness.load(asked)
    systems = [rig.java_system(), harness.heeler(rigs)]
    try:
        rig.start_broker()
        workloads.create_topic(rig, "backfill", 2)
        fill(rig.bootstrap, "backfill", asked.backfill)
        for system in systems:
            if asked.only not in ("", system.label):
                continue
            topics, unread = ([f"{system.label}-{kind}-{i}" for i in range(asked.connectors)]
                              for kind in ("small", "unread"))
            for topic in topics + unread:
                workloads.create_topic(rig, topic, asked.tasks)
            rig.wait_quiet(asked.quiet)
            Run(rigs, workloads, rig, system, asked).measure(topics, unread)
            rig.stop_workers()
    finally:
        rig.stop(keep=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
