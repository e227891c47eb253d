"""Exactly-once support is enabled in a running cluster worker by worker: disabled, preparing, enabled (KIP-618)."""

from __future__ import annotations

import pytest

from tests.rigs.cluster import PACED, SCHEMALESS, Cluster
from tests.rigs.exactly_once_cluster import Reader, config_records
from tests.rigs.support import wait_until
from tests.rigs.workers import READY_S

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

STREAMS = 2


def transactions(cluster):
    """Offsets of the config topic that hold no record: where transactions end."""
    topic = cluster.settings["config.storage.topic"]
    return cluster.kafka.end(topic) - len(cluster.kafka.messages(topic))


def change(cluster, rate, **more):
    cluster.create("rolled", {"connector.class": "datagen", "topic": "rolled", "rate": str(rate), **PACED, **SCHEMALESS,
                              **more}, STREAMS)


def test_a_source_runs_through_a_rolling_change(kafka, tmp_path):
    kafka.create("rolled", STREAMS)
    with Cluster(kafka, tmp_path, "rolling", size=2) as cluster:
        change(cluster, 300)
        reader = Reader(kafka, "rolled", exactly=False)
        reader.wait_flowing(STREAMS)
        assert transactions(cluster) == 0
        for support in ("preparing", "enabled"):
            for worker in cluster.workers:
                assert worker.stop() == 0, worker.tail()
                worker.properties["exactly.once.source.support"] = support
                worker.start().wait_ready(READY_S)
                cluster.wait_settled(even=False)
            reader.wait_flowing(STREAMS)
            if support == "preparing":
                change(cluster, 301)
                wait_until(lambda: transactions(cluster) > 0, 20, "the leader's transactions")
                assert config_records(cluster, "tasks-fencing-") == []
        reader.exactly = True
        change(cluster, 302, **{"exactly.once.support": "required"})
        wait_until(lambda: config_records(cluster, "tasks-fencing-rolled")[1:], 30, "the fencing of tasks that wrote")
        cluster.leader().kill()
        cluster.wait_settled(even=False)
        reader.wait_flowing(STREAMS)
        reader.close()
