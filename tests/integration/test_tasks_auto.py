"""The number of a sink's tasks follows its lag (tasks.auto), and what is exactly once stays so."""

from __future__ import annotations

import json

import pyarrow.dataset as ds
import pytest

from tests.integration.test_worker_metrics import metrics
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration

FIRST, SECOND, PARTITIONS = 20_000, 5_000, 4


def test_tasks_come_with_a_backlog_and_go_without_it(rig, topic_name):
    rig.kafka.create(topic_name, PARTITIONS)
    rig.kafka.send(topic_name, [json.dumps({"n": n}) for n in range(FIRST)])
    release, out = rig.folder / "release", rig.folder / "out"
    rig.create(topic_name, {
        "connector.class": "DawdlingSink", "topics": topic_name, "path": str(out), "release": str(release),
        "kafka.columns": "true", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false", "consumer.override.max.poll.records": "500",
        "tasks.max": "3", "tasks.auto": "true", "tasks.auto.lag": "100", "tasks.auto.period.ms": "1000"})
    rig.wait_states(topic_name, ["RUNNING"] * 4, 60)  # itself and three tasks: two of them came later
    story = str(rig.call("GET", f"/connectors/{topic_name}/story"))
    assert "1 -> 2 tasks" in story
    assert "2 -> 3 tasks" in story
    found = metrics(rig)
    assert found["heeler_connector_tasks_wanted", topic_name] == 3
    assert found["heeler_connector_lag_records", topic_name] > 300
    release.touch()
    rig.kafka.send(topic_name, [json.dumps({"n": n}) for n in range(FIRST, FIRST + SECOND)])  # while tasks go
    rig.wait_states(topic_name, ["RUNNING"] * 2, 60)
    assert "-> 1 tasks" in str(rig.call("GET", f"/connectors/{topic_name}/story"))

    def all_there() -> bool:
        rows = ds.dataset(out, format="parquet").to_table(columns=["n"])["n"].to_pylist()
        assert len(rows) == FIRST + SECOND
        assert sorted(rows) == list(range(FIRST + SECOND))
        return True

    wait_until(all_there, 30, "each record once")
