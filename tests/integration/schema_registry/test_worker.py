"""The converters in a worker."""

from __future__ import annotations

import pytest

from spark_tasks.connectors.verify import read_summary
from tests.rigs.support import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", [
    "io.confluent.connect.avro.AvroConverter", "io.confluent.connect.json.JsonSchemaConverter",
    "io.confluent.connect.protobuf.ProtobufConverter"])
def test_registry_converters_work_in_a_worker(registry, rig, name):
    """All of datagen's records pass through Kafka in order; a bad record goes to the dead letter queue."""
    short = name.rpartition(".")[2].lower()
    topic = rig.kafka.create(f"through-{short}")
    own = {"value.converter": name, "value.converter.schema.registry.url": registry.url}
    assert name in {one["class"] for one in rig.call("GET", "/connector-plugins?connectorsOnly=false")}
    keys = {one["name"]: one for one in rig.call("GET", f"/connector-plugins/{name}/config")}
    assert keys["auto.register.schemas"]["default_value"] == "true"
    rig.kafka.send(topic, ["this has no id"])
    rig.create(f"in-{short}", {"connector.class": "datagen", "topic": topic, "records": "1000", **own})
    sums = rig.folder / f"sums-{short}"
    rig.create(f"out-{short}", {
        "connector.class": "verify", "topics": topic, "path": str(sums), "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dead-{short}", "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true", **own})
    wait_until(lambda: read_summary(sums).to_json()["records"] == 1000, 90, "all records")
    summary = read_summary(sums).to_json()
    assert (summary["duplicates"], summary["disorder"], summary["missing"]) == (0, 0, 0)
    rig.wait_records(f"dead-{short}", 1)
    headers = dict(rig.kafka.messages(f"dead-{short}")[0].headers())
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.class.name"] == name.encode()
    assert headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert topic in headers["__connect.errors.exception.message"].decode()
