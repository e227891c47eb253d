"""Spark's start with and without the class data archive.

    python -m tests.benchmarks.bench_start [--reps 5]

Prints seconds, and CPU seconds of the JVM, until the SparkContext is there and until its first job is done.
"""

from __future__ import annotations

import argparse
import statistics
import time

import psutil

from spark_tasks.spark.archive import record, with_archive
from spark_tasks.spark.context import SparkJobs, spark_settings


def jvm_cpu_seconds() -> float:
    (jvm,) = (child for child in psutil.Process().children() if child.name() == "java")
    times = jvm.cpu_times()
    return times.user + times.system


def measure(settings: dict[str, str]) -> tuple[float, float, float, float]:
    began = time.monotonic()
    spark = SparkJobs(settings)
    try:
        up, up_cpu = time.monotonic() - began, jvm_cpu_seconds()
        spark.run("bench", "bench", [[]])
        return up, up_cpu, time.monotonic() - began, jvm_cpu_seconds()
    finally:
        spark.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=5)
    reps = parser.parse_args().reps
    record()
    plain = spark_settings({})
    measure(plain)  # PySpark is imported, the files are in memory
    kinds = {"without the archive": plain, "with it": with_archive(plain)}
    found: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in kinds}
    for _ in range(reps):
        for kind, settings in kinds.items():
            found[kind].append(measure(settings))
    names = ("SparkContext", "its JVM's CPU", "first job", "JVM's CPU then")
    for kind, rows in found.items():
        columns = zip(names, zip(*rows, strict=True), strict=True)
        texts = [f"{name} {statistics.median(c):.2f} s ({min(c):.2f}..{max(c):.2f})" for name, c in columns]
        print(f"{kind}: {', '.join(texts)}")  # noqa: T201


if __name__ == "__main__":
    main()
