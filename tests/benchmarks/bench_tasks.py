"""Source and sink tasks through runners, engine and a real broker, without REST and herder.

    python -m tests.benchmarks.bench_tasks [--records 2000000] [--reps 3] [--only sink] [--bootstrap host:port]
                                           [--profile]

Prints records per second from `start` to the last commit, and the time to the first line. With --profile also the CPU
seconds of each process in the last run, and after one more run, with threads for executors, where the executors' part
spends its time.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import logging
import pstats
import statistics
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.plugins import Plugins
from spark_tasks.runners import Runners
from spark_tasks.spark.lifecycle import EngineState
from spark_tasks.spark.residents.engine import ResidentEngine
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until
from tests.rigs.tasks import Loop, MemoryOffsets, ThreadEngine, context_of

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


class ProfilingEngine(ThreadEngine):
    """Executors are threads of this process; `profiles` has one of each job."""

    def __init__(self) -> None:
        super().__init__()
        self.profiles: list[cProfile.Profile] = []

    def _run(self, future: Future[list[Any]], splits: list[bytes]) -> None:
        profile = cProfile.Profile(time.thread_time)
        profile.runcall(super()._run, future, splits)
        self.profiles.append(profile)

    def tell(self) -> None:
        """The functions with the largest own CPU time."""
        first, *others = self.profiles
        stats = pstats.Stats(first)
        for profile in others:
            stats.add(profile)
        stats.strip_dirs().sort_stats("tottime").print_stats(12)


def cpu_seconds() -> Counter[str]:
    """Of this process and what it started."""
    found: Counter[str] = Counter()
    kinds = {"kafka.Kafka": "broker", "SparkSubmit": "Spark's JVM", "spark_tasks.spark.daemon": "Python workers"}
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times, command = process.cpu_times(), " ".join(process.cmdline())
        except psutil.Error:
            continue  # it has just ended
        kind = next((kind for word, kind in kinds.items() if word in command), "worker")
        found[kind] += times.user + times.system
    return found


def record(i: int) -> str:
    return json.dumps({"id": i, "name": f"user-{i % 10007}", "amount": (i * 37 % 100000) / 100, "flag": i % 3 == 0,
                       "pad": "xxxxxxxxxxxx"})


def make_topic(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # has to outlive its futures
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(30)


def fill(bootstrap: str, topic: str, count: int) -> None:
    make_topic(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 200_000,
                         "queue.buffering.max.messages": 500_000})
    for i in range(count):
        while True:
            try:
                producer.produce(topic, record(i).encode(), partition=i & 1)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(120)


@contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    with EmbeddedBroker(heap_mb=1024, settings={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running.bootstrap_servers


def run_sink(runners: Runners, worker: dict[str, str], topic: str, count: int, converter: dict[str, str],
             tasks: int, folder: Path) -> dict[str, float]:
    name = f"sink-{uuid.uuid4().hex[:8]}"
    file = folder / name
    connector = {"name": name, "connector.class": "FileStreamSink", "topics": topic, "file": str(file),
                 "tasks.max": str(tasks), **converter}
    loops = [Loop() for _ in range(tasks)]
    begun = time.perf_counter()
    for number, loop in enumerate(loops):
        loop.start(runners.make(context_of(runners.engine, worker, connector, loop.wake, number)))
    first = 0.0
    while sum(loop.records for loop in loops) < count:
        if not first and file.exists() and file.stat().st_size:
            first = time.perf_counter() - begun
        _check(loops, begun)
        time.sleep(0.005)
    seconds = time.perf_counter() - begun
    for loop in loops:
        loop.stop()
    with file.open("rb") as lines:
        assert sum(1 for _ in lines) == count, "lines are missing or doubled"
    file.unlink()
    return {"records/s": count / seconds, "first line s": first, "batches": sum(len(loop.batches) for loop in loops)}


def run_source(runners: Runners, worker: dict[str, str], bootstrap: str, file: Path, count: int,
               converter: dict[str, str]) -> dict[str, float]:
    name = f"source-{uuid.uuid4().hex[:8]}"
    make_topic(bootstrap, name, 2)
    connector = {"name": name, "connector.class": "FileStreamSource", "topic": name, "file": str(file), **converter}
    loop = Loop()
    begun = time.perf_counter()
    loop.start(runners.make(context_of(runners.engine, worker, connector, loop.wake, offsets=MemoryOffsets())))
    while loop.records < count:
        _check([loop], begun)
        time.sleep(0.005)
    seconds = time.perf_counter() - begun
    loop.stop()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([name]).values():
        future.result(30)
    return {"records/s": count / seconds, "first batch s": loop.batches[0][0] - begun, "batches": len(loop.batches)}


def _check(loops: Sequence[Loop], begun: float) -> None:
    for loop in loops:
        if loop.error is not None:
            raise loop.error
    if time.perf_counter() - begun > 120:
        raise TimeoutError("no end after 120 s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--bootstrap")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    with broker(arguments.bootstrap) as bootstrap, tempfile.TemporaryDirectory() as folder:
        converters = {"key.converter": STRING, "value.converter": STRING}
        worker = {"bootstrap.servers": bootstrap, "group.id": "bench", **converters}
        runners = Runners(Plugins(), ResidentEngine(worker))
        runners.engine.start()
        try:
            measure(runners, worker, bootstrap, Path(folder), arguments)
        finally:
            runners.close()


def measure(runners: Runners, worker: dict[str, str], bootstrap: str, folder: Path, arguments: Any) -> None:
    count = arguments.records
    runs: dict[str, Callable[[], dict[str, float]]] = {}
    json_form = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    if arguments.only in ("", "sink", "sink-string", "sink-json"):
        topic = f"full-{uuid.uuid4().hex[:8]}"
        fill(bootstrap, topic, count)
        for form, converter in (("string", {}), ("json", json_form)):
            for tasks in (1, 2):
                runs[f"sink-{form} tasks={tasks}"] = lambda c=converter, t=tasks: run_sink(
                    runners, worker, topic, count, c, t, folder)
    if arguments.only in ("", "source", "source-string", "source-json"):
        file = folder / "lines.txt"
        with file.open("w") as out:
            out.writelines(record(i) + "\n" for i in range(count))
        runs["source-string"] = lambda: run_source(runners, worker, bootstrap, file, count, {})
        runs["source-json"] = lambda: run_source(runners, worker, bootstrap, file, count, json_form)
    runners.engine.submit("first-0", [Answer(1)]).result(120)  # Spark starts with the first batch
    wait_until(lambda: runners.engine.state is EngineState.RUNNING, 120, "Spark")
    for name, run in runs.items():
        if not name.startswith(arguments.only):
            continue
        run()  # warm
        found = [run() for _ in range(arguments.reps - 1)]
        before = cpu_seconds()
        found.append(run())
        used = cpu_seconds()
        medians = {key: statistics.median(f[key] for f in found) for key in found[0]}
        print(name, {k: round(v, 3) if v < 1000 else round(v) for k, v in medians.items()}, flush=True)  # noqa: T201
        if arguments.profile:
            print({kind: round(used[kind] - before[kind], 2) for kind in used}, flush=True)  # noqa: T201
            engine, runners.engine = runners.engine, ProfilingEngine()
            run()  # warm
            runners.engine.profiles.clear()
            run()
            runners.engine.tell()
            runners.engine = engine


if __name__ == "__main__":
    main()
