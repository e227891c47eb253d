"""One worker process that most integration tests share."""

from __future__ import annotations

import pytest

from tests.integration.workers import Kafka, Rig, running_worker


@pytest.fixture(scope="session")
def kafka(broker):
    return Kafka(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def shared_worker(kafka, tmp_path_factory):
    with running_worker(kafka, tmp_path_factory.mktemp("worker"), "shared-worker") as rig:
        yield rig


@pytest.fixture
def rig(shared_worker, tmp_path):
    """The shared worker with a folder of this test's own; its connectors go afterwards."""
    assert shared_worker.process.exit_code() is None, shared_worker.process.tail()
    own = Rig(shared_worker.process, shared_worker.kafka, tmp_path)
    yield own
    own.tidy()
