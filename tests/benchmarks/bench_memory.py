"""Proportional memory (PSS) of a worker with one FileStreamSink: idle without any record, and idle after some.

    python -m tests.benchmarks.bench_memory [--seconds 90]

Prints the MiB of each of the worker's processes, and their sum, so many seconds after the connector is RUNNING, and so
many after its records are written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka, Rig, processes_of, running_worker

SETTINGS = {"group.min.session.timeout.ms": "500"}  # for the sessions of worker_settings
RECORDS = 10_000


def report(what: str, rig: Rig) -> None:
    """Print a line for each process, and the sum."""
    total = 0.0
    for process in processes_of(rig.process):
        try:
            mib, command = process.memory_full_info().pss / 2**20, " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        total += mib
        sys.stdout.write(f"    {mib:6.1f} {command[:90]}\n")
    sys.stdout.write(f"{what}: {total:.0f} MiB\n")
    sys.stdout.flush()


def main() -> None:
    """Print the memory of one worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=90.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker(settings=SETTINGS) as broker:
        kafka, folder = Kafka(broker.bootstrap_servers), Path(name)
        topic, file = kafka.create("records"), folder / "lines.txt"
        with running_worker(kafka, folder / "worker", "memory") as rig:
            rig.create("sink", {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": topic,
                                "file": str(file)}, ["RUNNING", "RUNNING"])
            time.sleep(seconds)
            report(f"one idle sink, no record yet, after {seconds:.0f} s", rig)
            kafka.send(topic, ["x" * 80] * RECORDS)
            wait_until(lambda: file.exists() and file.stat().st_size == RECORDS * 81, 60, "all lines")
            time.sleep(seconds)
            report(f"{seconds:.0f} s after {RECORDS} records", rig)


if __name__ == "__main__":
    main()
