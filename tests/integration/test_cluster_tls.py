"""Workers whose listeners are https: requests are forwarded, and task configs sent to the leader, over TLS."""

from __future__ import annotations

import ssl

import pytest

from heeler.cli.client.rest_client import RestClient
from rest.server.tls import client_context
from tests.rigs.cluster import SCHEMALESS, Cluster
from tests.rigs.serving import make_certificates

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def test_workers_talk_to_each_other_over_tls(kafka, tmp_path, topic_name):
    files = make_certificates(tmp_path / "tls")
    tls = {"ssl.keystore.location": str(files.pem), "ssl.truststore.location": str(files.certificate)}
    cluster = Cluster(kafka, tmp_path, topic_name, 2, listeners_https_ssl_client_auth="required")
    for worker in cluster.workers:
        worker.properties |= {"listeners": f"https://127.0.0.1:{worker.port}",
                              **{f"listeners.https.{key}": value for key, value in tls.items()}}
        worker.rest = RestClient("127.0.0.1", worker.port, tls=client_context(tls))
    with cluster:
        for name in ("one", "two"):  # each worker gets one of the connectors, and one of them is not the leader
            config = {"connector.class": "datagen", "topic": f"{topic_name}-{name}", "streams": "2", **SCHEMALESS}
            cluster.create(name, config, 2)
        cluster.wait_settled()
        leader, follower = cluster.leader(), cluster.follower()
        assert follower.rest.call("GET", "/connectors/one/tasks/0/status")["worker_id"].startswith("127.0.0.1:")
        follower.rest.call("POST", "/connectors/two/restart?includeTasks=true")
        cluster.wait_settled()
        follower.rest.call("DELETE", "/connectors/one")
        del cluster.wanted["one"]
        cluster.wait_settled(even=False)
        assert leader.rest.call("GET", "/connectors") == ["two"]
        stranger = ssl.create_default_context(cafile=str(files.certificate))  # it has no certificate to show
        with pytest.raises(OSError, match=r"(?i)certificate|reset|eof|closed|answer"):
            RestClient("127.0.0.1", leader.port, tls=stranger).call("GET", "/")
