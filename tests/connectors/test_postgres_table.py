"""A Python sink for a real PostgreSQL: the records of a batch that it refuses; its absence is not a bad record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.rigs import postgres_table
from tests.rigs.postgres import running_postgres
from tests.rigs.support import wait_until
from tests.rigs.topic_reader import letters
from tests.rigs.workers import PATIENT, Kafka, running_worker

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(300)]

SOON_S = 60.0
COUNT = 20_000


def record(n: int) -> str:
    return json.dumps({"region": "eu", "id": n, "note": f"note {n}"})


def test_a_database_refuses_records_and_goes_away(broker, tmp_path, topic_name):
    plugins, dead = tmp_path / "plugins", f"{topic_name}-dead"
    plugins.mkdir()
    shutil.copy(Path(postgres_table.__file__), plugins)
    settings = {"plugin_path": str(plugins), "offset_flush_interval_ms": "500", **PATIENT}
    with (running_postgres() as postgres,
          running_worker(Kafka(broker.bootstrap_servers), tmp_path / "worker", topic_name, **settings) as rig):
        postgres.sql("create table target (region text, id bigint, note text not null check (note <> 'bad'),"
                     " primary key (region, id));"
                     "insert into target select 'eu', n, 'there' from generate_series(0, 19999, 1000) n")
        values = [record(n) for n in range(COUNT)]
        values[1500] = json.dumps({"region": "eu", "id": 1500, "note": None})
        values[2500] = json.dumps({"region": "eu", "id": 2500, "note": "bad"})
        values[3600] = record(3500)
        refused = {values[n] for n in (*range(0, COUNT, 1000), 1500, 2500, 3600)}
        rig.kafka.create(topic_name)
        rig.kafka.send(topic_name, values)
        rig.create(topic_name, {
            "connector.class": "TableSink", "topics": topic_name, "port": str(postgres.port), "tasks.max": "1",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
            "errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true"}, ["RUNNING", "RUNNING"])  # fmt: skip
        rows = "select count(*), count(*) filter (where note <> 'there') from target"
        wait_until(lambda: postgres.sql(rows) == [f"{COUNT - 3}|{COUNT - 23}"], SOON_S, "the rows")
        wait_until(lambda: len(letters(rig.kafka.servers, dead)) == len(refused), SOON_S, "the letters")
        found = letters(rig.kafka.servers, dead)
        assert {value.decode() for value, _ in found} == refused
        assert {headers["exception.class.name"].split(".")[-1] for _, headers in found} == {
            "UniqueViolation", "NotNullViolation", "CheckViolation"}
        postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity"
                     " where pid <> pg_backend_pid() and usename = 'postgres'")
        rig.kafka.send(topic_name, [record(n) for n in range(COUNT, COUNT + 100)])
        wait_until(lambda: postgres.sql(rows) == [f"{COUNT + 97}|{COUNT + 77}"], SOON_S, "the rows after the outage")
        assert len(letters(rig.kafka.servers, dead)) == len(refused), "an outage is not a bad record"
        rig.delete(topic_name)
