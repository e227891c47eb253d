"""The `heeler` command and a Java worker; tests/integration/test_cli_cluster.py has the same with heeler's."""

from __future__ import annotations

import pytest

from tests.rigs.cli_tour import SINK, tour
from tests.rigs.connector_states import states_of
from tests.rigs.jar_sets import TOOLS
from tests.rigs.java_worker import JavaWorker
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_the_command_line_tour_against_a_java_worker(broker, tmp_path, worker_properties, topic_name):
    java = JavaWorker(tmp_path, worker_properties, TOOLS)  # which have log4j: loggers want it
    try:
        java.start()
        tour(java.rest.url, Kafka(broker.bootstrap_servers), tmp_path, topic_name)
        _takes_keys_of_heeler(java, topic_name)
    finally:
        java.close()


def _takes_keys_of_heeler(java: JavaWorker, topic: str) -> None:
    """tasks.auto and tasks.weight: a group may have Java workers, which then make tasks.max tasks."""
    config = {"connector.class": SINK, "topics": topic, "file": "/dev/null", "tasks.max": "2", "tasks.auto": "true",
              "tasks.auto.min": "1", "tasks.weight": "5"}
    java.rest.put_config(topic, config)
    wait_until(lambda: states_of(java.rest, topic) == ["RUNNING"] * 3, 60, "two tasks")
    assert java.rest.call("GET", f"/connectors/{topic}/config").items() >= config.items()
