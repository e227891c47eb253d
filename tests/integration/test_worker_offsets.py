"""Offsets, topics and loggers through REST, in a real worker (KIP-875, KIP-558, KIP-495)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from tests.rigs.support import wait_until
from tests.rigs.workers import JSON

pytestmark = pytest.mark.integration

RUNNING, STOPPED = "RUNNING", "STOPPED"


def stop(rig, name):
    rig.call("PUT", f"/connectors/{name}/stop")
    rig.wait_states(name, [STOPPED])


def resume(rig, name):
    rig.call("PUT", f"/connectors/{name}/resume")
    rig.wait_states(name, [RUNNING, RUNNING])


def offsets(rig, name):
    return rig.call("GET", f"/connectors/{name}/offsets")["offsets"]


@pytest.fixture
def reader(rig, topic_name):
    """A file source that has sent three lines of five bytes."""
    file = rig.folder / "in.txt"
    file.write_text("line\nmore\nlast\n")
    rig.create(topic_name, {"connector.class": "FileStreamSource", "file": str(file), "topic": topic_name})
    rig.wait_records(topic_name, 3)
    partition = {"filename": str(file)}
    expected = [{"partition": partition, "offset": {"position": 15}}]
    wait_until(lambda: offsets(rig, topic_name) == expected, 15, "offsets")
    return topic_name, partition


@pytest.fixture
def writer(rig, topic_name):
    """A file sink that has written three records of partition 1."""
    rig.kafka.create(topic_name, 2)
    rig.kafka.send(topic_name, ["a", "b", "c"], partition=1)
    out = rig.folder / "out.txt"
    rig.create(topic_name, {"connector.class": "FileStreamSink", "topics": topic_name, "file": str(out)})
    rig.wait_lines(out, ["a", "b", "c"])
    wait_until(lambda: {"partition": {"kafka_topic": topic_name, "kafka_partition": 1}, "offset": {"kafka_offset": 3}}
               in offsets(rig, topic_name), 15, "offsets")
    return topic_name, out


def test_offsets_of_running_connectors_cannot_be_changed(rig, reader):
    name, partition = reader
    body = {"offsets": [{"partition": partition, "offset": {"position": 5}}]}
    for method, more in (("PATCH", body), ("DELETE", None)):
        error = rig.refused(method, f"/connectors/{name}/offsets", more)
        assert error.status == 400
        assert "STOPPED" in str(error)
        assert rig.refused(method, "/connectors/nobody/offsets", more).status == 404
    assert rig.refused("GET", "/connectors/nobody/offsets").status == 404
    error = rig.refused("PATCH", f"/connectors/{name}/offsets", {"offsets": []})
    assert (error.status, "Partitions / offsets need to be provided" in str(error)) == (400, True)
    assert rig.refused("PATCH", f"/connectors/{name}/offsets", {"nonsense": 1}).status == 500


def test_offsets_of_a_source_can_be_altered_and_reset(rig, reader):
    name, partition = reader
    stop(rig, name)
    answer = rig.call("PATCH", f"/connectors/{name}/offsets",
                      {"offsets": [{"partition": partition, "offset": {"position": 5}}]})
    assert answer["message"] == "The offsets for this connector have been altered successfully"
    assert offsets(rig, name) == [{"partition": partition, "offset": {"position": 5}}]
    [record] = [m for m in rig.kafka.messages("shared-worker-offsets") if json.loads(m.key())[0] == name][-1:]
    assert (json.loads(record.key()), json.loads(record.value())) == ([name, partition], {"position": 5})
    resume(rig, name)
    rig.wait_records(name, 5)
    assert rig.kafka.values(name) == ["line", "more", "last", "more", "last"]
    stop(rig, name)
    for bad in ({"position": -1}, {"position": "x"}, {"other": 1}):
        body = {"offsets": [{"partition": partition, "offset": bad}]}
        error = rig.refused("PATCH", f"/connectors/{name}/offsets", body)
        assert "position" in str(error)
    for _ in range(2):  # the second time there is nothing to reset, which is fine
        answer = rig.call("DELETE", f"/connectors/{name}/offsets")
        assert answer["message"] == "The offsets for this connector have been reset successfully"
        assert offsets(rig, name) == []
    resume(rig, name)
    rig.wait_records(name, 8)
    assert rig.kafka.values(name)[5:] == ["line", "more", "last"]


def test_offsets_in_the_connectors_own_topic_can_be_read_and_reset(rig, reader):
    """The topic is created if it is missing, and takes precedence over the worker's; a reset empties both."""
    name, partition = reader
    own, file = f"{name}-own", partition["filename"]
    config = {"connector.class": "FileStreamSource", "file": file, "topic": name}
    stop(rig, name)
    rig.create(name, {**config, "offsets.storage.topic": own}, [STOPPED])
    resume(rig, name)
    assert offsets(rig, name) == [{"partition": partition, "offset": {"position": 15}}]  # the worker's topic has it
    with Path(file).open("a") as more:
        more.write("own\n")
    wait_until(lambda: rig.kafka.values(own) == ['{"position":19}'], 15, "the offset in the connector's own topic")
    [policy] = rig.kafka.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, own)]).values()
    assert policy.result(10)["cleanup.policy"].value == "compact"
    stop(rig, name)
    rig.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": partition, "offset": {"position": 5}}]})
    assert rig.kafka.values(own)[-1] == '{"position":5}'
    keys = [json.dumps([name, p], separators=(",", ":")) for p in (partition, {"filename": "other"})]
    rig.kafka.send("shared-worker-offsets", ['{"position":10}', '{"position":1}'], keys)
    assert {o["partition"]["filename"]: o["offset"]["position"] for o in offsets(rig, name)} == {file: 5, "other": 1}
    resume(rig, name)
    rig.wait_records(name, 7)
    assert rig.kafka.values(name)[4:] == ["more", "last", "own"]
    stop(rig, name)
    rig.call("DELETE", f"/connectors/{name}/offsets")
    assert offsets(rig, name) == []
    rig.create(name, config)
    assert offsets(rig, name) == []


def test_offsets_of_a_single_partition_can_be_reset(rig, topic_name):
    """Null resets a partition; the others stay."""
    rig.create(topic_name, {"connector.class": "datagen", "topic": topic_name, "streams": "2", "records": "10",
                            "value.converter": JSON})
    rig.wait_records(topic_name, 20)
    wait_until(lambda: [o["offset"] for o in offsets(rig, topic_name)] == [{"sequence": 10}] * 2, 15, "offsets")
    stop(rig, topic_name)
    rig.call("PATCH", f"/connectors/{topic_name}/offsets", {"offsets": [
        {"partition": {"stream": 1}, "offset": None}]})
    assert offsets(rig, topic_name) == [{"partition": {"stream": 0}, "offset": {"sequence": 10}}]
    resume(rig, topic_name)
    rig.wait_records(topic_name, 30)


def test_offsets_of_a_sink_can_be_altered_and_reset(rig, writer):
    name, out = writer
    stop(rig, name)
    place = {"kafka_topic": name, "kafka_partition": 1}
    answer = rig.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [
        {"partition": {"kafka_topic": name, "kafka_partition": "1"}, "offset": {"kafka_offset": "1"}}]})
    assert answer["message"] == "The offsets for this connector have been altered successfully"
    assert {"partition": place, "offset": {"kafka_offset": 1}} in offsets(rig, name)
    assert rig.kafka.committed(f"connect-{name}")[name, 1] == 1
    resume(rig, name)
    rig.wait_lines(out, ["a", "b", "c", "b", "c"])
    stop(rig, name)
    rig.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": place, "offset": None}]})
    assert place not in [o["partition"] for o in offsets(rig, name)]
    for _ in range(2):
        answer = rig.call("DELETE", f"/connectors/{name}/offsets")
        assert answer["message"] == "The offsets for this connector have been reset successfully"
        assert offsets(rig, name) == []
    resume(rig, name)
    rig.wait_lines(out, ["a", "b", "c", "b", "c", "a", "b", "c"])


def test_invalid_offsets_of_a_sink_are_refused(rig, topic_name):
    config = {"connector.class": "FileStreamSink", "topics": topic_name, "file": str(rig.folder / "out")}
    rig.created.append(topic_name)
    rig.call("POST", "/connectors", {"name": topic_name, "config": config, "initial_state": STOPPED})
    rig.wait_states(topic_name, [STOPPED])
    item = {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": -1}}
    error = rig.refused("PATCH", f"/connectors/{topic_name}/offsets", {"offsets": [item]})
    assert error.status == 500
    assert "Invalid negative offset -1 of t-0" in str(error)


def test_a_sink_may_have_its_own_group_id(rig, topic_name):
    rig.kafka.create(topic_name)
    rig.kafka.send(topic_name, ["a"])
    rig.create(topic_name, {"connector.class": "FileStreamSink", "topics": topic_name, "file": str(rig.folder / "out"),
                            "consumer.override.group.id": f"own-{topic_name}"})
    expected = [{"partition": {"kafka_topic": topic_name, "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]
    wait_until(lambda: offsets(rig, topic_name) == expected, 30, "offsets")
    assert rig.kafka.committed(f"own-{topic_name}") == {(topic_name, 0): 1}
    assert rig.kafka.committed(f"connect-{topic_name}") == {}


def test_topics_of_a_connector_are_listed_and_can_be_reset(rig, reader):
    name, _ = reader
    wait_until(lambda: rig.call("GET", f"/connectors/{name}/topics") == {name: {"topics": [name]}}, 15, "its topic")
    rig.call("PUT", f"/connectors/{name}/topics/reset")
    wait_until(lambda: rig.call("GET", f"/connectors/{name}/topics") == {name: {"topics": []}}, 15, "no topic")
    with (rig.folder / "in.txt").open("a") as file:
        file.write("new!\n")
    wait_until(lambda: rig.call("GET", f"/connectors/{name}/topics") == {name: {"topics": [name]}}, 15, "it again")
    assert rig.call("GET", "/connectors/nobody/topics") == {"nobody": {"topics": []}}


def test_logger_levels_can_be_read_and_set(rig):
    name = "spark_tasks.spark"
    before = rig.call("GET", "/admin/loggers")
    assert "root" in before
    changed = rig.call("PUT", f"/admin/loggers/{name}", {"level": "DEBUG"})
    assert name in changed
    assert all(one.startswith(name) for one in changed)
    found = rig.call("GET", f"/admin/loggers/{name}")
    assert (found["level"], isinstance(found["last_modified"], int)) == ("DEBUG", True)
    assert rig.call("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "INFO"}) is None
    wait_until(lambda: rig.call("GET", f"/admin/loggers/{name}")["level"] == "INFO", 15, "the level of the cluster")
    assert rig.refused("PUT", f"/admin/loggers/{name}", {"level": "LOUD"}).status == 404
    assert rig.refused("PUT", f"/admin/loggers/{name}", {}).status == 400
    assert rig.refused("GET", "/admin/loggers/no.such.logger").status == 404
