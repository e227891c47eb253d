"""The same jars and configurations on a heeler worker and on a Java worker: the same records, offsets and rows.
`make connectors`. (Debezium's source beside a Java worker: test_debezium.py; dead letters: tests/interop.)
"""

from __future__ import annotations

import json

import pytest

from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.jars import KAFKA_VERSION
from heeler.java_host.install import Coordinates, install
from tests.rigs.debezium import SINK as JDBC
from tests.rigs.iceberg import ICEBERG, NEEDED, orders, rows
from tests.rigs.java_connectors import FILE_SINK, FILE_SOURCE
from tests.rigs.java_worker import JavaWorker
from tests.rigs.postgres import running_postgres
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, PATIENT, Kafka, running_worker, worker_settings

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(900)]

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms."
SOON_S = 180.0
SIDES = ("heeler", "java")
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jars")
    for name, more in ((f"org.apache.kafka:connect-file:{KAFKA_VERSION}", ()),
                       (f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}", ()), (f"io.debezium:{JDBC}", ()),
                       (f"org.apache.iceberg:iceberg-kafka-connect:{ICEBERG}", NEEDED)):
        install(Coordinates.parse(name), folder, print, more=[Coordinates.parse(one) for one in more])
    return str(folder)


@pytest.fixture(scope="module")
def workers(broker, plugins, tmp_path_factory):
    """A client of REST by the name of the side, and the heeler worker's rig."""
    kafka, folder = Kafka(broker.bootstrap_servers), tmp_path_factory.mktemp("workers")
    settings = worker_settings(broker.bootstrap_servers, "differential-java", plugin_path=plugins,
                               offset_flush_interval_ms="500")
    more = {"plugin_path": plugins, "offset_flush_interval_ms": "500", "java_plugins_jvm_options": "-Xmx512M",
            "java_plugins_prefer": f"{FILE_SOURCE},{FILE_SINK}"}
    java = JavaWorker(folder, settings)
    java.start()
    try:
        with running_worker(kafka, folder / "worker", "differential", **more, **PATIENT) as rig:
            yield {"heeler": rig.rest, "java": java.rest}, rig
    finally:
        java.stop(0)


@pytest.fixture
def both(workers):
    """Puts a configuration to both workers, with the side's name in place of `{side}` and behind the connector's name,
    which is the consumer group's too; deletes them at the end.
    """
    clients, rig = workers
    made = []

    def put(name, config):
        for side, client in clients.items():
            client.put_config(f"{name}-{side}", {key: value.replace("{side}", side) for key, value in config.items()})
        made.append(name)

    yield put, clients, rig.kafka
    for name in made:
        for side, client in clients.items():
            client.call("DELETE", f"/connectors/{name}-{side}")


def records(kafka, topic):
    return [(m.partition(), m.offset(), m.key(), m.value(), m.headers(), m.timestamp()) for m in kafka.messages(topic)]


def offsets(clients, side, name):
    found = clients[side].call("GET", f"/connectors/{name}-{side}/offsets")["offsets"]
    return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))


def test_file_connectors_write_the_same_records_and_offsets_as_on_java(both, tmp_path):
    """A file source with three transforms and a file sink; lines are appended while they run."""
    put, clients, kafka = both
    file = tmp_path / "lines"
    file.write_text("".join(f"{n} é 😀\n" for n in range(1000)))
    for side in SIDES:
        kafka.create(f"lines-{side}")
    put("lines", {"connector.class": FILE_SOURCE, "file": str(file), "topic": "lines-{side}",
                  "value.converter": JSON, "transforms": "hoist,add,key",
                  "transforms.hoist.type": f"{TRANSFORMS}HoistField$Value", "transforms.hoist.field": "line",
                  "transforms.add.type": f"{TRANSFORMS}InsertField$Value", "transforms.add.static.field": "from",
                  "transforms.add.static.value": "file", "key.converter": JSON,
                  "transforms.key.type": f"{TRANSFORMS}ValueToKey", "transforms.key.fields": "line,from"})
    put("copied", {"connector.class": FILE_SINK, "file": str(tmp_path / "{side}"), "topics": "lines-{side}",
                   "key.converter": STRING, "value.converter": JSON})
    wait_until(lambda: all(len(records(kafka, f"lines-{side}")) >= 1000 for side in SIDES), SOON_S, "the first lines")
    with file.open("a") as more:
        more.write("last\nwithout an end")
    wait_until(lambda: all(len(records(kafka, f"lines-{side}")) >= 1001 for side in SIDES), SOON_S, "the last line")
    ours, theirs = ([record[:5] for record in records(kafka, f"lines-{side}")] for side in SIDES)  # times differ
    assert ours == theirs
    position = len(file.read_text().removesuffix("without an end").encode("utf-16-le")) // 2  # Java counts chars
    for name, end in (("lines", [{"position": position}]), ("copied", [{"kafka_offset": 1001}])):
        for side in SIDES:
            wait_until(lambda side=side, name=name, end=end: [o["offset"] for o in offsets(clients, side, name)] == end,
                       SOON_S, f"the offsets of {name}")
    assert offsets(clients, "heeler", "lines") == offsets(clients, "java", "lines")
    assert (tmp_path / "heeler").read_text() == (tmp_path / "java").read_text() != ""


def test_mirror_maker_copies_the_same_records_and_offsets_as_on_java(both):
    """Compares keys, headers, timestamps and partitions of both copies, and the source's offsets."""
    put, clients, kafka = both
    with EmbeddedBroker() as broker:
        west = Kafka(broker.bootstrap_servers)
        west.create("orders", 3)
        for partition in range(3):
            west.send("orders", [f"order {n}" for n in range(500)], [f"k{n}" for n in range(500)], partition=partition,
                      headers=[("of", b"west"), ("none", None)])
        put("mirror", {
            "connector.class": MIRROR, "source.cluster.alias": "{side}", "target.cluster.alias": "east",
            "source.cluster.bootstrap.servers": west.servers, "target.cluster.bootstrap.servers": kafka.servers,
            "key.converter": BYTES, "value.converter": BYTES, "header.converter": BYTES, "topics": "orders",
            "replication.factor": "1", "offset-syncs.topic.replication.factor": "1", "tasks.max": "2",
            "sync.topic.acls.enabled": "false"})
        wait_until(lambda: all(len(records(kafka, f"{side}.orders")) == 1500 for side in SIDES), SOON_S, "all records")
        ours, theirs = (records(kafka, f"{side}.orders") for side in SIDES)
        assert ours == theirs == records(west, "orders")

        def of(side):
            found = offsets(clients, side, "mirror")
            assert len(found) == 3
            assert all(one["offset"] == {"offset": 499} for one in found)
            return json.dumps(found, sort_keys=True).replace(f'"{side}"', '"west"')

        assert wait_until(lambda: of("heeler"), SOON_S, "ours") == wait_until(lambda: of("java"), SOON_S, "theirs")
        for side, client in clients.items():
            client.call("PUT", f"/connectors/mirror-{side}/stop")


def test_iceberg_tables_and_offsets_equal_those_of_java(both, topic_name, tmp_path):
    """The tables of both have the same rows, and both groups the same offsets."""
    put, _, kafka = both
    kafka.create(topic_name, 2)
    for side in SIDES:
        kafka.create(f"control-{side}")
    wanted = orders(0, 40)
    for order in wanted:
        kafka.send(topic_name, [json.dumps(order)], partition=order["id"] % 2)
    put("iceberg", {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "topics": topic_name, "tasks.max": "1",
        "consumer.override.auto.offset.reset": "earliest", "value.converter": JSON,
        "value.converter.schemas.enable": "false", "iceberg.tables": "shop.orders",
        "iceberg.control.topic": "control-{side}", "iceberg.control.group-id-prefix": "control-{side}",
        "iceberg.tables.auto-create-enabled": "true", "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": f"file://{tmp_path}/{{side}}", "iceberg.control.commit.interval-ms": "1000",
        "iceberg.control.commit.timeout-ms": "5000", "iceberg.kafka.bootstrap.servers": kafka.servers,
        "iceberg.kafka.auto.offset.reset": "earliest"})

    def written():
        found = {side: rows(tmp_path / side) for side in SIDES}
        assert {side: len(table) for side, table in found.items()} == dict.fromkeys(SIDES, 40)
        return found

    found = wait_until(written, SOON_S, "40 rows in both")
    assert found["heeler"] == found["java"] == wanted
    for side in SIDES:
        group, ends = f"connect-iceberg-{side}", {(topic_name, 0): 20, (topic_name, 1): 20}
        wait_until(lambda group=group, ends=ends: kafka.committed(group) == ends, SOON_S, f"the offsets of {group}")


def test_jdbc_tables_equal_those_of_java(both):
    """Inserts, updates, deletes by tombstones, and a column that is added later; types are compared as well."""
    put, clients, kafka = both
    kafka.create("rows")
    fields = [{"field": "id", "type": "int32", "optional": False},
              {"field": "note", "type": "string", "optional": True},
              {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
               "parameters": {"scale": "2"}, "optional": True},
              {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1,
               "optional": True}]
    key = lambda n: json.dumps({"schema": {"type": "struct", "fields": fields[:1], "optional": False},  # noqa: E731
                                "payload": {"id": n}})

    def row(n, count=4, **more):
        payload = {"id": n, "note": f"é {n}", "price": "AYY=", "at": 1_700_000_000_123 + n} | more
        return json.dumps({"schema": {"type": "struct", "fields": fields[:count], "optional": False},
                           "payload": {field["field"]: payload[field["field"]] for field in fields[:count]}})

    values = [*(row(n, 3) for n in range(100)), *(row(n, note=None) for n in range(0, 100, 7)),
              *(row(n) for n in range(100, 200)), None]
    kafka.send("rows", values, [*map(key, range(100)), *map(key, range(0, 100, 7)), *map(key, range(100, 200)), key(3)])
    with running_postgres() as postgres:
        put("jdbc", {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": "rows",
            "insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true",
            "schema.evolution": "basic", "collection.name.format": "rows_{side}",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
            "connection.username": "postgres", "connection.password": "any", "key.converter": JSON,
            "value.converter": JSON})
        for side in SIDES:
            wait_until(lambda side=side: [o["offset"] for o in offsets(clients, side, "jdbc")]
                       == [{"kafka_offset": len(values)}], SOON_S, f"the offsets of {side}")
        ours, theirs = (postgres.sql(f"select * from rows_{side} order by id") for side in SIDES)  # noqa: S608
        assert ours == theirs
        assert len(ours) == 199
        types = "select column_name, data_type, is_nullable from information_schema.columns where table_name = 'rows_"
        ours, theirs = (postgres.sql(f"{types}{side}' order by 1") for side in SIDES)
        assert ours == theirs
        assert len(ours) == 4
        for side, client in clients.items():
            client.call("PUT", f"/connectors/jdbc-{side}/stop")
