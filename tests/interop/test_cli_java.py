"""The `heeler` command and a Java worker; tests/integration/test_cli_cluster.py has the same with heeler's."""

from __future__ import annotations

import pytest

from tests.rigs.cli_tour import tour
from tests.rigs.java_worker import JavaWorker
from tests.rigs.kafka_tools import TOOLS
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_the_command_line(broker, tmp_path, worker_properties, topic_name):
    java = JavaWorker(tmp_path, worker_properties, TOOLS)  # which have log4j: loggers want it
    try:
        java.start()
        tour(java.rest.url, Kafka(broker.bootstrap_servers), tmp_path, topic_name)
    finally:
        java.stop(0)
