"""A standalone Spark cluster on this machine, whose processes know nothing of this process's environment."""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
import threading
import venv
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

import spark_tasks
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.ports import free_port
from spark_tasks.spark.archive import spark_archive
from spark_tasks.spark.gateway import await_master, spark_home
from spark_tasks.spark.master import SparkMaster
from spark_tasks.spark.security import write_properties

SECRET = "known to the cluster"  # noqa: S105 - of a test
_SECURED = {"spark.authenticate": "true", "spark.authenticate.secret": SECRET, "spark.network.crypto.enabled": "true"}
_NEEDED = ("PATH", "HOME", "JAVA_HOME", "TMPDIR", "SPARK_LOCAL_DIRS", "JAVA_TOOL_OPTIONS")
_DEPLOY = "org.apache.spark.deploy"


class SparkCluster:
    """A master and its workers, which share a secret; a context manager that ends them. `start` starts them."""

    def __init__(self, folder: Path, work: Path, workers: int = 1, cores: int = 2) -> None:
        self._folder = folder
        self._work = work
        self._workers = workers
        self._cores = cores
        self._port = free_port()
        self._started: list[GuardedProcess] = []

    @property
    def master(self) -> str:
        """The value of spark.master."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings that a heeler worker needs to use it."""
        return {"spark.master": self.master, "spark.authenticate.secret": SECRET, "spark.executor.memory": "512m",
                "spark.executor.cores": str(self._cores), "spark.executor.extraJavaOptions": _quick()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for process in reversed(self._started):
            process.close(5)
        self._started.clear()

    def start(self) -> Self:
        """Start the cluster. Returns when the master accepts connections; its workers follow soon."""
        shared = self._folder / "cluster.properties"
        write_properties(_SECURED, shared)
        host = ["--host", "127.0.0.1", "--webui-port", "0", "--properties-file", str(shared)]
        self._run("master", f"{_DEPLOY}.master.Master", *host, "--port", str(self._port))
        # A worker that starts first would retry only seconds later.
        await_master(SparkMaster.parse(self.master), threading.Event())
        for number in range(self._workers):
            self._run(f"worker-{number}", f"{_DEPLOY}.worker.Worker", *host, "--cores", str(self._cores), "--memory",
                      "1g", "--work-dir", str(self._work / str(number)), self.master)
        return self

    def _run(self, name: str, main: str, *arguments: str) -> None:
        home = spark_home()
        environment = {key: os.environ[key] for key in _NEEDED if key in os.environ} | {
            "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _quick(),
        }
        program = ["env", "-i", *(f"{key}={value}" for key, value in environment.items()), f"{home}/bin/spark-class"]
        self._started.append(GuardedProcess([*program, main, *arguments], self._folder / f"{name}.log"))

    def executors(self) -> list[psutil.Process]:
        """The JVMs of executors that are alive; the Python processes that run splits are their children."""
        return [process for guard in self._started for process in psutil.Process(guard.pid).children(recursive=True)
                if _is_executor(process)]


def _quick() -> str:
    """Options with which JVMs that do little start quickly."""
    archive = spark_archive()
    return shlex.join(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *(archive.use_flags() if archive else ())])


def _is_executor(process: psutil.Process) -> bool:
    try:
        return process.name() == "java" and any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def other_python(folder: Path, *, heeler: bool = True) -> Path:
    """Another environment, with heeler and its dependencies, like that of a cluster's machine."""
    venv.create(folder, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # editable ones are not found
    python = folder / "bin" / Path(sys.executable).name
    if heeler:
        install_heeler(python)
    return python


def install_heeler(python: Path) -> None:
    """Install heeler in such an environment with links, so that nothing is compiled again."""
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(python.parents[1])}))
    for name in ("spark_tasks", "heeler"):
        (packages / name).symlink_to(Path(spark_tasks.__file__).parents[1] / name)
