"""How long a task pauses whose executor process is killed (kill -9), while another connector keeps the machine busy.

    python -m tests.benchmarks.bench_executor_kill [--kills 20] [--rate 2000]

A FileStreamSink gets `rate` records a second in one partition, a datagen source writes as fast as it can. Every few
seconds all executor processes that use a CPU are killed. Prints from each kill until the sink's next line, and how old
lines are: over all, and the oldest one after a kill. Nothing may be missing in the end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
from confluent_kafka import Producer

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.benchmarks.bench_small_tasks import Lines, quantiles
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, Kafka, Rig, processes_of, running_worker

BETWEEN_S = 4.0
LOOK_S = 0.002
TIMEOUT_S = 60.0
BUSY_S = 0.02  # of CPU, between two looks
STRING = {f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")}


def send(servers: str, topic: str, rate: float, over: threading.Event, sent: list[int]) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 2})
    begun = time.perf_counter()
    while not over.wait(LOOK_S):
        while sent[0] < (time.perf_counter() - begun) * rate:
            producer.produce(topic, str(time.time_ns()))
            sent[0] += 1
        producer.poll(0)
    producer.flush(30)


def executors(rig: Rig) -> dict[psutil.Process, float]:
    """The processes that run splits, and the CPU that each has used."""
    found = {}
    for process in processes_of(rig.process):
        with suppress(psutil.NoSuchProcess):
            if "spark_tasks.spark" in " ".join(process.cmdline()) and not process.children():
                times = process.cpu_times()
                found[process] = times.user + times.system
    return found


def kill_the_busy(rig: Rig) -> int:
    before = executors(rig)
    time.sleep(0.2)
    busy = [process for process, used in executors(rig).items() if used - before.get(process, 0.0) > BUSY_S]
    for process in busy:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return len(busy)


def run(rig: Rig, asked: argparse.Namespace) -> None:
    file = rig.folder / "lines.txt"
    rig.kafka.create("lines")
    rig.create("sink", {"connector.class": "FileStreamSink", "topics": "lines", "file": str(file), "tasks.max": "1",
                        **STRING}, ["RUNNING", "RUNNING"])
    rig.create("load", {"connector.class": "datagen", "topic": "load", "tasks.max": "1"}, ["RUNNING", "RUNNING"])
    lines, over, sent = Lines([file]), threading.Event(), [0]
    sender = threading.Thread(target=send, args=(rig.kafka.servers, "lines", asked.rate, over, sent))
    sender.start()
    pauses, oldest, ages, killed = [], [], [], 0
    try:
        assert lines.until(lambda: lines.count > 10 * asked.rate, TIMEOUT_S), "the sink does not write"
        lines.ages.clear()
        for _ in range(asked.kills):
            lines.until(lambda: False, BETWEEN_S)
            ages += lines.ages
            killed += kill_the_busy(rig)
            lines.look()
            lines.ages.clear()
            begun = time.perf_counter()
            assert lines.until(lambda: bool(lines.ages), TIMEOUT_S), rig.process.tail()
            pauses.append((time.perf_counter() - begun) * 1000)
            oldest.append(max(lines.ages))
    finally:
        over.set()
        sender.join()
    wait_until(lambda: len(set(file.read_bytes().split())) == sent[0], TIMEOUT_S, f"{sent[0]} lines")
    say = sys.stdout.write
    say(f"{killed} executor processes killed in {asked.kills} turns, {sent[0]} records, "
        f"{len(file.read_bytes().split()) - sent[0]} lines twice, none missing\n")
    say(f"from the kill to the next line: p50 {statistics.median(pauses):.0f} ms, max {max(pauses):.0f} ms\n")
    say(f"the oldest line after a kill: p50 {statistics.median(oldest):.0f} ms, max {max(oldest):.0f} ms\n")
    say(f"lines at other times, p50 / p99 / max: {quantiles(ages)} ms\n")


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=2000.0)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hk-") as folder,
        EmbeddedBroker(data_dir=Path(folder) / "kafka", quick=True) as broker,
        running_worker(Kafka(broker.bootstrap_servers), Path(folder) / "w", "kills", **PATIENT) as rig,
    ):
        run(rig, asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
