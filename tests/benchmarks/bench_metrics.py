"""The cost of a scrape of /metrics for a worker with 500 connectors.

    python -m tests.benchmarks.bench_metrics [--connectors 500] [--reps 10]

Half of them are sources, half sinks, of one task each. Prints the best and the median time to make the page, the CPU
time, and the size.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from storage.ids import State
from tests.rigs.metrics import Cluster, busy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connectors", type=int, default=500)
    parser.add_argument("--reps", type=int, default=10)
    arguments = parser.parse_args()
    cluster = Cluster()
    for number in range(arguments.connectors):
        cluster.has(f"connector-{number}", State.RUNNING)
    for number in range(arguments.connectors):
        busy(cluster, f"connector-{number}", 0, "source" if number % 2 else "sink")
    page, walls, cpu = "", [], []
    for _ in range(arguments.reps):
        begun, used = time.perf_counter(), time.thread_time()
        page = cluster.metrics.page()
        walls.append(1000 * (time.perf_counter() - begun))
        cpu.append(1000 * (time.thread_time() - used))
    sys.stdout.write(
        f"{arguments.connectors} connectors: best {min(walls):.0f} ms, median {statistics.median(walls):.0f} ms, "
        f"CPU best {min(cpu):.0f} ms, {page.count(chr(10))} lines, {len(page) / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main()
