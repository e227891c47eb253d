"""Chaos: three workers with an exactly-once source, three sinks (parquet, verify, a file of lines), whose parts are
killed at random.

    python -m tests.chaos.chaos --minutes 5 --seed 7

In the first half, only plugins misbehave (they hang, hold the GIL, end or crash their process), and executor
processes are killed and suspended: no other stream may be more than a few seconds behind. Then everything is killed.

In the end a read_committed reader must have seen every number of every stream once and in order, and so must the
Parquet files; the file of lines must have each of them at least once. Like an operator of a cluster, the program
restarts tasks that failed, and aborts transactions whose end Kafka has lost (docs/exactly-once.md, Limits).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from heeler.cli.client.rest_client import RestError
from heeler.cli.support.worker_process import WorkerProcess
from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.connectors.verify import read_summary
from tests.chaos.behind import Behind
from tests.rigs.cluster import SCHEMALESS, Cluster
from tests.rigs.connector_states import states_of
from tests.rigs.exactly_once_cluster import Reader, numbers
from tests.rigs.kafka_tools import abort_hanging_transactions
from tests.rigs.support import BACK_SOON, wait_until
from tests.rigs.task_rigs import STRING
from tests.rigs.workers import Kafka

STREAMS = 4
SETTLE_S = 300.0  # a hanging transaction is found when it is a minute old
PAUSE_S = (1.0, 6.0)  # between two events
LOOK_S = 2.0  # how often failed tasks are restarted
HANGING_S = 75.0  # how often hanging transactions are looked up
SUSPEND_S = (0.5, 9.0)  # the session is 3 s
WAYS = ("sleep", "hold", "exit", "crash", "raise")
TROUBLED = 6  # connectors that misbehave, at most
BEHIND_S = 5.0
_NUMBER = re.compile(rb'"stream":(\d+),"sequence":(\d+),')
CATCH_UP_S = 8.0  # for whoever was suspended, until it is measured again


class Chaos:
    """One run. `say` reports what happens."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], None], rate: int = 400,
                 pause: tuple[float, float] = PAUSE_S, suspend: tuple[float, float] = SUSPEND_S) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.say = say
        self.rate = rate
        self.pause = pause
        self.suspend = suspend
        self.happened: Counter[str] = Counter()
        self.restarted = 0
        self.aborted: list[str] = []
        self._look_at = 0.0
        self._look_for_hanging_at = time.monotonic() + HANGING_S
        self._suspended: set[int] = set()  # workers' numbers
        self._troubled: list[str] = []
        self.behind: Behind | None = None  # while nothing happens to workers and the broker

    def run(self, seconds: float) -> dict[str, Any]:
        """Cause failures for this long, then check; returns the figures.

        AssertionError if a record is lost, duplicate or out of order.
        """
        settings = {"group.min.session.timeout.ms": "500", **BACK_SOON}
        with EmbeddedBroker(data_dir=self.folder / "kafka", quick=True, settings=settings) as self.broker:
            self.kafka = Kafka(self.broker.bootstrap_servers)
            self.kafka.create("numbers", STREAMS)
            with Cluster(self.kafka, self.folder, "chaos", exactly_once_source_support="enabled") as self.cluster:
                numbers(self.cluster, "numbers", 3, streams=STREAMS, rate=self.rate, pace_ms="0")
                self._sinks()
                self.reader = Reader(self.kafka, "numbers")
                self.reader.wait_flowing(STREAMS, within=SETTLE_S, also=self._operate)
                self.say("data flows; trouble begins")
                with Behind(self.kafka, "numbers", STREAMS, self._sums, self.say) as behind:
                    self.behind = behind
                    self._trouble(seconds / 2, [self._plugin, self._plugin, self._no_plugin, self._kill_python,
                                                self._suspend_python])
                self.behind = None
                furthest = {name: round(seconds, 1) for name, seconds in behind.furthest.items()}
                self.say(f"furthest behind: {furthest}; now workers and the broker are in for it as well")
                self._trouble(seconds / 2, [
                    self._kill, self._kill, self._suspend, self._suspend, self._suspend, self._term, self._kill_jvm,
                    self._kill_python, self._kill_python, self._suspend_python, self._restart_broker,
                    self._reconfigure, self._plugin, self._no_plugin])
                return {**self._end(), "furthest behind": furthest}

    def _trouble(self, seconds: float, events: Sequence[Callable[[], str | None]]) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._something(events)
            self._quiet(self.random.uniform(*self.pause))

    def _sinks(self) -> None:
        sink = {"topics": "numbers", "consumer.override.isolation.level": "read_committed", **SCHEMALESS}
        self.cluster.create("files", {"connector.class": "parquet", "path": str(self.folder / "rows"), **sink}, 2)
        self.cluster.create("sums", {"connector.class": "verify", "path": str(self.folder / "sums"), **sink}, 2)
        # At least once; its tasks share batches.
        lines = {"topics": "numbers", "file": str(self.folder / "lines"), "value.converter": STRING}
        self.cluster.create("lines", {"connector.class": "FileStreamSink", **lines}, 2)

    # ------------------------------------------------------------ trouble
    def _something(self, events: Sequence[Callable[[], str | None]]) -> None:
        event = self.random.choice(events)
        detail = event()
        if detail is not None:
            name = event.__name__.strip("_").replace("_", " ")
            self.happened[name] += 1
            self.say(f"{name}: {detail}")

    def _victim(self) -> tuple[int, WorkerProcess] | None:
        """A worker that may be hurt: another one runs, so that there is a cluster."""
        up = [(n, w) for n, w in enumerate(self.cluster.workers) if n not in self._suspended and w.exit_code() is None]
        up = [(n, w) for n, w in up if w.pid is not None]
        return self.random.choice(up) if len(up) > 1 else None

    def _kill(self) -> str | None:
        found = self._victim()
        if found is None:
            return None
        found[1].kill()
        return f"worker {found[0]}"

    def _term(self) -> str | None:
        found = self._victim()
        if found is None:
            return None
        found[1].signal("TERM")
        return f"worker {found[0]}"

    def _suspend(self) -> str | None:
        found = self._victim()
        if found is None:
            return None
        seconds = self.random.uniform(*self.suspend)
        found[1].signal("STOP")
        self._suspended.add(found[0])
        alarm = threading.Timer(seconds, self._wake, found)  # also while a request waits for the suspended one
        alarm.daemon = True
        alarm.start()
        return f"worker {found[0]} for {seconds:.1f} s"

    def _wake(self, number: int, worker: WorkerProcess) -> None:
        worker.signal("CONT")
        self._suspended.discard(number)

    def _kill_jvm(self) -> str | None:
        return self._kill_below(lambda name: name == "java")

    def _kill_python(self) -> str | None:
        return self._kill_below(lambda name: name.startswith("python"), below_java=True)

    def _kill_below(self, wanted: Callable[[str], bool], *, below_java: bool = False,
                    kill: Callable[[psutil.Process], None] = psutil.Process.kill) -> str | None:
        found = self._victim()
        if found is None:
            return None
        with suppress(psutil.Error):
            everyone = psutil.Process(found[1].pid).children(recursive=True)
            javas = [p for p in everyone if p.name() == "java"]
            if below_java:
                everyone = [child for java in javas for child in java.children(recursive=True)]
            chosen = [p for p in everyone if wanted(p.name())]
            if chosen:
                victim = self.random.choice(chosen)
                kill(victim)
                return f"process {victim.pid} of worker {found[0]}"
        return None

    def _suspend_python(self) -> str | None:
        seconds = self.random.uniform(*self.suspend)

        def suspend(victim: psutil.Process) -> None:
            victim.suspend()
            if self.behind is not None:
                self.behind.excuse(seconds + CATCH_UP_S)
            alarm = threading.Timer(seconds, _resume, (victim,))
            alarm.daemon = True
            alarm.start()

        return self._kill_below(lambda name: name.startswith("python"), below_java=True, kill=suspend)

    def _plugin(self) -> str | None:
        """A plugin that misbehaves when it reads or writes, or when its connector starts."""
        if len(self._troubled) == TROUBLED:
            return None
        name, how = f"trouble-{sum(self.happened.values())}", self.random.choice(WAYS)
        kind, more = self.random.choice([("Source", {"topic": "trouble"}), ("Sink", {"topics": "numbers"})])
        where = self.random.choice(["tasks", "tasks", "connector"])
        config = {"connector.class": f"deadly.Deadly{kind}Connector", "how": how, "where": where, **more, **SCHEMALESS}
        with suppress(RestError, OSError):
            self.cluster.create(name, config, 1)
            self._troubled.append(name)
            return f"{name} has a {kind.lower()} that will {how} in its {where}"
        return None

    def _no_plugin(self) -> str | None:
        if not self._troubled:
            return None
        name = self._troubled.pop(self.random.randrange(len(self._troubled)))
        try:
            self.cluster.delete(name)
        except (RestError, OSError):
            self._troubled.append(name)
            self.cluster.wanted[name] = 1
            return None
        return f"{name} is deleted"

    def _restart_broker(self) -> str:
        # Killed: a single broker that is shut down cleanly loses commits (KAFKA-20734; see docs/exactly-once.md).
        self.broker.stop(graceful=False)
        time.sleep(self.random.uniform(0, 4))
        self.broker.start()
        return "killed and up again"

    def _reconfigure(self) -> str | None:
        tasks = self.random.randint(1, STREAMS)
        with suppress(RestError, OSError):
            numbers(self.cluster, "numbers", tasks, streams=STREAMS, rate=self.rate, pace_ms="0")
            return f"{tasks} tasks"
        return None

    # ------------------------------------------------------------ between the events
    def _quiet(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._operate()
            self.reader.check()

    def _operate(self) -> None:
        """Act like an operator of the cluster: start what ended, restart what failed."""
        now = time.monotonic()
        if now >= self._look_for_hanging_at and self.behind is None:  # five JVMs, in addition to what is measured
            self._free_readers()
            self._look_for_hanging_at = time.monotonic() + HANGING_S
        for worker in self.cluster.workers:
            if worker.pid is None or worker.exit_code() is not None:
                worker.kill()
                worker.start()
        for number, worker in enumerate(self.cluster.workers):
            if number not in self._suspended and now >= self._look_at:
                self._look_at = now + LOOK_S
                self._restart_failed(worker)
                return

    def _free_readers(self) -> None:
        internal = [self.cluster.settings[f"{kind}.storage.topic"] for kind in ("offset", "config")]
        with suppress(subprocess.SubprocessError):  # the broker was killed a moment ago
            for one in abort_hanging_transactions(self.kafka.servers, ["numbers", *internal]):
                self.aborted.append(one)
                self.say(f"aborted a hanging transaction: {one}")

    def _restart_failed(self, worker: WorkerProcess) -> None:
        timeout, worker.rest.timeout = worker.rest.timeout, 0.0
        try:
            for name, about in worker.rest.call("GET", "/connectors?expand=status").items():
                parts = [about["status"]["connector"], *about["status"]["tasks"]]
                failed = [part for part in parts if part["state"] == "FAILED"]
                if failed:
                    self.restarted += 1
                    self.say(f"restarting {name}: {str(failed[0].get('trace'))[:240]}")
                    worker.rest.call("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
        except (RestError, OSError):
            pass  # a moment later
        finally:
            worker.rest.timeout = timeout

    # ------------------------------------------------------------ the end
    def _end(self) -> dict[str, Any]:
        self.say("calm: everything is to get well")
        wait_until(lambda: not self._suspended, SETTLE_S, "the suspended to wake")
        wait_until(lambda: not (self._operate() or self._no_plugin() or self._troubled), SETTLE_S, "no trouble")
        self._operate()
        self.reader.wait_flowing(STREAMS, 400, SETTLE_S, self._operate)
        wait_until(self._pause, SETTLE_S, "the source to pause")
        self._quiet(3.0)
        seen = self.reader.check()
        self.say(f"the source is paused; {sum(seen.values())} records")
        wait_until(lambda: self._operate() or self._rows() == seen, SETTLE_S, "all rows in the Parquet files")
        wait_until(lambda: self._operate() or self._sums() == seen, SETTLE_S, "all records in the verify sink")
        wait_until(lambda: self._operate() or self._missing_lines(seen) == 0, SETTLE_S, "all lines in the file")
        assert not self.reader.problems, self.reader.problems
        return {"records": sum(seen.values()), "lost": 0, "doubled": 0, "out of order": 0,
                "tasks restarted": self.restarted, "hanging transactions": self.aborted, "events": dict(self.happened)}

    def _pause(self) -> bool:
        self._operate()
        self.reader.check()
        worker = self.cluster.living()[0]
        try:
            worker.rest.call("PUT", "/connectors/numbers/pause")
            return set(states_of(worker.rest, "numbers")) == {"PAUSED"}
        except (RestError, OSError):
            return False

    def _rows(self) -> dict[int, int]:
        """The next number of each stream in the Parquet files, if every earlier number is there exactly once."""
        found: dict[int, list[int]] = {}
        for file in (self.folder / "rows").glob("[!.]*.parquet"):
            table = pq.read_table(file, columns=["stream", "sequence"])
            for stream, sequence in zip(table["stream"].to_pylist(), table["sequence"].to_pylist(), strict=True):
                found.setdefault(stream, []).append(sequence)
        for stream, sequences in found.items():
            twice = [number for number, count in Counter(sequences).items() if count > 1]
            if twice:
                names = sorted(f.name for f in (self.folder / "rows").glob("[!.]*.parquet"))
                raise RuntimeError(f"rows of stream {stream} twice in the Parquet files: {sorted(twice)[:5]}; {names}")
        return {stream: len(sequences) for stream, sequences in found.items()}

    def _missing_lines(self, seen: Mapping[int, int]) -> int:
        """How many of the numbers of each stream, up to the next one in `seen`, are not in the file of lines."""
        there = {stream: bytearray(number) for stream, number in seen.items()}
        with (self.folder / "lines").open("rb") as lines:
            for line in lines:
                for found in _NUMBER.finditer(line):  # after a line that was cut off by a kill, another one may follow
                    stream, sequence = map(int, found.groups())
                    if sequence < len(there.get(stream, b"")):  # else it is in a transaction that was aborted
                        there[stream][sequence] = 1
        return sum(len(flags) - sum(flags) for flags in there.values())

    def _sums(self) -> dict[int, int]:
        streams = read_summary(self.folder / "sums").streams
        return {int(stream): seen.highest + 1 for stream, seen in streams.items() if not seen.missing}


def _resume(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.resume()


def main() -> int:
    """The command line; exit code 1 if something is lost, duplicate or out of order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rate", type=int, default=400, help="records a second of each source task")
    parser.add_argument("--behind", type=float, default=BEHIND_S, help="seconds that a healthy task may be behind")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    options = parser.parse_args()
    begun = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun:7.1f}  {text}\n")
        sys.stdout.flush()

    folder = Path(tempfile.mkdtemp(prefix="heeler-chaos-"))
    say(f"seed {options.seed}, {options.minutes:g} minutes, {folder}")
    temporary = folder / "temporary"  # killed processes leave files
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    try:
        figures = Chaos(folder, options.seed, say, options.rate).run(options.minutes * 60)
    except AssertionError as error:
        say(f"FAILED: {error}; everything is in {folder}")
        return 1
    say(", ".join(f"{name}: {value}" for name, value in figures.items()))
    if max(figures["furthest behind"].values()) > options.behind:
        say(f"FAILED: a task that nothing happened to was more than {options.behind:g} s behind")
        return 1
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
