"""A cluster whose broker is away for longer than the workers' sessions: everybody stops, and comes back by itself; and
one worker that cannot read the config topic.
"""

from __future__ import annotations

import pytest

from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.ports import free_port
from tests.rigs import probes
from tests.rigs.cluster import Cluster
from tests.rigs.proxy import Proxy
from tests.rigs.support import BACK_SOON, wait_until
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture
def broker_and_proxy():
    """A broker of this file's own, for it is stopped, and a proxy before a second listener of it."""
    port = free_port()
    with Proxy(port) as proxy:
        settings = {"listeners": f"PROXIED://127.0.0.1:{port}", "advertised.listeners": f"PROXIED://{proxy.address}",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
                    "group.min.session.timeout.ms": "500", **BACK_SOON}
        with EmbeddedBroker(quick=True, settings=settings) as broker:
            yield broker, proxy


def test_workers_recover_from_failures_of_the_broker_and_the_network(broker_and_proxy, tmp_path):
    broker, proxy = broker_and_proxy
    times = {"worker_sync_timeout_ms": "1000", "worker_unsync_backoff_ms": "1000"}
    cluster = Cluster(Kafka(broker.bootstrap_servers), tmp_path, "cluster-broker", 2, bootstrap_servers=proxy.address,
                      **times)
    for n, worker in enumerate(cluster.workers):
        worker.properties["client.id"] = f"worker-{n}"
    with cluster:
        cluster.move_numbers()
        cluster.wait_settled()
        cluster.wait_flowing()
        for worker in cluster.workers:
            probes.after_start(worker.port)
            assert probes.succeeds("startupProbe", worker.port)
            assert probes.succeeds("readinessProbe", worker.port)
        one_cannot_read_the_config_topic(cluster, proxy)
        broker.stop(graceful=False)
        wait_until(lambda: all("Lost the group coordinator" in w.log.read_text() for w in cluster.workers), 30,
                   "all workers to stop their work")
        assert not any(probes.succeeds("readinessProbe", worker.port) for worker in cluster.workers)
        assert all(probes.succeeds("livenessProbe", worker.port) for worker in cluster.workers)
        broker.start()
        cluster.wait_settled()
        cluster.wait_flowing()
        assert all(probes.succeeds("readinessProbe", worker.port) for worker in cluster.workers)


def one_cannot_read_the_config_topic(cluster, proxy):
    """It leaves the group, and others have its work; later it is back."""
    cut_off, leader = cluster.follower(), cluster.leader()
    proxy.hold(f"{cut_off.properties['client.id']}-configs")
    cluster.wanted["alone"] = 3
    config = {"connector.class": "AloneSource", "topic": "none", "folder": str(cluster.folder), "tasks.max": "3"}
    leader.rest.put_config("alone", config)
    cluster.wait_settled(without=[cut_off])
    assert "Could not read the config topic to its end" in cut_off.log.read_text()
    cluster.wait_flowing()
    proxy.hold("")
    cluster.wait_settled()
    cluster.wait_flowing()
    assert "twice" not in "".join(file.read_text() for file in cluster.folder.glob("alone*"))
