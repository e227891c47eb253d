"""A config provider of a third party from Maven Central, on a real worker. `make connectors`."""

from __future__ import annotations

import pytest

from heeler.java_host.install import Coordinates, install
from tests.rigs.workers import PATIENT, Kafka, running_worker

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(300)]


def test_environment_variables_as_strimzi_reads_them(broker, tmp_path, monkeypatch):
    """For the worker's file and for a connector of heeler's own."""
    jars = tmp_path / "jars"
    install(Coordinates.parse("io.strimzi:kafka-env-var-config-provider:1.1.0"), jars, print)
    lines = tmp_path / "secret-name"
    lines.write_text("one\n")
    monkeypatch.setenv("HEELER_TEST_LINES", str(lines))
    monkeypatch.setenv("HEELER_TEST_FLUSH", "500")
    more = {"plugin_path": str(jars), "config_providers": "variables",
            "config_providers_variables_class": "io.strimzi.kafka.EnvVarConfigProvider",
            "offset_flush_interval_ms": "${variables:HEELER_TEST_FLUSH}"}
    with running_worker(Kafka(broker.bootstrap_servers), tmp_path / "worker", "providers", **more, **PATIENT) as rig:
        rig.create("lines", {"connector.class": "FileStreamSource", "topic": "lines",
                             "file": "${variables:HEELER_TEST_LINES}"}, ["RUNNING", "RUNNING"])
        rig.wait_records("lines", 1, 120.0)
        assert rig.kafka.values("lines") == ["one"]
        assert rig.call("GET", "/connectors/lines/config")["file"] == "${variables:HEELER_TEST_LINES}"
        assert "secret-name" not in rig.process.log.read_text()
        rig.delete("lines")
