"""The engine with a standalone Spark cluster on this machine, and with a Spark that cannot be had."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.ports import free_port
from spark_tasks.errors import ConfigError
from spark_tasks.spark.context import SparkJobs, SparkLostError, spark_settings
from spark_tasks.spark.engine import SparkEngine
from spark_tasks.spark.gateway import SparkStartError, await_master, spark_home
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.security import write_properties
from tests.rigs.splits import Answer, Hang
from tests.rigs.support import wait_until
from tests.rigs.workers import jvms, leftovers, wait_gone

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]

CLUSTER_S = 170.0  # three JVMs and their Python workers on a busy machine
SECURED = {"spark.authenticate": "true", "spark.authenticate.secret": "known to the cluster",
           "spark.network.crypto.enabled": "true"}


@pytest.fixture
def cluster(tmp_path: Path, temporary: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a master, and what starts it with one worker, both with a secret."""
    port, started = free_port(), []
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    shared = tmp_path / "cluster.properties"
    write_properties(SECURED, shared)
    host = ["--host", "127.0.0.1", "--webui-port", "0", "--properties-file", str(shared)]

    def start() -> None:
        for name, arguments in (
            ("master", [f"{deploy}.master.Master", *host, "--port", str(port)]),
            ("worker", [f"{deploy}.worker.Worker", *host, "--cores", "2", "--memory", "1g", "--work-dir",
                        str(temporary), address]),
        ):
            program = ["env", f"SPARK_HOME={spark_home()}", f"{spark_home()}/bin/spark-class"]
            started.append(GuardedProcess([*program, *arguments], tmp_path / f"{name}.log"))
            await_master(address, threading.Event())  # a worker that comes first would ask again seconds later

    yield address, start
    for process in reversed(started):
        process.close(5)


def test_a_master_that_is_none(temporary: Path) -> None:
    with pytest.raises(SparkStartError, match=r"^Spark did not start: .*Could not parse Master URL: 'local\[x\]'"):
        SparkJobs(spark_settings({"spark.master": "local[x]"}))
    assert jvms() == []
    assert leftovers(temporary) == []


@pytest.mark.parametrize("kind", [SparkEngine, ResidentEngine])
def test_a_cluster(
    cluster: tuple[str, Callable[[], None]], kind: type[SparkEngine | ResidentEngine], tmp_path: Path
) -> None:
    """It may start after the worker. A context that the cluster has ended is followed by another one."""
    address, start = cluster
    own = {"spark.master": address, "spark.executor.memory": "512m"}
    with pytest.raises(ConfigError, match=r"spark\.authenticate\.secret"):
        kind(own)
    engine = kind({**own, "spark.authenticate.secret": SECURED["spark.authenticate.secret"]})
    waiting = engine.submit("early", [Answer(1)])
    engine.start()
    start()
    assert waiting.result(CLUSTER_S) == [1]
    in_flight = engine.submit("a-0", [Hang(str(tmp_path / "started"))])
    wait_until((tmp_path / "started").exists, CLUSTER_S)
    assert engine.spark is not None
    engine.spark._context._jsc.sc().stop()
    with pytest.raises(SparkLostError):
        in_flight.result(CLUSTER_S)

    def again() -> bool:
        with suppress(SparkLostError):  # a process that is about to end with its context may have taken it
            return engine.submit("a-0", [Answer(3)]).result(CLUSTER_S) == [3]
        return False

    wait_until(again, CLUSTER_S)
    (driver,) = wait_until(jvms)
    for process in psutil.process_iter():  # the executor among them: command lines are for everybody to read
        with suppress(psutil.Error):
            assert SECURED["spark.authenticate.secret"] not in " ".join(process.cmdline())
    engine.close()
    wait_gone([driver])
