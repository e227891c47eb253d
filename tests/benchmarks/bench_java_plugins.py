"""The same jars and configurations on Java Kafka Connect and on heeler, one after the other, in one run.

    python -m tests.benchmarks.bench_java_plugins [--records 2000000] [--rows 200000] [--only source,sink,debezium]

FileStream connectors (Kafka's jar on both sides) as source and sink: strings, JSON, JSON with three transforms;
Debezium's PostgreSQL connector: rows of a snapshot, changes. Records a second from the connector's creation to its last
record, CPU of the worker's whole tree of processes; last the memory and the start of heeler's host. Needs Debian's
`postgresql`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Producer

from heeler.cli.client.rest_client import RestClient
from heeler.cli.support.worker_process import WorkerProcess
from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.jars import classpath, resolve
from heeler.embedded_kafka.java import find_java
from tests.rigs import debezium
from tests.rigs.connector_states import states_of
from tests.rigs.jar_sets import CONNECT
from tests.rigs.java_connectors import FILE_SINK, FILE_SOURCE
from tests.rigs.java_worker import MAIN, JavaWorker
from tests.rigs.postgres import Postgres, running_postgres
from tests.rigs.support import wait_until
from tests.rigs.workers import STRING, Kafka, worker_settings

T = "org.apache.kafka.connect.transforms."
AS_JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
AS_STRING = {"value.converter": STRING}
HOIST = {"transforms": "hoist,ins,rep", "transforms.hoist.type": f"{T}HoistField$Value",
         "transforms.hoist.field": "line",
         "transforms.ins.type": f"{T}InsertField$Value", "transforms.ins.static.field": "src",
         "transforms.ins.static.value": "bench", "transforms.rep.type": f"{T}ReplaceField$Value",
         "transforms.rep.renames": "line:message"}
CHANGE = {"transforms": "ins,rep,mask", "transforms.ins.type": f"{T}InsertField$Value",
          "transforms.ins.static.field": "src", "transforms.ins.static.value": "bench",
          "transforms.rep.type": f"{T}ReplaceField$Value", "transforms.rep.exclude": "pad",
          "transforms.mask.type": f"{T}MaskField$Value", "transforms.mask.fields": "name"}
SOURCES = {"source string": AS_STRING, "source JSON": AS_JSON,
           "source JSON, 3 transforms": {**AS_JSON, **HOIST}}
SINKS = {"sink string": AS_STRING, "sink JSON": AS_JSON, "sink JSON, 3 transforms": {**AS_JSON, **CHANGE}}
TUNING = ("-Xms256M", "-Xmx2G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
          "-XX:+ExplicitGCInvokesConcurrent")  # as Kafka's scripts start a worker
LONG_S = 600.0
GLIMPSE_S = 0.02


class Java(JavaWorker):
    """With the heap and the collector that Kafka's scripts give it."""

    def start(self) -> None:
        command = [find_java(), *TUNING, "-cp", classpath(resolve(CONNECT)), MAIN, str(self.file)]
        log = self.folder / "java-worker.log"
        self.process = GuardedProcess(command, log)

        def ready() -> bool:
            assert self.rest.ready(), log.read_text()[-2000:]
            return True

        wait_until(ready, LONG_S / 4, "the Java worker")


class Side:
    """A worker of either kind."""

    def __init__(self, name: str, rest: RestClient, pid: Callable[[], int | None]) -> None:
        self.name, self.rest = name, rest
        self._pid = pid
        self._seen: dict[int, float] = {}

    def processes(self) -> list[psutil.Process]:
        shell = psutil.Process(self._pid())
        return [shell, *shell.children(recursive=True)]

    def cpu_s(self) -> float:
        """Of all its processes so far, those that have ended too as far as they were seen."""
        for process in self.processes():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            self._seen[process.pid] = times.user + times.system
        return sum(self._seen.values())

    def measure(self, name: str, config: Mapping[str, str], done: Callable[[], bool]) -> tuple[float, float]:
        """Seconds, and CPU seconds, from the connector's creation until it is `done`."""
        cpu, begun = self.cpu_s(), time.monotonic()
        self.rest.put_config(name, dict(config))
        self.until(done)
        return time.monotonic() - begun, self.cpu_s() - cpu

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LONG_S
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {self.rest.call('GET', '/connectors?expand=status')}")
            time.sleep(GLIMPSE_S)

    def delete(self, name: str) -> None:
        self.rest.call("DELETE", f"/connectors/{name}")
        wait_until(lambda: states_of(self.rest, name) == [], 60, f"the end of {name}")


class Table:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[float, float]] = {}
        print(f"{'':28}{'records/s':>24}{'':10}{'CPU µs/record':>18}\n"  # noqa: T201
              f"{'':28}{'Java':>12}{'heeler':>12}{'ratio':>10}{'Java':>9}{'heeler':>9}{'ratio':>10}")

    def add(self, what: str, side: Side, count: int, seconds: float, cpu_s: float) -> None:
        self._found[what, side.name] = (count / seconds, cpu_s / count * 1e6)
        both = [self._found.get((what, name)) for name in ("Java", "heeler")]
        if both[0] and both[1]:
            (rate, cpu), (ours, our_cpu) = both[0], both[1]
            rates = f"{rate:12,.0f}{ours:12,.0f}{ours / rate:10.2f}"
            print(f"{what:28}{rates}{cpu:9.1f}{our_cpu:9.1f}{our_cpu / cpu:10.2f}", flush=True)  # noqa: T201


def line(n: int) -> str:
    return f'{{"id":{n},"name":"user-{n % 10007}","amount":{n * 37 % 100000 / 100},"flag":true,"pad":"xxxxxxxxxxxx"}}'


class Lines:
    """How many lines a file has, which grows."""

    def __init__(self, file: Path) -> None:
        self._file, self._at, self.count = file, 0, 0

    def reached(self, count: int) -> bool:
        if self._file.exists():
            with self._file.open("rb") as out:
                out.seek(self._at)
                while block := out.read(1 << 20):
                    self._at += len(block)
                    self.count += block.count(b"\n")
        return self.count >= count


class Bench:
    def __init__(self, kafka: Kafka, folder: Path, records: int) -> None:
        self.kafka, self.folder, self.records = kafka, folder, records
        self.number = 0
        self.file = folder / "lines"
        with self.file.open("w") as out:
            out.writelines(f"{line(n)}\n" for n in range(records))
        self.few = folder / "few"
        self.few.write_text("".join(f"{line(n)}\n" for n in range(records // 10)))

    def name(self, side: Side) -> str:
        self.number += 1
        return f"{side.name.lower()}-{self.number}"

    def source(self, side: Side, config: Mapping[str, str], file: Path, count: int) -> tuple[float, float]:
        name = self.name(side)
        self.kafka.create(name)
        taken = side.measure(name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": name, **config},
                             lambda: self.kafka.end(name) >= count)
        side.delete(name)
        assert self.kafka.end(name) == count
        return taken

    def sources(self, table: Table, sides: Iterable[Side]) -> None:
        for side in sides:
            for config in SOURCES.values():
                self.source(side, config, self.few, self.records // 10)  # compiled, warm
        for what, config in SOURCES.items():
            for side in sides:
                table.add(what, side, self.records, *self.source(side, config, self.file, self.records))

    def sinks(self, table: Table, sides: Iterable[Side]) -> None:
        few, whole = self.fill("few", self.records // 10), self.fill("whole", self.records)
        for side in sides:
            for config in SINKS.values():
                self.sink(side, config, few, self.records // 10)
        for what, config in SINKS.items():
            for side in sides:
                table.add(what, side, self.records, *self.sink(side, config, whole, self.records))

    def fill(self, topic: str, count: int) -> str:
        self.kafka.create(topic, 2)
        producer = Producer({"bootstrap.servers": self.kafka.servers, "linger.ms": 20, "batch.size": 200_000,
                             "queue.buffering.max.messages": 1_000_000})
        for n in range(count):
            producer.produce(topic, line(n), partition=n & 1)
            if n % 100_000 == 0:
                producer.flush()
        producer.flush()
        return topic

    def sink(self, side: Side, config: Mapping[str, str], topic: str, count: int) -> tuple[float, float]:
        name = self.name(side)
        out = Lines(self.folder / name)
        taken = side.measure(name, {"connector.class": FILE_SINK, "file": str(self.folder / name), "topics": topic,
                                    "consumer.override.auto.offset.reset": "earliest", **config},
                             lambda: out.reached(count))
        side.delete(name)
        assert out.reached(count)
        assert out.count == count, out.count
        (self.folder / name).unlink()
        return taken


def debezium_rows(table: Table, side: Side, bench: Bench, postgres: Postgres, rows: int) -> None:
    name = side.name.lower()
    topic = f"{name}.public.rows"
    seen = lambda count: lambda: bench.kafka.end(topic) >= count  # noqa: E731
    config = debezium.source(postgres, "rows", topic_prefix=name, slot_name=name, publication_name=name,
                             publication_autocreate_mode="filtered", exactly_once_support="requested")
    config |= {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
    table.add("Debezium snapshot", side, rows, *side.measure(name, config, seen(rows)))
    cpu, begun = side.cpu_s(), time.monotonic()
    postgres.sql(f"update rows set amount = amount + 1 where id <= {rows // 2}")  # noqa: S608
    side.until(seen(rows + rows // 2))
    table.add("Debezium changes", side, rows // 2, time.monotonic() - begun, side.cpu_s() - cpu)
    side.delete(name)


@contextmanager
def both(kafka: Kafka, folder: Path) -> Iterator[tuple[Side, Side, WorkerProcess]]:
    jars = debezium.jars(folder / "jars", debezium.SOURCE)
    (jars / "file").mkdir()
    for jar in resolve(CONNECT).glob("connect-file-*.jar"):
        shutil.copy(jar, jars / "file")
    own = {"plugin_path": str(jars), "offset_flush_interval_ms": "10000", "session_timeout_ms": "10000",
           "consumer_session_timeout_ms": "45000", "consumer_heartbeat_interval_ms": "3000",
           "connector_client_config_override_policy": "All"}
    (folder / "java").mkdir()
    java = Java(folder / "java", worker_settings(kafka.servers, "bench-java", **own))
    more = {"heeler_spark_start_delay_ms": "0", "java_plugins_prefer": f"{FILE_SOURCE},{FILE_SINK}",
            "java_plugins_jvm_options": "-Xms256M -Xmx2G"}
    with WorkerProcess(folder, worker_settings(kafka.servers, "bench-heeler", **own, **more)) as heeler:
        heeler.wait_ready()
        try:
            java.start()
            yield (Side("Java", java.rest, lambda: java.process.pid if java.process else None),
                   Side("heeler", heeler.rest, lambda: heeler.pid), heeler)
        finally:
            java.stop(5)


def tell_of_host(side: Side, heeler: WorkerProcess) -> None:
    for process in side.processes():
        with process.oneshot():
            command, memory = " ".join(process.cmdline()), process.memory_info().rss / 2**20
        kind = "its host" if "heeler.host.Host" in command else "the worker" if " worker " in command else ""
        if kind and process.name() != "sh":
            print(f"memory of {kind}: {memory:,.0f} MiB")  # noqa: T201
    started = re.findall(r"host of .* is running \(started in ([\d.]+) s\)", heeler.log.read_text())
    print(f"start of the host: {', '.join(started)} s; load {os.getloadavg()[0]:.2f}")  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--only", default="source,sink,debezium")
    given = parser.parse_args()
    only, count = given.only.split(","), given.records
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="heeler-bench-")))
        short_sessions = {"group.min.session.timeout.ms": "500"}  # those of the tests' Java worker
        kafka = Kafka(stack.enter_context(EmbeddedBroker(settings=short_sessions)).bootstrap_servers)
        bench = Bench(kafka, folder, count)
        java, ours, heeler = stack.enter_context(both(kafka, folder))
        table, sides = Table(), (java, ours)
        if "source" in only:
            bench.sources(table, sides)
        if "sink" in only:
            bench.sinks(table, sides)
        if "debezium" in only:
            with running_postgres() as postgres:
                postgres.sql("create table rows (id int primary key, amount int, note text)")
                postgres.sql(f"insert into rows select n, n, 'row ' || n from generate_series(1, {given.rows}) n")  # noqa: S608
                for side in sides:
                    debezium_rows(table, side, bench, postgres, given.rows)
        tell_of_host(ours, heeler)


if __name__ == "__main__":
    main()
