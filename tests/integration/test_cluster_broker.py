"""A cluster whose broker is away for longer than the workers' sessions: everybody stops, and comes back by itself."""

from __future__ import annotations

import pytest

from heeler.broker import EmbeddedBroker
from tests.integration.cluster import Cluster
from tests.integration.workers import Kafka
from tests.support import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def test_the_broker_stops_and_comes_back(tmp_path):
    with (EmbeddedBroker(quick=True, settings={"group.min.session.timeout.ms": "500"}) as broker,
          Cluster(Kafka(broker.bootstrap_servers), tmp_path, "cluster-broker") as cluster):
        cluster.move_numbers()
        cluster.wait_settled()
        cluster.wait_flowing()
        broker.stop()
        wait_until(lambda: all("Lost the group coordinator" in w.log.read_text() for w in cluster.workers), 30,
                   "all workers to stop their work")
        broker.start()
        cluster.wait_settled()
        cluster.wait_flowing()
