"""The engine with a standalone Spark cluster on this machine, and with a Spark that cannot be started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark import SparkContext

import tests
from spark_tasks.errors import ConfigError
from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.context import SparkJobs, SparkLostError, spark_settings
from spark_tasks.spark.gateway import SparkStartError
from spark_tasks.spark.lifecycle import EngineState
from spark_tasks.spark.residents.engine import ResidentEngine
from tests.rigs.spark_cluster import SECRET, SparkCluster
from tests.rigs.splits import Answer, Hang
from tests.rigs.support import wait_until
from tests.rigs.workers import jvms, leftovers, wait_gone

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]

CLUSTER_S = 170.0  # three JVMs and their Python workers on a busy machine


@pytest.fixture
def cluster(tmp_path: Path, temporary: Path) -> Iterator[SparkCluster]:
    """Of one worker, with a secret; not started yet."""
    with SparkCluster(tmp_path, temporary) as cluster:
        yield cluster


def test_an_invalid_spark_master_is_reported(temporary: Path) -> None:
    with pytest.raises(SparkStartError, match=r"^Spark did not start: .*Could not parse Master URL: 'local\[x\]'"):
        SparkJobs(spark_settings({"spark.master": "local[x]"}))
    assert jvms() == []
    assert leftovers(temporary) == []


@pytest.mark.parametrize("kind", [pytest.param(SparkEngine, marks=pytest.mark.nightly), ResidentEngine])
def test_splits_run_on_a_spark_cluster_that_starts_late_or_ends_the_context(
    cluster: SparkCluster, kind: type[SparkEngine | ResidentEngine], tmp_path: Path
) -> None:
    """The first batch starts Spark, and waits for the cluster. Another context follows one that the cluster has ended.
    """
    own = {**cluster.settings, "spark.executorEnv.PYTHONPATH": str(Path(tests.__file__).parents[1])}
    with pytest.raises(ConfigError, match=r"spark\.authenticate\.secret"):
        kind({key: value for key, value in own.items() if key != "spark.authenticate.secret"})
    engine = kind(own)
    engine.start()
    assert engine.state is EngineState.NEW, "a worker without batches holds no cores of the cluster"
    waiting = engine.submit("early", [Answer(1)])
    cluster.start()
    assert waiting.result(CLUSTER_S) == [1]
    in_flight = engine.submit("a-0", [Hang(str(tmp_path / "started"))])
    wait_until((tmp_path / "started").exists, CLUSTER_S)
    SparkContext.getOrCreate()._jsc.sc().stop()  # noqa: SLF001 - PySpark's: in the JVM, as a cluster ends it
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
            assert SECRET not in " ".join(process.cmdline())
    engine.close()
    wait_gone([driver])
