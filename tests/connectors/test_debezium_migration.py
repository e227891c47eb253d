"""docs/migrating-from-java.md, run as it stands there, with Debezium's connectors from Maven Central: they move from a
Java worker to heeler and back while the database changes; no event is lost or doubled. `make connectors`.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from heeler.embedded_kafka.ports import free_port
from tests.rigs import debezium
from tests.rigs.debezium import SOURCE
from tests.rigs.java_worker import JavaWorker
from tests.rigs.migration_guide import commands
from tests.rigs.postgres import running_postgres
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka, worker_settings

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(900)]

SOON_S = 120.0
TABLES = ("orders", "parts")


class Writer(threading.Thread):
    """A row for each table in turn, again and again."""

    def __init__(self, postgres):
        super().__init__(daemon=True)
        self.postgres = postgres
        self.ended = threading.Event()
        self.count = 0

    def run(self):
        for number in itertools.count(1):
            for table in TABLES:
                self.postgres.sql(f"insert into {table} values ({number}, {2 * number})")  # noqa: S608
            self.count = number
            if self.ended.wait(0.1):
                return

    def more(self):
        """Until there are rows that did not begin before now."""
        seen = self.count
        wait_until(lambda: self.count > seen + 1, SOON_S, "more rows")
        return self.count


def test_debezium_moves_to_heeler_and_back(broker, tmp_path):
    kafka = Kafka(broker.bootstrap_servers)
    jars = debezium.jars(tmp_path / "jars", SOURCE)
    settings = worker_settings(broker.bootstrap_servers, "migration-debezium", plugin_path=str(jars),
                               rest_advertised_host_name="localhost", exactly_once_source_support="enabled",
                               java_plugins_jvm_options="-Xmx512M", offset_flush_interval_ms="500")
    java, port = JavaWorker(tmp_path, settings), free_port()
    going, gone = tmp_path / "going", tmp_path / "gone"
    with running_postgres() as postgres:
        for table in TABLES:
            postgres.sql(f"create table {table} (id int primary key, amount int)")
        writer = Writer(postgres)

        def reached(number):
            for table in TABLES:
                topic = f"{table}.public.{table}"
                wait_until(lambda of=topic: kafka.end(of) and debezium.events(kafka, of)[-1][1] >= number,
                           SOON_S, f"row {number} of {table}")

        try:
            java.start()
            for table in TABLES:
                java.rest.put_config(table, debezium.source(
                    postgres, table, topic_prefix=table, slot_name=table, publication_name=table,
                    publication_autocreate_mode="filtered"))
            writer.start()
            reached(writer.more())
            java.file.rename(tmp_path / "connect-distributed.properties")
            [process] = [p for p in psutil.Process(java.process.pid).children() if "java" in p.name()]
            script = commands(java.port, port).replace('kill "$HEELER_PID"', f'''touch "{going}"
until [ -e "{gone}" ]; do sleep 0.2; done
kill "$HEELER_PID"''', 1)
            environment = {**os.environ, "JAVA_PID": str(process.pid),
                           "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
            with (tmp_path / "guide.log").open("w") as log, subprocess.Popen(
                    ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=log, stderr=log) as guide:
                try:
                    wait_until(lambda: going.exists() or guide.poll() is not None, 4 * SOON_S, "the move to heeler")
                    assert going.exists(), (tmp_path / "guide.log").read_text()[-3000:]
                    reached(writer.more())
                    (tmp_path / "connect-distributed.properties").rename(java.file)
                    java.start()
                    reached(writer.more())
                    gone.touch()
                    assert guide.wait(SOON_S) == 0, (tmp_path / "guide.log").read_text()[-3000:]
                finally:
                    gone.touch()
                    guide.wait(SOON_S)
            reached(writer.more())
            writer.ended.set()
            writer.join()
            reached(writer.count)
            found = java.rest.call("GET", "/connectors?expand=status")
            parts = [part for reported in found.values()
                     for part in (reported["status"]["connector"], *reported["status"]["tasks"])]
            assert [(p["state"], p["worker_id"]) for p in parts] == [("RUNNING", f"localhost:{java.port}")] * 4
        finally:
            writer.ended.set()
            java.stop(0)
    for table in TABLES:
        rows = [(key, amount) for _, key, amount in debezium.events(kafka, f"{table}.public.{table}")]
        assert rows == [(n, 2 * n) for n in range(1, writer.count + 1)]
