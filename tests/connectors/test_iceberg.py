"""Iceberg's sink from Maven Central on a real worker: a table in a local warehouse, read back by pyiceberg.
`make connectors`.
"""

from __future__ import annotations

import json

import pytest

from heeler.java_host.install import Coordinates, install
from tests.rigs.iceberg import ICEBERG, NEEDED, orders, rows
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, PATIENT, Kafka, processes_of, running_worker

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(900)]

SOON_S = 180.0


@pytest.fixture
def rig(broker, tmp_path):
    jars = tmp_path / "jars"
    install(Coordinates.parse(f"org.apache.iceberg:iceberg-kafka-connect:{ICEBERG}"), jars, print,
            more=[Coordinates.parse(one) for one in NEEDED])
    more = {"plugin_path": str(jars), "offset_flush_interval_ms": "500", "java_plugins_jvm_options": "-Xmx512M"}
    with running_worker(Kafka(broker.bootstrap_servers), tmp_path / "worker", "iceberg", **more, **PATIENT) as rig:
        yield rig


def test_rows_are_written_to_the_table_exactly_once(rig, topic_name, tmp_path):
    """Two tasks, commits by Iceberg's own transactions under the group's generation; the host is killed, the connector
    restarted: each row is there once.
    """
    warehouse = tmp_path / "warehouse"
    rig.kafka.create(topic_name, 2)
    control = rig.kafka.create(f"{topic_name}-control")

    def send(wanted):
        for order in wanted:
            rig.kafka.send(topic_name, [json.dumps(order)], partition=order["id"] % 2)

    def written(wanted):
        assert rows(warehouse) == wanted, len(rows(warehouse))
        return True

    rig.create(topic_name, {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "topics": topic_name, "tasks.max": "2",
        "consumer.override.auto.offset.reset": "earliest", "value.converter": JSON,
        "value.converter.schemas.enable": "false", "iceberg.tables": "shop.orders",
        "iceberg.control.topic": control,
        "iceberg.tables.auto-create-enabled": "true", "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": f"file://{warehouse}", "iceberg.control.commit.interval-ms": "1000",
        "iceberg.control.commit.timeout-ms": "5000", "iceberg.kafka.bootstrap.servers": rig.kafka.servers,
        "iceberg.kafka.auto.offset.reset": "earliest"}, ["RUNNING"] * 3)
    wanted = orders(0, 20)
    send(wanted)
    wait_until(lambda: written(wanted), SOON_S, "20 rows")
    wait_until(lambda: sum(rig.kafka.committed(f"connect-{topic_name}").values()) == 20, SOON_S, "their offsets")
    (host,) = [p for p in processes_of(rig.process) if p.name() == "java" and "heeler.host.Host" in p.cmdline()]
    host.kill()
    wanted += orders(20, 20)
    send(wanted[20:])
    wait_until(lambda: written(wanted), SOON_S, "40 rows")
    rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true")
    wanted += orders(40, 20)
    send(wanted[40:])
    wait_until(lambda: written(wanted), SOON_S, "60 rows")
    rig.wait_states(topic_name, ["RUNNING"] * 3)
    rig.delete(topic_name)
