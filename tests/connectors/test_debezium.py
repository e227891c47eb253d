"""Debezium from Maven Central on a real worker: PostgreSQL's changes into Kafka, exactly once, and from there into a
table of the same server. `make connectors`.
"""

from __future__ import annotations

import json

import pytest

from heeler.java_host.install import Coordinates, install
from tests.rigs.postgres import running_postgres
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, PATIENT, Kafka, processes_of, running_worker

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(900)]

PLUGINS = ("debezium-connector-postgres:3.7.0.Final", "debezium-connector-jdbc:3.5.0.Final")
SOON_S = 120.0
TOPIC = "shop.public.orders"


@pytest.fixture(scope="module")
def jars(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jars")
    for name in PLUGINS:
        install(Coordinates.parse(f"io.debezium:{name}"), folder, print)
    return folder


@pytest.fixture
def postgres():
    with running_postgres() as server:
        yield server


@pytest.fixture
def rig(broker, jars, tmp_path):
    more = {"plugin_path": str(jars), "exactly_once_source_support": "enabled", "offset_flush_interval_ms": "500",
            "java_plugins_jvm_options": "-Xmx512M"}
    with running_worker(Kafka(broker.bootstrap_servers), tmp_path / "worker", "debezium", **more, **PATIENT) as rig:
        yield rig


def events(rig):
    """(operation, id, amount) of each; a tombstone has no operation."""
    found = []
    for message in rig.kafka.messages(TOPIC):
        key = json.loads(message.key())["payload"]["id"]
        if message.value() is None:
            found.append(("tombstone", key, None))
            continue
        event = json.loads(message.value())["payload"]
        found.append((event["op"], key, event["after"] and event["after"]["amount"]))
    return found


def wait_events(rig, wanted):
    def same():
        assert rig.kafka.end(TOPIC)
        found = events(rig)
        assert len(found) >= len(wanted), f"{len(found)} of {len(wanted)} events"
        return True

    wait_until(same, SOON_S, f"{len(wanted)} events")
    assert events(rig) == wanted


def kill_host(rig):
    (host,) = [p for p in processes_of(rig.process) if p.name() == "java" and "heeler.host.Host" in p.cmdline()]
    host.kill()


def test_debezium_source_and_sink(rig, postgres):
    """Snapshot, changes, restart, kill -9 of the host: each event once and in order; then the copy is the table."""
    postgres.sql("create table orders (id int primary key, amount int, note text);"
                 "insert into orders select n, n * 10, 'snapshot' from generate_series(1, 1000) n")
    place = {"database.hostname": "127.0.0.1", "database.port": str(postgres.port), "database.user": "postgres",
             "database.password": "any", "database.dbname": "postgres"}
    converters = {"key.converter": JSON, "value.converter": JSON}
    rig.create("orders", {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput",
        "topic.prefix": "shop", "table.include.list": "public.orders", "exactly.once.support": "required",
        **place, **converters}, ["RUNNING", "RUNNING"])
    wanted = [("r", n, n * 10) for n in range(1, 1001)]
    wait_events(rig, wanted)
    postgres.sql("insert into orders values (2001, 1, 'new'); update orders set amount = 2 where id = 2001")
    postgres.sql("delete from orders where id = 7")
    wanted += [("c", 2001, 1), ("u", 2001, 2), ("d", 7, None), ("tombstone", 7, None)]
    wait_events(rig, wanted)
    rig.call("POST", "/connectors/orders/restart?includeTasks=true")
    postgres.sql("insert into orders values (2002, 3, 'restarted')")
    wanted.append(("c", 2002, 3))
    wait_events(rig, wanted)
    rig.create("copy", {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": TOPIC, "insert.mode": "upsert",
        "primary.key.mode": "record_key", "delete.enabled": "true", "schema.evolution": "basic",
        "collection.name.format": "copy", "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
        "connection.username": "postgres", "connection.password": "any", **converters}, ["RUNNING", "RUNNING"])
    for burst in range(10):
        first = 3000 + 100 * burst
        postgres.sql(f"insert into orders select n, n, 'burst' from generate_series({first}, {first + 99}) n")  # noqa: S608
        wanted += [("c", n, n) for n in range(first, first + 100)]
        if burst == 4:
            kill_host(rig)
    wait_events(rig, wanted)
    table = postgres.sql("select id, amount, note from orders order by id")

    def copied():
        assert postgres.sql("select id, amount, note from copy order by id") == table
        return True

    wait_until(copied, SOON_S, "the copy to be the table")
    for name in ("copy", "orders"):
        rig.delete(name)
