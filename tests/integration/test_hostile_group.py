"""Clients that send requests, write to the group's topics or join the group can harm only their own connectors."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from actors.assignment.protocol import Protocol
from heeler.embedded_kafka.broker import EmbeddedBroker
from storage.config.state import ClusterConfigState
from tests.rigs.group_herder import FakeHerder
from tests.rigs.support import wait_until
from tests.rigs.workers import READY_S, Kafka, running_worker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

GROUP = "hostile-group"
RECORD_BYTES = 100_000
LONG = "n" * 40_000
GARBAGE = [("sessioned", b"\xff" * 40), ("compatible", b""), ("default", b"\x00")]


@pytest.fixture(scope="module")
def small_broker():
    """A broker of this file's own, which takes no large records."""
    settings = {"message.max.bytes": str(RECORD_BYTES), "group.min.session.timeout.ms": "500"}
    with EmbeddedBroker(quick=True, settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def worker(small_broker, tmp_path_factory):
    kafka = Kafka(small_broker.bootstrap_servers)
    with running_worker(kafka, tmp_path_factory.mktemp("hostile"), GROUP) as rig:
        yield rig
    del kafka.admin


@pytest.fixture
def works(worker, topic_name):
    """Creating a connector that runs, and its end."""

    def check(number=0):
        name = worker.create(f"{topic_name}-{number}", source(worker), ["RUNNING", "RUNNING"])
        worker.delete(name)

    return check


def source(worker):
    return {"connector.class": "FileStreamSource", "file": str(worker.folder / "none"), "topic": "none"}


def test_a_name_that_is_too_long_for_the_group_is_refused(worker, works):
    error = worker.refused("POST", "/connectors", {"name": LONG, "config": source(worker)})
    assert error.status == 400
    assert "is 40000 bytes long in a URL" in str(error)
    config = {"connector.class": "verify", "topics": "none", "path": "x", "tasks.max": "2000000000"}
    error = worker.refused("POST", "/connectors", {"name": "many", "config": config})
    assert error.status == 400
    assert "tasks.max: Value must be no more than 10000" in str(error)
    works()


def test_offsets_that_nest_deeply_are_refused(worker, topic_name):
    worker.create(topic_name, source(worker), ["RUNNING", "RUNNING"])
    worker.call("PUT", f"/connectors/{topic_name}/stop")
    worker.wait_states(topic_name, ["STOPPED"])
    nested = 1
    for _ in range(600):
        nested = [nested]
    for part in ({"partition": {"filename": nested}, "offset": {"position": 1}},
                 {"partition": {"filename": "f"}, "offset": {"position": nested}}):
        error = worker.refused("PATCH", f"/connectors/{topic_name}/offsets", {"offsets": [part]})
        assert (error.status, "nesting depth" in str(error)) == (400, True)
    assert worker.call("GET", f"/connectors/{topic_name}/offsets") == {"offsets": []}
    worker.delete(topic_name)


def test_invalid_records_in_internal_topics_do_not_stop_a_worker(worker, works):
    """They also exist when the worker starts."""
    topic = worker.process.properties["config.storage.topic"]
    deep = '{"properties":{"a":' + "[" * 600 + "]" * 600 + "}}"
    config = json.dumps({"properties": {**source(worker), "name": LONG}})
    odd = {"nulls": '{"connector.class":"FileStreamSource","topic":null,"name":null,"tasks.max":null}',
           "no class": '{"connector.class":null}', "numbers": '{"connector.class":7,"tasks.max":1e999,"x":{"y":[]}}',
           "half": '{"connector.class":"FileStreamSink","topics":"\\ud800","name":"\\udc00"}'}
    worker.kafka.send(topic, [f'{{"properties":{text}}}' for text in odd.values()],
                      [f"connector-{name}" for name in odd])
    worker.kafka.send(topic, [config, "{}", deep, deep, '{"task-count":1e999}', "\x00"],
                      [f"connector-{LONG}", "task-a-" + "1" * 5000, "connector-deep", "session-key",
                       "tasks-fencing-a", "connector-\n\u2028FATAL forged"])
    for kind, keys in (("status", ["status-task-a-" + "1" * 5000, "status-connector-a", "status-topic-"]),
                       ("offset", [deep, '["a",' + "[" * 600, '["a",{"p":' + "9" * 5000 + "}]"])):
        worker.kafka.send(worker.process.properties[f"{kind}.storage.topic"], [deep] * 3, keys)

    def reported():
        return "name is 40000 bytes long" in (worker.rest.failure(LONG) or "")

    wait_until(reported, 30, "the status of what cannot run")
    works()
    assert worker.call("GET", "/connectors?expand=info&expand=status").keys() == {LONG, *odd}
    error = worker.refused("POST", f"/connectors/{LONG}/restart")
    assert (error.status, "name is 40000 bytes long" in str(error)) == (500, True)
    worker.process.stop()
    worker.process.start()
    worker.process.wait_ready(READY_S)
    works(1)
    for name in (LONG, *odd):
        worker.call("DELETE", f"/connectors/{quote(name)}")
    wait_until(lambda: worker.call("GET", "/connectors") == [], 20, "the end of the connector")
    log = worker.process.log.read_text()
    assert "Skipping a config record with the key 'task-a-1111" in log or "is not a task config key" in log
    assert "Skipping an offset record" in log
    assert "Skipping a status record" in log
    assert "\nFATAL forged" not in log


def test_connectors_that_the_groups_record_cannot_hold_are_refused(worker, works):
    names = [f"{n:02d}{'n' * 7900}" for n in range(20)]
    taken, refused = [], None
    for name in names:
        body = {"name": name, "config": source(worker), "initial_state": "STOPPED"}
        try:
            worker.call("POST", "/connectors", body)
        except Exception as error:  # noqa: BLE001 - looked at below
            refused = error
            break
        taken.append(name)
    try:
        assert getattr(refused, "status", None) == 400, refused
        assert f"one record of at most {RECORD_BYTES} bytes" in str(refused)
        assert len(taken) > 8
        works()
    finally:
        for name in taken:
            worker.call("DELETE", f"/connectors/{name}")


@pytest.mark.parametrize("what", ["far ahead", "garbage"])
def test_a_member_with_false_claims_blocks_no_others(worker, small_broker, works, what):
    offset = 2**60 if what == "far ahead" else 0
    intruder = FakeHerder(small_broker.bootstrap_servers, GROUP, f"intruder-{offset}",
                          ClusterConfigState(offset=offset), offers=GARBAGE if what == "garbage" else None)
    try:
        membership = intruder.join().joined(30)
        assert membership.protocol is Protocol.SESSIONED
        works()
        works(1)
        assert not intruder.owned
        line = f"(client id 'intruder-{offset}', host '/127.0.0.1')"
        wait_until(lambda: line in worker.process.log.read_text(), 10, "the log to tell who it is")
    finally:
        intruder.member.stop()
