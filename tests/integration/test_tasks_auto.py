"""The number of a sink's tasks follows its lag (tasks.auto, tasks.max=auto), and exactly-once delivery is preserved."""

from __future__ import annotations

import json

import pyarrow.dataset as ds
import pytest

from heeler.cli.client.rest_client import RestError
from tests.rigs.cluster import Cluster
from tests.rigs.scrape import metrics
from tests.rigs.support import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

FIRST, SECOND, PARTITIONS, TURNS = 20_000, 5_000, 4, 2
SLOW_SINK = {
    "connector.class": "DawdlingSink", "kafka.columns": "true", "consumer.override.max.poll.records": "500",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
    "tasks.auto.lag": "100", "tasks.auto.period.ms": "1000"}


def numbers(first: int, count: int) -> list[str]:
    return [json.dumps({"n": n}) for n in range(first, first + count)]


def test_tasks_are_added_with_a_backlog_and_removed_without_it(rig, topic_name):
    rig.kafka.create(topic_name, PARTITIONS)
    rig.kafka.send(topic_name, numbers(0, FIRST))
    release, out = rig.folder / "release", rig.folder / "out"
    rig.create(topic_name, {**SLOW_SINK, "topics.regex": topic_name, "path": str(out), "release": str(release),
                            "tasks.max": "3", "tasks.auto": "true"})
    rig.wait_states(topic_name, ["RUNNING"] * 4, 60)  # itself and three tasks: two of them came later
    story = str(rig.call("GET", f"/connectors/{topic_name}/story"))
    assert "from 1 to 2 tasks" in story
    assert "from 2 to 3 tasks" in story
    found = metrics(rig)
    assert found["heeler_connector_tasks_wanted", topic_name] == 3
    assert found["heeler_connector_lag_records", topic_name] > 300
    release.touch()
    rig.kafka.send(topic_name, numbers(FIRST, SECOND))  # while tasks go
    rig.wait_states(topic_name, ["RUNNING"] * 2, 60)
    assert "to 1 tasks" in str(rig.call("GET", f"/connectors/{topic_name}/story"))

    def all_there() -> bool:
        rows = ds.dataset(out, format="parquet").to_table(columns=["n"])["n"].to_pylist()
        assert len(rows) == FIRST + SECOND
        assert sorted(rows) == list(range(FIRST + SECOND))
        return True

    wait_until(all_there, 30, "each record once")


def config_of(worker, name):
    """None until this worker, which may not be the one that was asked to create the connector, has read the config."""
    try:
        return worker.rest.call("GET", f"/connectors/{name}/config")
    except RestError as error:
        if error.status != 404:
            raise
        return None


def test_tasks_scale_up_and_down_on_two_workers_and_write_each_record_once(kafka, topic_name, tmp_path):
    """Records come all the time, also while tasks come, move to the other worker, and go. Each is written once, as it
    was sent.
    """
    kafka.create(topic_name, PARTITIONS)
    release, out, sent = tmp_path / "release", tmp_path / "out", 0

    def more(count: int = 20) -> None:
        nonlocal sent
        kafka.send(topic_name, numbers(sent, count))
        sent += count

    with Cluster(kafka, tmp_path, topic_name, size=2) as cluster:
        config = {**SLOW_SINK, "name": topic_name, "topics": topic_name, "path": str(out), "release": str(release),
                  "tasks.max": "auto", "tasks.auto.max": "4", "tasks.auto.min": "1", "tasks.auto.lag": "1000"}
        cluster.wanted[topic_name] = 4
        for worker in cluster.living():
            worker.rest.put_config(topic_name, config)
            wait_until(lambda: config_of(worker, topic_name) == config, 30, "what was put")  # noqa: B023

        def tasks(load: int = 20) -> list[str]:
            """The workers of its tasks, all of which run, under load."""
            more(load)
            parts = cluster.parts(cluster.living()[0])
            assert all(state == "RUNNING" for state, _ in parts.values()), parts
            return [worker for name, (_, worker) in parts.items() if name != topic_name]

        for _ in range(TURNS):
            more(12_000)

            def on_both() -> bool:
                """So much is sent meanwhile that two tasks do not catch up."""
                workers = tasks(load=400)
                return len(workers) == 4 and len(set(workers)) == 2

            wait_until(on_both, 90, "four tasks on both workers")
            release.touch()
            wait_until(lambda: len(tasks()) == 1, 90, "one task")
            release.unlink()

        def all_there() -> bool:
            return ds.dataset(out, format="parquet").count_rows() >= sent

        release.touch()
        wait_until(all_there, 60, "the last record")
    rows = ds.dataset(out, format="parquet").to_table(columns=["_partition", "_offset", "n"]).to_pylist()
    written = sorted((row["_partition"], row["_offset"], row["n"]) for row in rows)
    there = kafka.messages(topic_name)
    assert written == sorted((m.partition(), m.offset(), json.loads(m.value())["n"]) for m in there)
    assert sorted(row["n"] for row in rows) == list(range(sent))
