"""Exactly-once sources in a cluster of two workers, through every kind of failure of one of them.

test_exactly_once_rolling.py kills a leader.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from heeler.cli.client.rest_client import RestError
from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.rigs.cluster import SETTLE_S, Cluster
from tests.rigs.connector_states import states_of
from tests.rigs.exactly_once_cluster import Reader, config_records, numbers
from tests.rigs.support import wait_until
from tests.rigs.workers import READY_S, Kafka, pause_between

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

STREAMS = 4
SESSION_S = 3.0


@pytest.fixture(scope="module")
def cluster(kafka, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exactly-once")
    with Cluster(kafka, folder, "exactly-once", 2, exactly_once_source_support="enabled") as running:
        kafka.create("once", STREAMS)
        numbers(running, "once", 3)
        yield running


@pytest.fixture(scope="module")
def reader(cluster, kafka):
    made = Reader(kafka, "once")
    yield made
    made.close()


def settled(cluster, within=SETTLE_S):
    cluster.wait_settled(even=False, within=within)


def back(worker):
    worker.start()
    worker.wait_ready(READY_S)


def test_records_flow_and_a_task_count_record_is_written(cluster, reader):
    settled(cluster)
    reader.wait_flowing(STREAMS)
    assert config_records(cluster, "tasks-fencing-") == [("tasks-fencing-once", {"task-count": 3})]
    keys = [key for key, _ in config_records(cluster, "")]
    assert keys.index("tasks-fencing-once") > keys.index("commit-once")


def test_exactly_once_survives_a_killed_worker(cluster, reader):
    settled(cluster)
    reader.wait_flowing(STREAMS)
    victim = cluster.follower()
    victim.kill()
    settled(cluster)
    reader.wait_flowing(STREAMS)
    back(victim)
    settled(cluster)
    reader.wait_flowing(STREAMS)


@pytest.mark.parametrize("who", [pytest.param("follower", marks=pytest.mark.nightly), "leader"])
def test_exactly_once_survives_a_worker_suspended_past_its_session(cluster, reader, who):
    """When it resumes, other workers have taken over its work."""
    settled(cluster)
    reader.wait_flowing(STREAMS)
    victim = cluster.leader() if who == "leader" else cluster.follower()
    others = [worker for worker in cluster.workers if worker is not victim]
    victim.signal("STOP")
    began = time.monotonic()
    try:
        address = f"127.0.0.1:{victim.port}"

        def moved():
            found = cluster.parts(others[0])
            assert all(state == "RUNNING" and where != address for state, where in found.values()), found
            return True

        wait_until(moved, SETTLE_S, "its tasks to run elsewhere")
        reader.wait_flowing(STREAMS)
        pause_between(began, 2 * SESSION_S)
    finally:
        victim.signal("CONT")
    reader.wait_flowing(STREAMS)
    settled(cluster)
    reader.wait_flowing(STREAMS)


def test_exactly_once_survives_a_graceful_stop_of_a_worker(cluster, reader):
    settled(cluster)
    victim = cluster.follower()
    victim.signal("TERM")
    assert victim.wait(30) == 0, victim.tail()
    settled(cluster)
    reader.wait_flowing(STREAMS)
    back(victim)
    settled(cluster)


@pytest.mark.parametrize("tasks", [1, 4, 2, 3])
def test_former_producers_are_fenced_when_the_number_of_tasks_changes(cluster, reader, tasks):
    """Streams move from task to task: each of the former producers is fenced before one of the new ones starts."""
    settled(cluster)
    numbers(cluster, "once", tasks)
    settled(cluster)
    reader.wait_flowing(STREAMS)
    assert config_records(cluster, "tasks-fencing-once")[-1][1] == {"task-count": tasks}


def test_a_producer_fenced_by_another_one_fails_its_task_until_it_is_restarted(cluster, reader, kafka):
    settled(cluster)
    reader.wait_flowing(STREAMS)
    stranger = Producer({"bootstrap.servers": kafka.servers, "transactional.id": "exactly-once-once-0"})
    stranger.init_transactions(30)
    rest = cluster.living()[0].rest

    def failed():
        status = rest.call("GET", "/connectors/once/tasks/0/status")
        assert status["state"] == "FAILED", status
        return status

    trace = wait_until(failed, 30, "the fenced task to fail")["trace"]
    assert "The producer with transactional id exactly-once-once-0 was fenced" in trace
    reader.check()
    rest.call("POST", "/connectors/once/tasks/0/restart")
    settled(cluster)
    reader.wait_flowing(STREAMS)


def test_producers_that_the_leader_may_not_fence_fail_the_new_tasks(cluster, reader, kafka):
    settled(cluster)
    reader.wait_flowing(STREAMS)
    rest = cluster.living()[0].rest
    # The third task's, which the new set does not have: only the round of fencing needs it.
    with kafka.denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "exactly-once-once-2"):
        numbers(cluster, "once", 2)
        wait_until(lambda: states_of(rest, "once") == ["RUNNING", "FAILED", "FAILED"], SETTLE_S, "both tasks to fail")
        for task in (0, 1):
            trace = rest.call("GET", f"/connectors/once/tasks/{task}/status")["trace"]
            assert "Failed to perform a round of zombie fencing for task once-" in trace
        assert config_records(cluster, "tasks-fencing-once")[-1][1] == {"task-count": 3}
    rest.call("POST", "/connectors/once/restart?includeTasks=true&onlyFailed=true")
    settled(cluster)
    assert config_records(cluster, "tasks-fencing-once")[-1][1] == {"task-count": 2}
    reader.wait_flowing(STREAMS)


def test_a_stopped_source_resumes_from_altered_offsets(cluster, kafka):
    kafka.create("altered", 1)
    numbers(cluster, "altered", 1, streams=1, records="500", rate="0")
    settled(cluster)
    reader = Reader(kafka, "altered")
    wait_until(lambda: reader.check() == {0: 500}, 30, "500 records")
    rest = cluster.living()[0].rest
    rest.call("PUT", "/connectors/altered/stop")
    wait_until(lambda: states_of(rest, "altered") == ["STOPPED"], 30, "the stop")
    offsets = [{"partition": {"stream": 0}, "offset": {"sequence": 400}}]
    answer = wait_until(lambda: _altered(rest, offsets), 30, "the offsets to be altered")
    assert "altered successfully" in answer["message"]
    assert rest.call("GET", "/connectors/altered/offsets") == {"offsets": offsets}
    rest.call("PUT", "/connectors/altered/resume")
    wait_until(lambda: len(kafka.values("altered")) == 600, 30, "the last hundred once more")
    reader.close()
    cluster.delete("altered")


def _altered(rest, offsets):
    try:
        return rest.call("PATCH", "/connectors/altered/offsets", {"offsets": offsets})
    except RestError as error:
        raise AssertionError(str(error)) from error


def test_an_unsupported_transaction_boundary_is_refused_before_creation(cluster):
    rest = cluster.living()[0].rest
    config = {"connector.class": "datagen", "topic": "x", "exactly.once.support": "required"}
    found = rest.call("PUT", "/connector-plugins/datagen/config/validate", {**config, "name": "y"})
    assert found["error_count"] == 0
    found = rest.call("PUT", "/connector-plugins/datagen/config/validate",
                      {**config, "name": "y", "transaction.boundary": "connector"})
    assert found["error_count"] == 1
    with pytest.raises(RestError, match="does not support connector-defined transaction boundaries"):
        rest.put_config("y", {**config, "transaction.boundary": "connector"})


def test_a_connector_may_keep_its_offsets_in_its_own_topic(cluster, kafka):
    kafka.create("own", 1)
    kafka.create("own-offsets", 1, cleanup_policy="compact")
    numbers(cluster, "own", 1, streams=1, offsets_storage_topic="own-offsets")
    settled(cluster)
    reader = Reader(kafka, "own")
    reader.wait_flowing(1)
    settled(cluster)
    assert kafka.messages("own-offsets")
    numbers(cluster, "own", 1, streams=1, rate=200, offsets_storage_topic="own-offsets")
    settled(cluster)
    reader.wait_flowing(1)
    reader.close()
    cluster.delete("own")


def test_records_and_offsets_are_exactly_once_in_another_kafka_cluster(cluster):
    """The offsets are in that cluster too, in the same transactions and a topic that is created; the worker's topic
    has a copy.
    """
    offsets, name = cluster.settings["offset.storage.topic"], "elsewhere"
    with EmbeddedBroker(quick=True) as broker:
        there = Kafka(broker.bootstrap_servers)
        there.create(name, 2)
        clients = {f"{kind}_override_bootstrap_servers": there.servers for kind in ("producer", "consumer", "admin")}
        numbers(cluster, name, 2, streams=2, **clients)
        settled(cluster)
        reader = Reader(there, name)
        reader.wait_flowing(2)
        numbers(cluster, name, 1, streams=2, **clients)  # a round of fencing, there
        settled(cluster)
        reader.wait_flowing(2)
        rest = cluster.leader().rest
        rest.call("PUT", f"/connectors/{name}/stop")
        wait_until(lambda: states_of(rest, name) == ["STOPPED"], SETTLE_S, "the source to be stopped")
        found = rest.call("GET", f"/connectors/{name}/offsets")["offsets"]
        at = {o["partition"]["stream"]: o["offset"]["sequence"] for o in found}
        wait_until(lambda: reader.check() == at, SETTLE_S, "the reader to be where the offsets are")
        ours = {m.value() for m in cluster.kafka.messages(offsets) if b'"elsewhere"' in m.key()}
        assert {m.value() for m in there.messages(offsets)} >= ours > set()
        rest.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [{**found[0], "offset": {"sequence": 0}}]})
        assert there.messages(offsets)[-1].value() == b'{"sequence":0}'
        rest.call("DELETE", f"/connectors/{name}/offsets")
        assert rest.call("GET", f"/connectors/{name}/offsets") == {"offsets": []}
        reader.close()
        cluster.delete(name)


def test_a_task_whose_clients_use_two_kafka_clusters_fails_with_advice(cluster):
    numbers(cluster, "torn", 1, streams=1, producer_override_bootstrap_servers="127.0.0.1:1")
    rest = cluster.leader().rest

    def traces():
        return [task["trace"] for task in rest.call("GET", "/connectors/torn/status")["tasks"] if "trace" in task]

    wait_until(lambda: states_of(rest, "torn"), SETTLE_S, "a status")
    assert "set consumer.override.bootstrap.servers" in wait_until(traces, SETTLE_S, "the task to fail")[0]
    cluster.delete("torn")
