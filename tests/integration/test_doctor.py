"""`heeler doctor` and a real Kafka: misconfigured internal topics."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from tests.rigs.workers import Kafka

pytestmark = pytest.mark.integration


def test_doctor_checks_the_internal_topics(broker, worker_properties, topic_name, tmp_path):
    kafka = Kafka(broker.bootstrap_servers)
    kafka.create(f"{topic_name}-configs", 2, cleanup_policy="compact")
    kafka.create(f"{topic_name}-statuss", 2, cleanup_policy="delete")
    file = tmp_path / "worker.properties"
    settings = {**worker_properties, "offset.storage.replication.factor": "3"}
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def doctor(code):
        done = CliRunner(env={"HEELER_URL": ""}).invoke(main, ["doctor", str(file), "-o", "json"])
        assert done.exit_code == code, done.output
        found = [said for said in json.loads(done.stdout) if said["about"] in ("brokers", "internal topics")]
        return [(said["verdict"], said["message"]) for said in found]

    reported = doctor(1)
    assert [verdict for verdict, _ in reported] == ["ok", "error", "error", "error"]
    for (_, said), words in zip(reported[1:], ("single partition", "replication.factor is 3", "cleanup.policy=delete"),
                                strict=True):
        assert words in said
    # It has made nothing, and once all is mended it says so.
    assert f"{topic_name}-offsets" not in kafka.admin.list_topics(timeout=10).topics
    kafka.configure(f"{topic_name}-statuss", "cleanup.policy", "compact")
    settings |= {"config.storage.topic": f"{topic_name}-others", "offset.storage.replication.factor": "1"}
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    assert [verdict for verdict, _ in doctor(0)] == ["ok"] * 4
