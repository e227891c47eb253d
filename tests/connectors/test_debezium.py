"""Debezium from Maven Central on a real worker: PostgreSQL's changes into Kafka, exactly once, and from there into a
table of the same server; beside a Java worker on the same database. `make connectors`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rigs import debezium
from tests.rigs.debezium import CONVERTERS, SINK, SOURCE, whole
from tests.rigs.java_worker import JavaWorker
from tests.rigs.postgres import running_postgres
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, Kafka, processes_of, running_worker, worker_settings

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(900)]

SOON_S = 120.0
TOPIC = "shop.public.orders"


@pytest.fixture(scope="module")
def jars(tmp_path_factory):
    return debezium.jars(tmp_path_factory.mktemp("jars"), SOURCE, SINK)


@pytest.fixture
def postgres():
    with running_postgres() as server:
        yield server


@pytest.fixture
def rig(broker, jars, tmp_path):
    more = {"plugin_path": str(jars), "exactly_once_source_support": "enabled", "offset_flush_interval_ms": "500",
            "java_plugins_jvm_options": "-Xmx512M"}
    group = f"debezium-{tmp_path.name[-20:]}"
    with running_worker(Kafka(broker.bootstrap_servers), tmp_path / "worker", group, **more, **PATIENT) as rig:
        yield rig


def kill_host(rig):
    (host,) = [p for p in processes_of(rig.process) if p.name() == "java" and "heeler.host.Host" in p.cmdline()]
    host.kill()


def test_debezium_source_and_sink(rig, postgres):
    """Snapshot, changes, restart, kill -9 of the host and of the worker: each event once and in order; then the copy is
    the table.
    """
    postgres.sql("create table orders (id int primary key, amount int, note text);"
                 "insert into orders select n, n * 10, 'snapshot' from generate_series(1, 1000) n")
    rig.create("orders", debezium.source(postgres, "orders"), ["RUNNING", "RUNNING"])
    wanted = [("r", n, n * 10) for n in range(1, 1001)]
    seen = lambda: debezium.wait_events(rig.kafka, TOPIC, wanted, SOON_S)  # noqa: E731
    seen()
    postgres.sql("insert into orders values (2001, 1, 'new'); update orders set amount = 2 where id = 2001")
    postgres.sql("delete from orders where id = 7")
    wanted += [("c", 2001, 1), ("u", 2001, 2), ("d", 7, None), ("tombstone", 7, None)]
    seen()
    rig.call("POST", "/connectors/orders/restart?includeTasks=true")
    postgres.sql("insert into orders values (2002, 3, 'restarted')")
    wanted.append(("c", 2002, 3))
    seen()
    rig.create("copy", {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": TOPIC, "insert.mode": "upsert",
        "primary.key.mode": "record_key", "delete.enabled": "true", "schema.evolution": "basic",
        "collection.name.format": "copy", "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
        "connection.username": "postgres", "connection.password": "any", **CONVERTERS}, ["RUNNING", "RUNNING"])
    for burst in range(15):
        first = 3000 + 100 * burst
        postgres.sql(f"insert into orders select n, n, 'burst' from generate_series({first}, {first + 99}) n")  # noqa: S608
        wanted += [("c", n, n) for n in range(first, first + 100)]
        if burst == 4:
            kill_host(rig)
        if burst == 9:
            seen()
            rig.process.kill()
    rig.process.start().wait_ready()
    seen()
    table = postgres.sql("select id, amount, note from orders order by id")

    def copied():
        assert postgres.sql("select id, amount, note from copy order by id") == table
        return True

    wait_until(copied, SOON_S, "the copy to be the table")
    for name in ("copy", "orders"):
        rig.delete(name)


def test_letters_of_the_sink_are_replayed_beside_its_own_records(rig, postgres):
    """Its task overrides open and preCommit, and finds no position in its table."""
    field = lambda kind, name: {"type": kind, "optional": False, "field": name}  # noqa: E731

    def text(fields, **payload):
        return json.dumps({"schema": {"type": "struct", "name": "row", "fields": fields}, "payload": payload})

    def send(n):
        rig.kafka.send("items", [text([field("int32", "id"), field("string", "note")], id=n, note=f"of {n}")],
                       [text([field("int32", "id")], id=n)])

    def rows(*wanted):
        def same():
            return postgres.sql("select id, note from items order by id") == [f"{n}|of {n}" for n in wanted]

        wait_until(same, SOON_S, f"the rows {wanted}")

    config = {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": "items", "insert.mode": "upsert",
        "primary.key.mode": "record_key", "schema.evolution": "basic", "collection.name.format": "items",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres", "connection.username": "postgres",
        "connection.password": "any", "key.converter": CONVERTERS["value.converter"], "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "items-dead", "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true"}
    rig.kafka.create("items")
    rig.create("items", {**config, "value.converter": "org.apache.kafka.connect.converters.LongConverter"},
               ["RUNNING", "RUNNING"])
    send(1)
    send(2)
    rig.wait_records("items-dead", 2, SOON_S)
    wait_until(lambda: rig.kafka.committed("connect-items") == {("items", 0): 2}, SOON_S, "the offsets")
    rig.call("PUT", "/connectors/items/stop")
    rig.wait_states("items", ["STOPPED"])
    rig.create("items", {**config, "value.converter": CONVERTERS["value.converter"]})
    rig.call("PUT", "/connectors/items/resume")
    rig.wait_states("items", ["RUNNING", "RUNNING"], SOON_S)
    send(3)
    rows(3)
    path = "/connectors/items/dead-letters/replay"
    assert "keeps_no_offsets" in str(rig.refused("POST", path, {}))
    rig.call("POST", path, {"keeps_no_offsets": True})
    wait_until(lambda: rig.call("GET", path)["state"] != "RUNNING", SOON_S, "the end of the replay")
    state = rig.call("GET", path)
    assert (state["state"], state["replayed"], state["refused_again"], state["error"]) == ("DONE", 2, 0, None)
    send(4)
    rows(1, 2, 3, 4)
    wait_until(lambda: rig.kafka.committed("connect-items") == {("items", 0): 4, ("items-dead", 0): 2}, SOON_S,
               "the offsets of the records and of the letters")
    rig.delete("items")


@pytest.fixture
def java(rig, broker, jars, tmp_path):
    """A worker of a group of its own."""
    folder = Path(tmp_path / "java")
    folder.mkdir()
    settings = worker_settings(broker.bootstrap_servers, f"{rig.process.properties['group.id']}-java",
                               plugin_path=str(jars), exactly_once_source_support="enabled")
    worker = JavaWorker(folder, settings)
    worker.start()
    yield worker
    worker.stop(0)


SCHEMA = """
create table kinds (id int primary key, small smallint, big bigint, price numeric(10, 2), free numeric, ratio float8,
    flag boolean, note text, raw bytea, doc jsonb, words text[], day date, at timestamp, zoned timestamptz,
    lasts interval, code uuid, amount int default 7);
alter table kinds replica identity full;
create table parts (number int, line int, what varchar(20) not null, primary key (number, line));
insert into kinds select n, n, n * 1000000007::bigint, n / 7.0, n / 3.0, sqrt(n), n % 2 = 0, repeat('x', n) || ' é 😀',
    decode(md5(n::text), 'hex'), jsonb_build_object('n', n), array['a', n::text, null], date '2024-02-29' + n,
    timestamp '2001-02-03 04:05:06.789' + n * interval '1 minute', timestamptz '2001-02-03 04:05:06+02',
    n * interval '1 day', md5(n::text)::uuid from generate_series(1, 200) n;
insert into kinds (id) values (0);
insert into parts select n / 10, n % 10, 'part ' || n from generate_series(1, 100) n;
"""
CHANGES = (
    "update kinds set note = null, price = -0.01 where id % 50 = 0",
    "update kinds set id = 1000 where id = 1",  # a delete and an insert, which headers tie together
    "delete from kinds where id between 10 and 14",
    """begin; insert into parts values (90, 1, 'in one'); insert into kinds (id, amount) values (2000, 1);
    update parts set what = 'transaction' where number = 90; commit""",
    "begin; insert into parts values (91, 1, 'never'); rollback",
    "alter table parts add column more text default 'later'",
    "insert into parts values (92, 1, 'with more', 'more')",
    "insert into kinds (id, raw, ratio) values (3000, '', 'NaN')",
    "update kinds set note = repeat('toast ', 5000) where id = 2000; update kinds set amount = 2 where id = 2000",
    "insert into parts select 100 + n, 0, 'burst' from generate_series(1, 300) n",
)


def test_events_equal_those_of_a_java_worker(rig, java, postgres):
    """One by one: schemas, keys, headers, the place of each change in the database's log; also after the worker and
    its host were killed.
    """
    postgres.sql(SCHEMA)
    for name in ("heeler", "java"):
        config = debezium.source(
            postgres, "kinds", "parts", slot_name=name, publication_name=name, publication_autocreate_mode="filtered",
            transforms="route", transforms_route_type="org.apache.kafka.connect.transforms.RegexRouter",
            transforms_route_regex=r"shop\.public\.(.*)", transforms_route_replacement=f"{name}.$1")
        (rig.rest if name == "heeler" else java.rest).put_config("changes", config)
    topics = {name: [f"{name}.{table}" for table in ("kinds", "parts")] for name in ("heeler", "java")}

    def read(name, count):
        def there():
            found = sum(len(rig.kafka.messages(topic)) for topic in topics[name] if rig.kafka.end(topic))
            assert found >= count, f"{found} of {count} events of {name}; {rig.process.tail()}"
            return True

        wait_until(there, SOON_S, f"the events of {name}")

    for name in topics:
        read(name, 301)
    for number, change in enumerate(CHANGES):
        postgres.sql(change)
        if number == 4:
            kill_host(rig)
        elif number == 7:
            rig.process.kill()
            rig.process.start().wait_ready()
    read("java", 301 + 5 + 3 + 10 + 3 + 1 + 1 + 2 + 300)
    theirs = whole(rig.kafka, topics["java"])
    read("heeler", len(theirs))
    ours = whole(rig.kafka, topics["heeler"])
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other
    rig.delete("changes")
