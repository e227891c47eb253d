"""Spark leaves no temporary files, however its JVM ends."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.context import SparkJobs, spark_settings
from spark_tasks.spark.gateway import SparkStartError
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until
from tests.rigs.workers import jvms, leftovers, wait_gone

pytestmark = pytest.mark.integration

START_S = 120.0  # on a busy machine


def test_closing_while_spark_starts_leaves_no_process_and_no_file(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing waits for the start that is in progress."""
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    here = psutil.Process()
    before = here.children(recursive=True)
    engine = SparkEngine({})
    engine.start()
    engine.submit("a-0", [Answer(1)])
    family = wait_until(lambda: [child for child in here.children(recursive=True) if child not in before])
    # Spark makes its folder a few milliseconds before it notes that the folder is to be deleted.
    wait_until(lambda: any(temporary.glob("heeler-spark-*/spark-*")), 60, "Spark's folder", longest_pause=0.001)
    engine.close()
    wait_gone(family)
    assert leftovers(temporary) == []


def test_a_killed_jvm_leaves_no_file(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    engine = SparkEngine({})
    engine.start()
    assert engine.submit("a-0", [Answer(1)]).result(START_S) == [1]
    (jvm,) = jvms()
    jvm.kill()
    engine.close()
    assert leftovers(temporary) == []


@pytest.mark.nightly
def test_a_jvm_that_ends_as_soon_as_it_has_started_leaves_no_file_and_can_be_replaced(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    settings = spark_settings({})

    def killed(spark: SparkJobs) -> None:
        psutil.Process(spark.pid).kill()
        assert not spark.process_lives(START_S)

    with monkeypatch.context() as patched:
        patched.setattr(SparkJobs, "count_slots", killed)
        with pytest.raises(SparkStartError):
            SparkJobs(settings)
    assert leftovers(temporary) == []
    SparkJobs(settings).close()
