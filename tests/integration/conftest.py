"""The worker process that most integration tests share, and tasks in the process of the test."""

from __future__ import annotations

import pytest

from spark_tasks.connectors.verify import read_summary
from tests.rigs.exactly_once_tasks import OnceRig
from tests.rigs.java_connectors import worker_with_jars
from tests.rigs.support import wait_until
from tests.rigs.task_rigs import SinkRig, SourceRig
from tests.rigs.workers import JSON, PATIENT, Kafka, running_worker, shared


@pytest.fixture(scope="session")
def kafka(broker):
    kafka = Kafka(broker.bootstrap_servers)
    yield kafka
    del kafka.admin  # librdkafka would print that the broker is gone


COMPILED_S = 170.0  # on a machine that has never run heeler, numba compiles before the first record


@pytest.fixture(scope="session")
def warm_worker(kafka, tmp_path_factory):
    """A worker that has already moved records."""
    provider = {"config_providers": "short", "config_providers_short_class": "short_lived.ShortLivedConfigProvider"}
    with running_worker(kafka, tmp_path_factory.mktemp("worker"), "shared-worker", **provider, **PATIENT) as rig:
        sums = rig.folder / "sums"
        own = {"value.converter": JSON}
        rig.create("warm-in", {"connector.class": "datagen", "topic": "warm", "records": "10", **own})
        rig.create("warm-out", {"connector.class": "verify", "topics": "warm", "path": str(sums), **own})
        wait_until(lambda: read_summary(sums).to_json()["records"] == 10, COMPILED_S, "the first records")
        rig.tidy()
        yield rig


@pytest.fixture
def rig(warm_worker, tmp_path):
    """The shared worker with a folder for this test; its connectors are deleted afterwards."""
    with shared(warm_worker, tmp_path) as own:
        yield own


@pytest.fixture(scope="session")
def java_worker(kafka, tmp_path_factory):
    """A worker with jars in its plugin.path, shared by tests that do it no harm."""
    with worker_with_jars(kafka, tmp_path_factory.mktemp("java"), "java-worker") as rig:
        yield rig


@pytest.fixture
def sink(broker, tmp_path):
    """Tasks of a sink, with the real broker."""
    rig = SinkRig(broker.bootstrap_servers, tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def source(broker, tmp_path):
    """Tasks of a source, with the real broker."""
    rig = SourceRig(broker.bootstrap_servers, tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def once(broker, tmp_path):
    """Tasks of an exactly-once source, with the real broker."""
    rig = OnceRig(broker.bootstrap_servers, tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files of every process that the test starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.io.tmpdir={folder}")
    return folder
