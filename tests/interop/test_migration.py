"""docs/migrating-from-java.md, run as written: a Java worker's connectors move to heeler while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from heeler.embedded_kafka.ports import free_port
from tests.rigs.java_worker import JavaWorker
from tests.rigs.migration_guide import commands
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_the_migration_guide_works_as_written(broker, tmp_path, worker_properties):
    kafka = Kafka(broker.bootstrap_servers)
    settings = {**worker_properties, "rest.advertised.host.name": "localhost"}
    java, port = JavaWorker(tmp_path, settings), free_port()
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("before\n")
    topic = kafka.create(f"{worker_properties['group.id']}-lines")
    try:
        java.start()
        java.rest.put_config("in", {"connector.class": "FileStreamSource", "file": str(source), "topic": topic})
        java.rest.put_config("out", {"connector.class": "FileStreamSink", "file": str(sink), "topics": topic})
        wait_until(lambda: sink.exists() and sink.read_text() == "before\n", 30, "the first line")
        java.file.rename(tmp_path / "connect-distributed.properties")
        [process] = [p for p in psutil.Process(java.process.pid).children() if "java" in p.name()]
        script = commands(java.port, port).replace('kill "$JAVA_PID"', f'echo during >> "{source}"\nkill "$JAVA_PID"')
        # Before the way back: what was read goes on where it was.
        script = script.replace('kill "$HEELER_PID"', f'''echo after >> "{source}"
until grep -q after "{sink}"; do sleep 0.2; done
kill "$HEELER_PID"''', 1)
        environment = {**os.environ, "JAVA_PID": str(process.pid),
                       "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, text=True, timeout=150,
                              capture_output=True, check=False)
        log = tmp_path / "heeler.log"
        assert done.returncode == 0, f"{done.stderr}\n{done.stdout}\n{log.read_text()[-3000:] if log.exists() else ''}"
    finally:
        java.close()
    assert dict.fromkeys(sink.read_text().splitlines()) == dict.fromkeys(["before", "during", "after"])
    for file, address in (("before.json", f"localhost:{java.port}"), ("after.json", f"localhost:{port}")):
        found = json.loads((tmp_path / file).read_text())
        parts = [part for about in found.values() for part in (about["status"]["connector"], *about["status"]["tasks"])]
        assert [(part["state"], part["worker_id"]) for part in parts] == [("RUNNING", address)] * 4
