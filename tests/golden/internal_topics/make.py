"""Creates the golden records in this folder: what a real Java Kafka Connect worker writes to its internal topics.

    python tests/golden/internal_topics/make.py FOLDER_WITH_KAFKA_AND_CONNECT_JARS [PORT]

The folder holds the jars of kafka_2.13, connect-runtime, connect-file and connect-json (4.3.1 made what lies here).
For each mode it starts a broker and one worker, lets the worker do everything that writes an internal topic, and
saves the topics and, in `*-rest.json`, what the worker itself says its state is after that.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from kafka import KafkaConsumer, TopicPartition

HERE = Path(__file__).resolve().parent
LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect.runtime.distributed.DistributedHerder=info",
]
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


class Rig:
    def __init__(self, jars: str, port: int, folder: Path, extra: dict[str, str]) -> None:
        self.java = ["java", "-Xmx512m", *LOGGING, "-cp", f"{jars}/*"]
        self.folder, self.servers, self.rest = folder, f"127.0.0.1:{port}", f"http://127.0.0.1:{port + 2}"
        self.broker_file = self._write("broker", {
            "process.roles": "broker,controller", "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}", "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder / "data"), "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0"})
        self.worker_file = self._write("worker", {
            "bootstrap.servers": self.servers, "group.id": "golden", "key.converter": CONVERTER,
            "value.converter": CONVERTER, "listeners": self.rest, "rest.advertised.host.name": "worker.example",
            "rest.advertised.port": "8083", "plugin.path": jars, "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "500", "scheduled.rebalance.max.delay.ms": "0",
            **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.partitions": "1" for kind in ("offset", "status")}, **extra})
        self.processes: list[subprocess.Popen[bytes]] = []

    def _write(self, name: str, properties: dict[str, str]) -> str:
        file = self.folder / f"{name}.properties"
        file.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        return str(file)

    def start(self, *command: str) -> None:
        log = (self.folder / f"{command[0]}.log").open("wb")
        self.processes.append(subprocess.Popen([*self.java, *command], stdout=log, stderr=subprocess.STDOUT))

    def __enter__(self) -> Self:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        subprocess.run([*self.java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c",
                        self.broker_file],
                       check=True, stdout=subprocess.DEVNULL)
        self.start("kafka.Kafka", self.broker_file)
        self.start("org.apache.kafka.connect.cli.ConnectDistributed", self.worker_file)
        try:
            self.until(lambda: self.call("GET", "/connectors") is not None, 90)
        except BaseException:  # whatever stopped us: leave no process behind
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Returns the response, or None if there is none yet or it requests a retry."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.rest + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as reply:
                return json.loads(reply.read() or b"true")
        except urllib.error.HTTPError as error:
            if error.code in (404, 409):
                return None
            raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from error
        except OSError:
            return None

    def until(self, condition: Callable[[], Any], within: float = 30) -> Any:
        deadline = time.monotonic() + within
        while not (answer := condition()):
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.1)
        return answer

    def insist(self, method: str, path: str, body: Any = None) -> Any:
        return self.until(lambda: None if (answer := self.call(method, path, body)) is None else (answer,))[0]

    def reaches(self, name: str, state: str, tasks: int, task_state: str | None = None) -> None:
        def reached() -> bool:
            status = self.call("GET", f"/connectors/{name}/status")
            return bool(status) and status["connector"]["state"] == state and [
                task["state"] for task in status["tasks"]] == [task_state or state] * tasks
        self.until(reached)

    def dump(self, kind: str) -> list[dict[str, Any]]:
        consumer = KafkaConsumer(bootstrap_servers=self.servers, enable_auto_commit=False)
        partition = TopicPartition(kind, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end, found = consumer.end_offsets([partition])[partition], []
        while consumer.position(partition) < end:
            for records in consumer.poll(500).values():
                found += [{"offset": r.offset, "timestamp": r.timestamp, "key": r.key.decode(),
                           "value": None if r.value is None else r.value.decode()} for r in records]
        consumer.close()
        return found


def act(rig: Rig, exactly_once: bool) -> None:
    """Everything that writes an internal topic."""
    lines = rig.folder / "lines.txt"
    lines.write_text("eins\nzwei\ndrei\n")
    source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(lines), "topic": "lines"}
    path = "/connectors/" + urllib.parse.quote("quelle-ä-1")
    rig.insist("POST", "/connectors", {"name": "quelle-ä-1", "config": source})
    rig.reaches(path.split("/")[2], "RUNNING", 1)
    rig.until(lambda: rig.call("GET", f"{path}/offsets")["offsets"])
    sink = {"connector.class": "FileStreamSink", "tasks.max": "2", "topics": "lines", "file": str(rig.folder / "out"),
            "name": "sink", "note": '\u2028 \x1f "quoted" \\ / <&>'}
    rig.insist("POST", "/connectors", {"name": "sink", "config": sink, "initial_state": "PAUSED"})
    rig.reaches("sink", "PAUSED", 0)
    rig.insist("PUT", "/connectors/sink/resume")
    rig.reaches("sink", "RUNNING", 2)
    rig.insist("PUT", "/connectors/sink/pause")
    rig.reaches("sink", "PAUSED", 2)
    rig.insist("PUT", "/connectors/sink/resume")
    rig.reaches("sink", "RUNNING", 2)
    rig.insist("PUT", "/connectors/sink/config", {**sink, "tasks.max": "1"})
    rig.reaches("sink", "RUNNING", 1)
    broken = {**sink, "name": "broken", "tasks.max": "1", "file": "/no/such/folder/out"}
    rig.insist("PUT", "/connectors/broken/config", broken)
    rig.reaches("broken", "RUNNING", 1, "FAILED")
    rig.insist("POST", "/connectors/sink/restart?includeTasks=true&onlyFailed=false")
    rig.reaches("sink", "RUNNING", 1)
    rig.insist("POST", "/connectors/broken/restart?includeTasks=true&onlyFailed=true")
    rig.reaches("broken", "RUNNING", 1, "FAILED")
    rig.insist("PUT", "/admin/loggers/org.example?scope=cluster", {"level": "DEBUG"})
    rig.insist("PUT", f"{path}/stop")
    rig.reaches(path.split("/")[2], "STOPPED", 0)
    where = {"partition": {"filename": str(lines)}, "offset": {"position": 5}}
    rig.insist("PATCH", f"{path}/offsets", {"offsets": [where]})
    if not exactly_once:
        rig.insist("DELETE", f"{path}/offsets")
        rig.insist("PATCH", f"{path}/offsets", {"offsets": [where]})
    rig.insist("PUT", "/connectors/gone/config", {**source, "topic": "other"})
    rig.reaches("gone", "RUNNING", 1)
    rig.until(lambda: rig.call("GET", "/connectors/gone/topics")["gone"]["topics"])
    rig.insist("DELETE", "/connectors/gone")
    rig.until(lambda: rig.call("GET", "/connectors/gone/status") is None)


def state(rig: Rig) -> dict[str, Any]:
    """The worker's own view, and the config offset of its last assignment."""
    names = sorted(rig.insist("GET", "/connectors"))
    log = (rig.folder / "org.apache.kafka.connect.cli.ConnectDistributed.log").read_text()
    each = {name: {what: rig.insist("GET", f"/connectors/{urllib.parse.quote(name)}/{what}")
                   for what in ("config", "tasks", "status", "topics")} for name in names}
    offsets = rig.insist("GET", "/connectors/" + urllib.parse.quote("quelle-ä-1") + "/offsets")
    return {"connectors": each, "offsets": offsets, "offset": int(re.findall(r"\boffset=(\d+)", log)[-1])}


def main(jars: str, port: int) -> None:
    for mode, extra in (("plain", {}), ("exactly-once", {"exactly.once.source.support": "enabled"})):
        with tempfile.TemporaryDirectory() as folder, Rig(jars, port, Path(folder), extra) as rig:
            act(rig, mode != "plain")
            view = state(rig)
            for kind in ("config", "status", "offset"):
                lines = [json.dumps(r, ensure_ascii=False) for r in rig.dump(kind)]
                text = "\n".join(lines).replace(folder, "/golden") + "\n"
                (HERE / f"{mode}-{kind}.jsonl").write_text(text, encoding="utf-8")
            text = json.dumps(view, indent=1, ensure_ascii=False, sort_keys=True).replace(folder, "/golden")
            (HERE / f"{mode}-rest.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 39092)
