"""A distributed worker of Java Kafka Connect, with which heeler is compared."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from heeler.cli.client.rest_client import RestClient, RestError
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.jars import JarSet, classpath, resolve
from heeler.embedded_kafka.java import find_java
from heeler.embedded_kafka.ports import free_port
from spark_tasks.spark.class_archive import ClassArchive
from storage.ids import ConnectorName, ConnectorTaskId
from tests.rigs.jar_sets import CONNECT
from tests.rigs.support import wait_until

TIMES = {  # of a worker of either kind
    "scheduled.rebalance.max.delay.ms": "0", "task.shutdown.graceful.timeout.ms": "2000", "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "500", "consumer.session.timeout.ms": "3000", "consumer.heartbeat.interval.ms": "500",
}
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"


_RECORDED_S = 60.0  # a JVM that writes an archive when it ends, on a busy machine


def java_command(file: Path | str, *more: JarSet) -> list[str]:
    """The command that starts a worker with a properties file. `more`: jars in addition to Kafka Connect's."""
    quick = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return [find_java(), *quick, "-cp", _classpath(*more), MAIN, str(file)]


def _classpath(*more: JarSet) -> str:
    return os.pathsep.join(classpath(resolve(jars)) for jars in (CONNECT, *more))


class JavaWorker:
    """One worker; it may be started again after it was stopped or killed."""

    def __init__(self, folder: Path, properties: Mapping[str, str], *jars: JarSet) -> None:
        self.folder = folder
        self.jars = jars
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.rest = RestClient("127.0.0.1", self.port)
        self.file = folder / "java-worker.properties"
        settings = {
            **properties,
            "listeners": self.url.rstrip("/"),
            "plugin.discovery": "service_load",  # inspecting every class takes most of its start
            **TIMES,
        }
        self.file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.process: GuardedProcess | None = None
        self._archive = ClassArchive(find_java(), resolve(CONNECT), _classpath(*jars))

    def start(self) -> None:
        """Start the worker, and return when it responds."""
        program, *arguments = java_command(self.file, *self.jars)
        command = [program, *self._archive.record_flags(), *arguments]
        self.process = GuardedProcess(command, self.folder / "java-worker.log")
        wait_until(self.rest.ready, 90, "the Java worker")

    def stop(self, grace: float = 15) -> None:
        """Send SIGTERM, and kill -9 after `grace` seconds (0: at once)."""
        if self.process is not None:
            self.process.close(_RECORDED_S if grace and self._archive.recording else grace)
            self._archive.finish(clean=self.process.exit_code() in (0, 128 + signal.SIGTERM))

    def close(self) -> None:
        """The end of a test: at once, but the first worker on this machine leaves an archive, with which others start
        in half of the CPU time.
        """
        self.stop(_RECORDED_S if self._archive.recording else 0)

    def running(self) -> set[ConnectorName | ConnectorTaskId]:
        """What the worker runs, according to the statuses."""
        try:
            listed = self.rest.call("GET", "/connectors?expand=status")
        except RestError as error:
            raise AssertionError("no answer in the middle of a rebalance") from error
        items: set[ConnectorName | ConnectorTaskId] = set()
        for name, status in ((name, value["status"]) for name, value in listed.items()):
            parts = [(name, status["connector"])]
            parts += [(ConnectorTaskId(name, task["id"]), task) for task in status["tasks"]]
            items |= {
                item for item, part in parts
                if part["state"] == "RUNNING" and part["worker_id"] == f"127.0.0.1:{self.port}"
            }
        return items
