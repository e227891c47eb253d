"""The cost of scrapes of /metrics for the data plane of a fully loaded worker.

    python -m tests.benchmarks.bench_scrapes [--connectors 50] [--rounds 4] [--seconds 30]

A source writes as fast as it can, beside so many connectors that wait, in turn without scrapes, with one every 15 s,
and with one every second, whose cost is easier to see: 15 times as many. Prints records/s and the CPU time of the
worker and its executors per million records, of each turn and, with what the turns differ by among themselves, of each
kind; how long the scrapes took; and, without the load, how long 100 scrapes took over HTTP, one after the other, and
the CPU time of one, from which follows what part of the machine scrapes every 15 s take. The turns show whether there
is more to it than that; their noise is larger.

    python -m tests.benchmarks.bench_scrapes --connectors 500 --rounds 0

measures only what is without the load, once all connectors run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.benchmarks.bench_latency import SETTINGS
from tests.rigs.scrape import get
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka, Rig, processes_of, running_worker

EVERY_S = {"none": 0.0, "every 15 s": 15.0, "every second": 1.0}
WARM_S = 60.0
ALONE = 100  # scrapes without load
BROKER = {**SETTINGS, "log.retention.check.interval.ms": "2000", "log.segment.delete.delay.ms": "1000"}


@dataclass
class Kind:
    """The turns of one kind: records/s, CPU seconds per million records; milliseconds of each scrape."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    scrapes: list[float] = field(default_factory=list)


class Scraper:
    """Scrapes in a thread, the first time in the middle of the first interval."""

    def __init__(self, rig: Rig, every_s: float, took: list[float]) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(rig, every_s, took), daemon=True)
        if every_s:
            self._thread.start()

    def _run(self, rig: Rig, every_s: float, took: list[float]) -> None:
        due = time.perf_counter() + every_s / 2
        while not self._over.wait(max(0.0, due - time.perf_counter())):
            begun = time.perf_counter()
            status, _, _ = get(rig, "/metrics")
            took.append(1000 * (time.perf_counter() - begun))
            assert status == 200
            due += every_s

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()


def cpu_of(rig: Rig) -> float:
    times = (process.cpu_times() for process in processes_of(rig.process))
    return sum(one.user + one.system for one in times)


def turn(rig: Rig, topic: str, seconds: float, every_s: float, kind: Kind) -> None:
    scraper = Scraper(rig, every_s, kind.scrapes)
    begun, records, used = time.perf_counter(), rig.kafka.end(topic), cpu_of(rig)
    time.sleep(seconds)
    took, records, used = time.perf_counter() - begun, rig.kafka.end(topic) - records, cpu_of(rig) - used
    scraper.stop()
    kind.rates.append(records / took)
    kind.cpu.append(1e6 * used / records)


def reported(name: str, kind: Kind, base: Kind) -> str:
    rate, cpu = statistics.fmean(kind.rates), statistics.fmean(kind.cpu)
    less = 100 * (1 - rate / statistics.fmean(base.rates))
    more = 100 * (cpu / statistics.fmean(base.cpu) - 1)
    scrapes = f"{len(kind.scrapes)} scrapes, median {statistics.median(kind.scrapes):.0f} ms" if kind.scrapes else "-"
    return (f"| {name} | {rate:,.0f} ± {_spread(kind.rates):.1f}% | {less:+.1f}% "
            f"| {cpu:.2f} ± {_spread(kind.cpu):.1f}% | {more:+.1f}% | {scrapes} |\n")


@dataclass
class Alone:
    """Scrapes without load: milliseconds of each, CPU seconds of one, cores that the worker uses anyway, MB."""

    scrapes: list[float]
    cpu: float
    idle: float
    size: float


def alone(rig: Rig) -> Alone:
    """Scrape one time after the other; what the worker uses meanwhile without a scrape is taken off the CPU time."""
    took, size, used = [], 0, cpu_of(rig)
    for _ in range(ALONE):
        begun = time.perf_counter()
        status, _, page = get(rig, "/metrics")
        took.append(1000 * (time.perf_counter() - begun))
        assert status == 200
        size = len(page)
    used = cpu_of(rig) - used
    before, whole = cpu_of(rig), sum(took) / 1000
    time.sleep(whole)
    idle = cpu_of(rig) - before
    return Alone(took, (used - idle) / ALONE, idle / whole, size / 1e6)


def running(rig: Rig) -> int:
    """How many tasks run."""
    lines = get(rig, "/metrics?names=heeler")[2].splitlines()
    return sum(line.startswith("heeler_task_state{") and float(line.rpartition(" ")[2]) == 1 for line in lines)


def _spread(values: list[float]) -> float:
    """The standard error of their mean, in percent of it."""
    return 100 * statistics.stdev(values) / len(values) ** 0.5 / statistics.fmean(values) if len(values) > 1 else 0.0


def under_load(rig: Rig, topic: str, rounds: int, seconds: float, kinds: dict[str, Kind]) -> None:
    """The turns of all kinds."""
    rig.create("load", {"connector.class": "datagen", "topic": topic, "tasks.max": "2",
                        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                        "value.converter.schemas.enable": "false"}, ["RUNNING"] * 3)
    wait_until(lambda: rig.kafka.end(topic) > 1_000_000, 180, "the first records")
    time.sleep(WARM_S)
    for number in range(rounds):
        for kind in list(EVERY_S)[:: -1 if number % 2 else 1]:
            turn(rig, topic, seconds, EVERY_S[kind], kinds[kind])
            rate, cpu = kinds[kind].rates[-1], kinds[kind].cpu[-1]
            sys.stdout.write(f"{kind}: {rate:,.0f} records/s, {cpu:.2f} s of CPU per million\n")
            sys.stdout.flush()
    rig.delete("load")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connectors", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    kinds = {name: Kind() for name in EVERY_S}
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker(settings=BROKER) as broker, running_worker(
            Kafka(broker.bootstrap_servers), Path(name), "scrapes") as rig:
        topic = rig.kafka.create("load", 2, retention_bytes=200_000_000, segment_bytes=50_000_000)
        rig.kafka.create("nothing")
        for number in range(asked.connectors):
            rig.create(f"idle-{number}", {"connector.class": "FileStreamSink", "topics": "nothing",
                                          "file": str(rig.folder / f"idle-{number}")})
        wait_until(lambda: running(rig) == asked.connectors, 600, "all connectors to run")
        if asked.rounds:
            under_load(rig, topic, asked.rounds, asked.seconds, kinds)
        time.sleep(5 if asked.rounds else WARM_S)  # until the start of so many connectors is over
        scrape = alone(rig)
        rig.tidy()
    if asked.rounds:
        sys.stdout.write("| scrapes | records/s | less | CPU s per million | more | |\n|---|---|---|---|---|---|\n")
        for kind, found in kinds.items():
            sys.stdout.write(reported(kind, found, kinds["none"]))
    cores = os.cpu_count() or 1
    best, median = min(scrape.scrapes), statistics.median(scrape.scrapes)
    sys.stdout.write(
        f"\n{asked.connectors} connectors, {scrape.size:.1f} MB, one after the other: best {best:.0f} ms, median "
        f"{median:.0f} ms; {1000 * scrape.cpu:.1f} ms of CPU each, every 15 s that is "
        f"{100 * scrape.cpu / 15 / cores:.3f}% of {cores} cores; the worker uses {scrape.idle:.2f} cores without "
        "scrapes\n")


if __name__ == "__main__":
    main()
