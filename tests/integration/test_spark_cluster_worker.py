"""A worker with a standalone Spark cluster of two workers, whose executors have a different environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest

from tests.chaos.executors import Killing
from tests.rigs.cluster import SCHEMALESS
from tests.rigs.spark_cluster import SparkCluster, install_heeler, other_python
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, PATIENT, Kafka, Rig, running_worker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

RECORDS, KILLS, RATE = 200_000, 2, 30_000  # a JVM, and a Python process
ROWS = 1_000
STARTED_S = 240.0  # JVMs and their Python processes, on a busy machine
LATE = """
from heeler import source

@source("value string")
def Late(options, start):
    return [] if start else [("here",)], {"n": 1}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with SparkCluster(folder, folder / "work", workers=2).start() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is on the cluster's machines."""
    return other_python(tmp_path_factory.mktemp("python") / "it")


def test_executors_are_killed_one_after_the_other(
    cluster: SparkCluster, kafka: Kafka, python: Path, tmp_path: Path
) -> None:
    """With exactly-once; `make executors` also tests at-least-once, with more records."""
    reported: list[str] = []
    Killing(kafka, cluster, tmp_path, python, reported.append).run(RECORDS, KILLS, exactly_once=True, rate=RATE)
    assert len(reported) == KILLS, reported


def test_packages_and_plugins_missing_on_the_cluster_are_reported(
    cluster: SparkCluster, kafka: Kafka, tmp_path: Path
) -> None:
    """Executors have neither the packages of the worker's environment nor its plugin folder. Once they have, the demo's
    connectors run there, too; `make executors` runs the demo itself.
    """
    python, plugins, away = other_python(tmp_path / "bare", heeler=False), tmp_path / "plugins", tmp_path / "away"
    plugins.mkdir()
    (plugins / "late.py").write_text(LATE)
    more = {**cluster.settings, "spark.pyspark.python": str(python), "plugin.path": str(plugins), **PATIENT}
    with running_worker(kafka, tmp_path / "worker", "bare-cluster", **more) as rig:
        rig.create("late", {"connector.class": "Late", "topic": "late", **SCHEMALESS}, ["RUNNING", "RUNNING"])
        said = "No module named 'spark_tasks'). Every machine of the Spark cluster needs the same heeler as this worker"
        wait_until(lambda: said in rig.process.log.read_text(), STARTED_S, said)
        assert str(python) in rig.process.log.read_text().partition(said)[2]
        plugins.rename(away)  # this worker has read it
        install_heeler(python)
        rig.wait_states("late", ["RUNNING", "FAILED"], STARTED_S)
        assert f"the plugin folder {plugins} is missing on this machine; on a Spark" in rig.rest.failure("late")
        away.rename(plugins)
        rig.call("POST", "/connectors/late/restart?includeTasks=true&onlyFailed=true")
        rig.wait_records("late", 1, STARTED_S)
        from_csv_to_parquet(rig, kafka.create("rows", 2))


def from_csv_to_parquet(rig: Rig, topic: str) -> None:
    """The demo, small: each row arrives."""
    csv, out = rig.folder / "csv", rig.folder / "parquet"
    csv.mkdir()
    (csv / "rows.csv").write_text("n,text\n" + "".join(f"{n},row {n}\n" for n in range(ROWS)))
    own = {"value.converter": JSON}
    rig.create("in", {"connector.class": "files", "format": "csv", "path": str(csv), "topic": topic, **own})
    rig.create("out", {"connector.class": "parquet", "tasks.max": "2", "topics": topic, "path": str(out), **own})

    def arrived() -> bool:
        found = pyarrow.dataset.dataset(out, format="parquet", exclude_invalid_files=True).to_table().to_pydict()
        assert sorted(found.get("n", [])) == list(range(ROWS)), rig.rest.failure("in")  # no file has been completed yet
        assert set(found["text"]) == {f"row {n}" for n in range(ROWS)}
        return True

    wait_until(lambda: out.exists() and arrived(), STARTED_S, "the rows")
