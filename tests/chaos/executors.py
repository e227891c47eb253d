"""datagen to verify on a real Spark cluster, a master and two workers, while its executors are killed one by one.

    python -m tests.chaos.executors --records 6000000 --kills 12

At least once: nothing is missing, and each kill repeats at most one batch of each stream. Exactly once: each record is
there once. The executors have another Python environment than the worker, with a separate installation of heeler. Then
the demo runs on that cluster.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import psutil

from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.connectors.verify import read_summary
from tests.rigs.cluster import SCHEMALESS
from tests.rigs.connector_states import states_of
from tests.rigs.spark_cluster import SparkCluster, other_python
from tests.rigs.support import wait_until
from tests.rigs.topic_reader import read_topic
from tests.rigs.workers import PATIENT, Kafka, Rig, running_worker

STREAMS = 4
TIMEOUT_S = 240.0  # executors have to be started again, on a busy machine
_DONE_S = 900.0


@dataclass(slots=True)
class Stream:
    """What a reader has seen of one stream, in order: the `next` number, and where it was restarted: (from, back to).
    """

    next: int = 0
    again: list[tuple[int, int]] = field(default_factory=list)
    skipped: list[tuple[int, int]] = field(default_factory=list)

    def take(self, number: int) -> None:
        """The next record."""
        if number < self.next and (not self.again or number != self._at):
            self.again.append((self.next, number))
        elif number > self.next:
            self.skipped.append((self.next, number))
        self._at = number + 1
        self.next = max(self.next, self._at)

    _at: int = 0


def read(kafka: Kafka, topic: str, *, committed: bool) -> dict[int, Stream]:
    """All records of the topic that are there now, by librdkafka."""
    found: dict[int, Stream] = {}
    for message in read_topic(kafka.servers, topic, committed=committed, within_s=TIMEOUT_S):
        value = orjson.loads(message.value())
        found.setdefault(value["stream"], Stream()).take(value["sequence"])
    return found


class Killing:
    """One run. Kills executors' JVMs and their Python processes alternately, one after each part of the records."""

    def __init__(self, kafka: Kafka, cluster: SparkCluster, folder: Path, python: Path, say: Callable[[str], None],
                 seed: int = 7) -> None:
        self._kafka = kafka
        self._cluster = cluster
        self._folder = folder
        self._python = python
        self._say = say
        self._random = random.Random(seed)

    def run(self, records: int, kills: int, *, exactly_once: bool, rate: int = 0) -> str:
        """This many records in total; returns the results. AssertionError if a promise is broken."""
        name = "exactly-once" if exactly_once else "at-least-once"
        topic = self._kafka.create(f"{name}-{records}", STREAMS)
        more = {**self._cluster.settings, "spark.pyspark.python": str(self._python), **PATIENT}
        if exactly_once:
            more["exactly.once.source.support"] = "enabled"
        folder = self._folder / name
        with running_worker(self._kafka, folder, f"killing-{name}", **more) as rig:
            rig.create("in", {"connector.class": "datagen", "topic": topic, "streams": str(STREAMS), "tasks.max": "2",
                              "records": str(records // STREAMS), "rate": str(rate // 2), **SCHEMALESS})
            rig.create("out", {"connector.class": "verify", "topics": topic, "path": str(folder / "sums"),
                               "consumer.override.isolation.level": "read_committed", "tasks.max": "2", **SCHEMALESS})
            begun = time.monotonic()
            killed = self._trouble(rig, folder, records, kills)
            wait_until(lambda: self._distinct(rig, folder) == records, _DONE_S, f"{records} records in the sink")
            seconds = time.monotonic() - begun
        return self._check(topic, folder, records, killed, seconds, exactly_once=exactly_once)

    def _distinct(self, rig: Rig, folder: Path) -> int:
        for name in ("in", "out"):
            assert "FAILED" not in states_of(rig.rest, name), rig.rest.failure(name)
        return sum(seen.highest + 1 - seen.missing for seen in read_summary(folder / "sums").streams.values())

    def _trouble(self, rig: Rig, folder: Path, records: int, kills: int) -> int:
        kinds = itertools.cycle((self._java, self._python_process))
        killed = 0
        while killed < kills:
            due = (killed + 1) * records // (kills + 2)
            wait_until(lambda due=due: self._distinct(rig, folder) >= due, TIMEOUT_S, f"{due} records in the sink")
            victim = next(kinds)()
            if victim is not None:
                with suppress(psutil.NoSuchProcess):
                    name = victim.name()
                    victim.kill()
                    killed += 1
                    self._say(f"killed {name} {victim.pid} after {due} records")
        return killed

    def _java(self) -> psutil.Process | None:
        executors = self._cluster.executors()
        return self._random.choice(executors) if executors else None

    def _python_process(self) -> psutil.Process | None:
        """A process that runs splits: the child of the daemon that an executor's JVM has started."""
        found = []
        for java in self._cluster.executors():
            with suppress(psutil.NoSuchProcess):
                found += [process for daemon in java.children() for process in daemon.children()]
        return self._random.choice(found) if found else None

    def _check(self, topic: str, folder: Path, records: int, killed: int, seconds: float, *, exactly_once: bool) -> str:
        assert killed, "no executor was killed"
        streams = read(self._kafka, topic, committed=exactly_once)
        each = records // STREAMS
        assert {n: stream.next for n, stream in streams.items()} == dict.fromkeys(range(STREAMS), each)
        assert not any(stream.skipped for stream in streams.values()), streams
        again = [len(stream.again) for stream in streams.values()]
        summary = read_summary(folder / "sums").to_json()
        assert summary["missing"] == 0, summary
        if exactly_once:
            assert not any(again), streams
            assert (summary["records"], summary["duplicates"]) == (records, 0), summary
        else:
            assert max(again) <= killed, streams
        return (f"{topic}: {records} records in {seconds:.0f} s, {killed} executor processes killed, missing 0, "
                f"batches of a stream begun anew {sum(again)}, duplicates {summary['duplicates']}")


def demo(kafka: Kafka, cluster: SparkCluster, folder: Path, python: Path) -> str:
    """`heeler demo` on the cluster; returns its last words."""
    settings = {**cluster.settings, "spark.pyspark.python": str(python)}
    names = {f"CONNECT_{key.replace('.', '_').upper()}": value for key, value in settings.items()}
    done = subprocess.run([sys.executable, "-m", "heeler", "demo", "--bootstrap-servers", kafka.servers], cwd=folder,
                          env={**os.environ, **names}, capture_output=True, text=True, timeout=_DONE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything agrees." in done.stdout
    assert "Spark started in" in (folder / "heeler-demo" / "worker.log").read_text()
    return "the demo: everything agrees"


def main() -> int:
    """The command line; exit code 1 if a record is missing, or duplicate where it must not be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--rate", type=int, default=60_000, help="records a second; 0: as fast as can be")
    options = parser.parse_args()
    begun = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun:7.1f}  {text}\n")
        sys.stdout.flush()

    folder = Path(tempfile.mkdtemp(prefix="hk-"))
    temporary = folder / "t"
    temporary.mkdir()
    os.environ |= {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
    say(f"everything is in {folder}")
    try:
        with (
            EmbeddedBroker(data_dir=folder / "kafka", quick=True) as broker,
            SparkCluster(folder, temporary, workers=2).start() as cluster,
        ):
            kafka, python = Kafka(broker.bootstrap_servers), other_python(folder / "python")
            killing = Killing(kafka, cluster, folder, python, say)
            for exactly_once in (False, True):
                say(killing.run(options.records, options.kills, exactly_once=exactly_once, rate=options.rate))
            say(demo(kafka, cluster, folder, python))
    except AssertionError as error:
        say(f"FAILED: {error}; everything is in {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
