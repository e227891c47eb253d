"""Clusters of one broker in the process of the test."""

from __future__ import annotations

import pytest

from tests.rigs.loop_cluster import Cluster


@pytest.fixture
def started():
    clusters = []

    def start(broker, **options):
        clusters.append(Cluster(broker, **options))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.io.close()
