"""The cost of an empty split: a Spark job for each batch compared with resident executors, in one run.

    python -m tests.benchmarks.bench_engine [--splits 400] [--reps 3]

Prints p50 and p99 from the submission to the result, splits per second, and CPU milliseconds of all processes a split;
for resident executors also how soon a split that hangs is cut off, and the memory of their processes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path

import psutil

from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.residents.engine import ResidentEngine
from tests.rigs.splits import Answer, Describe, Hang
from tests.rigs.support import wait_until

AnyEngine = SparkEngine | ResidentEngine
LOADS = ((1, 1), (4, 1), (4, 8))  # who submits, and how many each has in flight
DEEP = 10  # times more splits where they are that cheap


def cpu_seconds() -> float:
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def started(kind: type[AnyEngine]) -> AnyEngine:
    engine = kind({"group.id": "bench"})
    begun = time.perf_counter()
    first = engine.submit("first-0", [Answer(1)])
    engine.start()
    first.result(120)
    tell(kind, "first split after the start", s=time.perf_counter() - begun)
    daemon = "spark_tasks.spark.daemon"
    wait_until(lambda: daemon in engine.submit("first-0", [Describe()]).result(60)[0]["daemon"], 120)
    return engine


def tell(kind: type[AnyEngine], what: str, **values: float) -> None:
    texts = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    print(f"{kind.__name__:15} {what}: {texts}", flush=True)  # noqa: T201


def drive(engine: AnyEngine, count: int, submitters: int, deep: int) -> None:
    times: list[float] = []

    def loop(name: str) -> None:
        flying = []
        for _ in range(count // submitters):
            flying.append((time.perf_counter(), engine.submit(name, [Answer(1)])))
            if len(flying) >= deep:
                at, future = flying.pop(0)
                future.result(60)
                times.append(time.perf_counter() - at)
        for _, future in flying:
            future.result(60)

    for _ in range(20):
        engine.submit("warm-0", [Answer(1)]).result(60)
    before, begun = cpu_seconds(), time.perf_counter()
    threads = [threading.Thread(target=loop, args=(f"task{n}-0",)) for n in range(submitters)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, used = time.perf_counter() - begun, cpu_seconds() - before
    cuts = statistics.quantiles(times, n=100)
    tell(type(engine), f"{submitters} submitting, {deep} in flight each", p50_ms=cuts[49] * 1e3, p99_ms=cuts[98] * 1e3,
         splits_per_s=count / wall, cpu_ms=used / count * 1e3)


def hangs(engine: ResidentEngine, times: int) -> None:
    """From the cancellation of what fills all processes but one until another split is done."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(times):
            started_file = Path(folder) / str(n)
            batch = engine.submit("hang-0", [Hang(str(started_file))])
            wait_until(started_file.exists)
            at = time.perf_counter()
            engine.cancel(batch)
            with suppress(CancelledError):
                batch.result(10)
            engine.submit("hang-0", [Answer(1)]).result(60)
            found.append(time.perf_counter() - at)
    tell(type(engine), "a hung split cancelled, the next one done", median_ms=statistics.median(found) * 1e3,
         worst_ms=max(found) * 1e3)


def memory() -> None:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            full, name = process.memory_full_info(), " ".join(process.cmdline())
            if "spark_tasks.spark.daemon" in name:
                tell(ResidentEngine, f"process {process.pid}", pss_mib=full.pss / 2**20, own_mib=full.uss / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=400)
    parser.add_argument("--reps", type=int, default=3)
    arguments = parser.parse_args()
    for _ in range(arguments.reps):
        for kind in (SparkEngine, ResidentEngine):
            engine = started(kind)
            try:
                for submitters, deep in LOADS:
                    cheap = DEEP if isinstance(engine, ResidentEngine) else 1
                    drive(engine, arguments.splits * cheap, submitters, deep)
                if isinstance(engine, ResidentEngine):
                    hangs(engine, 8)
                    memory()
            finally:
                engine.close()


if __name__ == "__main__":
    main()
