"""Record the names of all metrics that a worker of Java Kafka Connect has by JMX.

    python -m tests.golden.metrics.record [-v]

With a source and a sink that have moved records; java.json has the attributes by type and the keys of the other
properties, as `{"type": {"connector,task": ["attribute", …]}}`. -v prints the values too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.jars import classpath, resolve
from heeler.embedded_kafka.java import find_java
from heeler.java_host.host_classpath import COMPILER
from tests.rigs.jar_sets import CONNECT
from tests.rigs.java_worker import JavaWorker, java_command
from tests.rigs.support import wait_until

HERE = Path(__file__).parent
STRING = "org.apache.kafka.connect.storage.StringConverter"


def main() -> None:
    """Start broker and worker, run two connectors, write java.json."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = EmbeddedBroker(0, settings={"group.min.session.timeout.ms": "500"})
        broker.start()
        try:
            found = _names(folder, broker.bootstrap_servers)
        finally:
            broker.stop()
    HERE.joinpath("java.json").write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(f"{sum(len(names) for by_keys in found.values() for names in by_keys.values())} attributes\n")


def _names(folder: Path, servers: str) -> dict[str, dict[str, list[str]]]:
    jars = classpath(resolve(CONNECT))
    subprocess.run([find_java(), "-jar", classpath(resolve(COMPILER)), "--release", "17", "-nowarn", "-d", str(folder),
                    "-classpath", jars, str(HERE / "Jmx.java")], check=True, timeout=120)
    properties = {"bootstrap.servers": servers, "group.id": "metrics", "key.converter": STRING,
                  "value.converter": STRING, "offset.flush.interval.ms": "500"}
    for kind in ("config", "offset", "status"):
        properties |= {f"{kind}.storage.topic": kind, f"{kind}.storage.replication.factor": "1"}
    worker = JavaWorker(folder, properties)
    java, *options, _, path, _, file = java_command(worker.file)
    dump = folder / "names"
    worker.process = GuardedProcess(
        [java, *options, "-cp", os.pathsep.join((str(folder), path)), "Jmx", str(dump), file], folder / "log")
    try:
        wait_until(worker.rest.ready, 90, "the Java worker")
        (folder / "in").write_text("one\ntwo\n")
        file_stream = "org.apache.kafka.connect.file.FileStream"
        for config in ({"name": "in", "connector.class": f"{file_stream}SourceConnector", "file": str(folder / "in"),
                        "topic": "lines"},
                       {"name": "out", "connector.class": f"{file_stream}SinkConnector", "file": str(folder / "out"),
                        "topics": "lines"}):
            worker.rest.call("POST", "/connectors", {"name": config["name"], "config": config})
        out = folder / "out"
        wait_until(lambda: out.exists() and out.read_text() == "one\ntwo\n", 60, "the lines")
        wait_until(lambda: "sink-task-metrics" in dump.read_text() and "source-task-metrics" in dump.read_text(), 30,
                   "the names")
        lines = [line.split("\t") for line in dump.read_text().splitlines()]
    except Exception:
        sys.stderr.write((folder / "log").read_text()[-20_000:])
        raise
    finally:
        worker.stop(grace=0)
    found: dict[str, dict[str, list[str]]] = {}
    for group, keys, attribute, value in lines:
        if "-v" in sys.argv:
            sys.stdout.write(f"{group} {keys} {attribute} {value}\n")
        names = found.setdefault(group, {}).setdefault(keys, [])
        if attribute not in names:
            names.append(attribute)
    return found


if __name__ == "__main__":
    main()
