"""A real single-node Kafka (KRaft) as a child process: `heeler broker`, the demo and the tests."""

from __future__ import annotations

import base64
import logging
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from heeler.embedded_kafka import ports
from heeler.embedded_kafka.folder import FEATURES, BrokerFolder
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.jars import BROKER, KAFKA_VERSION, Progress, classpath, resolve
from heeler.embedded_kafka.java import find_java
from heeler.errors import SetupError
from spark_tasks.spark.class_archive import ClassArchive

_logger = logging.getLogger(__name__)
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_ATTEMPTS = 5  # another program may take a port (the broker's or the controller's) between choice and use
_QUICK = (
    "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
    "-XX:CompileThresholdScaling=0.5",  # such a broker lives for a minute: code that is interpreted takes more time
    "-XX:-UsePerfData",  # it would be sampled 20 times a second
)  # fmt: skip
_QUICK_SETTINGS = {
    # With its default, an idle broker appends a record to its metadata twice a second: half of its CPU time.
    "metadata.max.idle.interval.ms": "0",
    # Each of these threads wakes up several times a second. There are two sets: of the broker and of the controller.
    "num.io.threads": "2",
    "num.network.threads": "1",
    "group.coordinator.threads": "1",
    "share.coordinator.threads": "1",
    "background.threads": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # Nothing is logged with Log4j, but Kafka starts it, to change its levels at runtime: a tenth of the whole start.
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
)


class EmbeddedBroker:
    """One Kafka broker on this machine; a context manager.

    `port`: 0 chooses a free one. Without `data_dir`, the data are in a temporary folder that is removed at the end,
    even if this process is killed. `settings`: more broker properties; listeners among them are added to the broker's
    own, which is PLAINTEXT. `quick` trades peak speed for a faster start and less work while idle (for tests and the
    demo). Problems that a user can fix are SetupErrors.
    """

    def __init__(
        self, port: int = 0, data_dir: Path | None = None, *, host: str = "127.0.0.1", heap_mb: int = 512,
        settings: Mapping[str, str] | None = None, quick: bool = False, progress: Progress = _logger.info,
    ) -> None:
        self.host = host
        self.port = port
        self._wanted_port = port
        self._wanted_dir = data_dir
        self._settings = {**(_QUICK_SETTINGS if quick else {}), **(settings or {})}
        self._quick = quick
        self._jvm = [f"-Xmx{heap_mb}m", f"-Xms{min(heap_mb, 256)}m", *(_QUICK if quick else ())]
        self._progress = progress
        self._folder: BrokerFolder | None = None
        self._process: GuardedProcess | None = None
        self._archive: ClassArchive | None = None

    @property
    def bootstrap_servers(self) -> str:
        """host:port of the broker, once it has been started."""
        return f"{self.host}:{self.port}"

    @property
    def data_dir(self) -> Path:
        """The folder with the broker's data and its broker.log."""
        if self._folder is None:
            raise RuntimeError("the broker has not been started")
        return self._folder.path

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.exit_code() is None

    @property
    def last_output(self) -> str:
        """The end of Kafka's output."""
        return "" if self._folder is None else self._folder.log_tail()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Starts the broker and returns when it responds. After `stop`, it starts again with the same port and data."""
        if self.running:
            return
        if self.port:
            ports.require_free(self.host, self.port)
        folder = self._folder = self._folder or self.open_folder()
        try:
            java, jars = find_java(), resolve(BROKER, self._progress)
            archive = self._archive = ClassArchive(java, jars)
            self._start(folder, archive, [java, *_LOGGING, "-cp", classpath(jars)])
        except BaseException:
            self.close()
            raise

    def stop(self, *, graceful: bool = True) -> None:
        """Ends the process, and keeps data and port for another `start`. `graceful`: False for kill -9; the broker can
        then register again only after its former session has timed out (9 s; `broker.session.timeout.ms`).
        """
        if self._process is not None:
            self._process.close(_STOP_SECONDS if graceful else 0)
            if self._archive is not None:
                self._archive.finish(clean=self._process.exit_code() in (0, 128 + signal.SIGTERM))
            self._process = None

    def close(self) -> None:
        """Stops for good, and removes a temporary folder."""
        temporary = self._wanted_dir is None
        self.stop(graceful=not temporary or (self._archive is not None and self._archive.recording))
        if self._folder is not None:
            self._folder.release()
            if temporary:
                shutil.rmtree(self._folder.path, ignore_errors=True)
            self._folder = None
        self.port = self._wanted_port

    def open_folder(self) -> BrokerFolder:
        """The folder of a first start."""
        if self._wanted_dir is None:
            return BrokerFolder.open(Path(tempfile.mkdtemp(prefix="heeler-broker-")), _new_cluster_id())
        return BrokerFolder.open(self._wanted_dir, _new_cluster_id())

    def _start(self, folder: BrokerFolder, archive: ClassArchive, java: list[str]) -> None:
        choose = self.port == 0
        for attempt in range(1, _ATTEMPTS + 1):
            if choose:
                self.port = ports.free_port(self.host)
            else:
                ports.require_free(self.host, self.port)
            if self._start_once(folder, archive, java, may_retry=attempt < _ATTEMPTS):
                return

    def _start_once(
        self, folder: BrokerFolder, archive: ClassArchive, java: list[str], *, may_retry: bool
    ) -> bool:
        """Starts the broker. Returns False if another program took a port a moment before. Raises SetupError for other
        failures.
        """
        config = folder.write_config(self.properties(folder, ports.free_port("127.0.0.1")))
        if not folder.is_formatted:
            kept = resolve(BROKER) / FEATURES
            if self._quick and kept.exists():
                folder.format_like(kept)
            else:
                self._format(folder, [java[0], *_QUICK, *archive.use_flags(), *java[1:]], config)
                folder.keep_features(kept)
        started = time.monotonic()
        jvm = [java[0], *self._jvm, *archive.record_flags(), *java[1:]]
        process = self._launch(folder, [*jvm, "kafka.Kafka", str(config)])
        while not ports.serves_kafka(self.host, self.port):
            if process.exit_code() is not None:
                self.stop()
                output = folder.log_tail()
                if may_retry and "already in use" in output:
                    return False
                raise SetupError(folder.explain_failure(output))
            if time.monotonic() - started > _START_SECONDS:
                raise SetupError(f"Kafka did not respond within {_START_SECONDS:.0f} s: {folder.log_tail()}")
            time.sleep(0.02)
        _logger.info("Kafka %s is ready on %s after %.1f s", KAFKA_VERSION, self.bootstrap_servers,
                     time.monotonic() - started)
        return True

    def _format(self, folder: BrokerFolder, jvm: list[str], config: Path) -> None:
        process = self._launch(folder, [*jvm, "kafka.tools.StorageTool", "format", "--ignore-formatted", "--cluster-id",
                                        folder.cluster_id, "--config", str(config)])
        if process.wait(_START_SECONDS) != 0:
            raise SetupError(folder.explain_failure(folder.log_tail()))

    def _launch(self, folder: BrokerFolder, command: list[str]) -> GuardedProcess:
        folder.log_file.unlink(missing_ok=True)
        remove = folder.path if self._wanted_dir is None else None
        process = self._process = GuardedProcess(command, folder.log_file, remove)
        return process

    def properties(self, folder: BrokerFolder, controller_port: int) -> dict[str, str]:
        """The properties of a single node that is broker and controller; every replication factor is 1."""
        controller = f"127.0.0.1:{controller_port}"
        own = f"PLAINTEXT://{self.bootstrap_servers}"
        listeners = {"listeners": f"{own},CONTROLLER://{controller}", "advertised.listeners": own}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(folder.kafka_dir),
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # The defaults are for large clusters: on a laptop, creating 50 partitions each takes a second, and the log
            # cleaner's buffer takes a quarter of the heap.
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.num.partitions": "8",
            "log.cleaner.dedupe.buffer.size": str(16 << 20),
            **self._settings,
            **{key: ",".join((mine, *filter(None, [self._settings.get(key)]))) for key, mine in listeners.items()},
        }


def _new_cluster_id() -> str:
    """A cluster id like Kafka's: 22 characters, but never with a leading dash, which the tool takes for an option."""
    while (cluster_id := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return cluster_id
