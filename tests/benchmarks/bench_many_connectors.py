"""A worker with many connectors, of which some run: how long it takes to create them and to start with them, and what
it costs to have them.

    python -m tests.benchmarks.bench_many_connectors [--connectors 10000] [--running 1000] [--steps 2000]

Stopped connectors are created first, then those that run: FileStreamSources, each of a file of its own without a line.
Prints how long the creation of each `steps` takes (flat: the last ones take no longer than the first), then for a
second worker that takes over when the first one has stopped: the time until it answers, until all run, CPU and
proportional memory after that, and how long lists of all take.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, Kafka, Rig, processes_of, running_worker

LONG_S = 600.0
IDLE_S = 30.0


def say(what: str, figure: str) -> None:
    sys.stdout.write(f"| {what} | {figure} |\n")
    sys.stdout.flush()


def timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def create(rig: Rig, count: int, running: int, step: int) -> None:
    file = rig.folder / "empty.txt"
    file.touch()
    begun = time.perf_counter()
    for n in range(count):
        state = "STOPPED" if n < count - running else "RUNNING"
        name = f"many-{n:05d}"
        config = {"connector.class": "FileStreamSource", "file": str(file), "topic": name, "tasks.max": "1"}
        rig.rest.call("POST", "/connectors", {"name": name, "config": config, "initial_state": state})
        if (n + 1) % step == 0 or n + 1 == count:
            say(f"creation of connectors up to {n + 1:,}", f"{time.perf_counter() - begun:.1f} s")
            begun = time.perf_counter()


def all_run(rig: Rig, running: int) -> bool:
    found = rig.rest.call("GET", "/connectors?expand=status").values()
    tasks = [task["state"] for one in found for task in one["status"]["tasks"]]
    return tasks.count("RUNNING") >= running


def cpu_and_memory(rig: Rig) -> tuple[float, float]:
    """CPU seconds so far, and proportional MiB now."""
    seconds = memory = 0.0
    for process in processes_of(rig.process):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system
            memory += process.memory_full_info().pss
    return seconds, memory / 2**20


def take_over(kafka: Kafka, folder: Path, asked: argparse.Namespace) -> None:
    begun = time.perf_counter()
    with running_worker(kafka, folder, "many", **PATIENT) as rig:
        say("the next worker answers after", f"{time.perf_counter() - begun:.1f} s")
        wait_until(lambda: all_run(rig, asked.running), LONG_S, "all to run")
        say(f"{asked.running:,} of {asked.connectors:,} run after", f"{time.perf_counter() - begun:.1f} s")
        before, _ = cpu_and_memory(rig)
        time.sleep(IDLE_S)
        after, memory = cpu_and_memory(rig)
        say("idle: cores / proportional MiB", f"{(after - before) / IDLE_S:.2f} / {memory:.0f}")
        for path in ("/connectors", "/connectors?expand=status", "/connectors/many-00000"):
            say(f"GET {path}", f"{1000 * timed(lambda path=path: rig.rest.call('GET', path)):.0f} ms")


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connectors", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=2_000)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hm-") as folder,
        EmbeddedBroker(data_dir=Path(folder) / "kafka", quick=True) as broker,
    ):
        kafka = Kafka(broker.bootstrap_servers)
        with running_worker(kafka, Path(folder) / "a", "many", **PATIENT) as rig:
            create(rig, asked.connectors, asked.running, asked.steps)
            wait_until(lambda: all_run(rig, asked.running), LONG_S, "all to run")
        take_over(kafka, Path(folder) / "b", asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
