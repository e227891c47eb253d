"""A cluster of three workers: one of them is killed, stopped, suspended; all are restarted; data flows all the time."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager

import pytest

from heeler.cli.client.rest_client import RestError
from tests.rigs.cluster import Cluster
from tests.rigs.support import wait_until
from tests.rigs.workers import READY_S

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

IDLE = 4
ALONE = 5  # tasks of a connector that tells of every start


@pytest.fixture(scope="module")
def running(kafka, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    patient = {"session_timeout_ms": "4000", "consumer_session_timeout_ms": "4000"}
    with Cluster(kafka, folder, "cluster-failures", **patient) as cluster:
        cluster.move_numbers()
        for n in range(IDLE):
            kafka.create(f"idle-{n}")
            file = str(folder / f"idle-{n}.txt")
            cluster.create(f"idle-{n}", {"connector.class": "FileStreamSink", "topics": f"idle-{n}", "file": file}, 2)
        starts = folder / "starts"
        starts.mkdir()
        cluster.create("alone", {"connector.class": "AloneSource", "topic": "none", "folder": str(starts)}, ALONE)
        yield cluster


@pytest.fixture
def cluster(running):
    """All three workers run, and the work is spread evenly."""
    running.wait_settled()
    return running


def back(worker):
    worker.start()
    worker.wait_ready(READY_S)


def takes_records(kafka, topic):
    """Whether the topic takes a record, which says nothing to anybody."""
    try:
        kafka.send(topic, ["{}"], ["probe"])
    except AssertionError:
        return False
    return True


def starts(cluster):
    """What the parts of the connector `alone` wrote when they started."""
    return {file.name: file.read_text().splitlines() for file in (cluster.folder / "starts").iterdir()}


@contextmanager
def nothing_twice(cluster):
    """No part runs at two workers at once. What is on the same worker afterwards has run on in the meantime, what has
    moved has started once.
    """
    before, begun, said = cluster.settled(), starts(cluster), len(cluster.statuses())
    yield
    after = cluster.wait_settled()
    stayed = {part for part in after if after[part] == before[part]}
    new = {part: reported[len(begun[part]):] for part, reported in starts(cluster).items()}
    assert new == {part: [] if part in stayed else ["started"] for part in begun}
    disturbed = [said for said in cluster.statuses()[said:] if said[0].split("-", 2)[-1] in stayed]
    assert disturbed == []
    cluster.wait_flowing()


def test_work_is_spread_evenly(cluster):
    parts = cluster.settled()
    assert len(parts) == 2 + IDLE + 6 + 2 * IDLE + 1 + ALONE
    assert len({address for _, address in parts.values()}) == 3
    cluster.wait_flowing()


@pytest.mark.parametrize("who", [pytest.param("follower", marks=pytest.mark.nightly), "leader"])
def test_a_killed_workers_work_is_taken_over_and_runs_nowhere_twice(cluster, who):
    victim = cluster.leader() if who == "leader" else cluster.follower()
    with nothing_twice(cluster):
        victim.kill()
        cluster.wait_settled(within=30)
    with nothing_twice(cluster):
        back(victim)


def test_a_leader_that_is_restarted_under_load_gives_its_work_away_and_gets_some_back(cluster):
    leader = cluster.leader()
    with nothing_twice(cluster):
        leader.signal("TERM")
        cluster.wait_settled(without=[leader], within=30)
        assert leader.wait(30) == 0, leader.tail()
    with nothing_twice(cluster):
        back(leader)
    assert re.search(rf"as leader: .*; workers joined: \S+:{leader.port}\b", cluster.leader().log.read_text())


@pytest.mark.nightly
def test_rolling_restart_under_load(cluster):
    begun = starts(cluster)
    for worker in cluster.workers:
        worker.signal("TERM")
        assert worker.wait(30) == 0, worker.tail()
        back(worker)
        cluster.wait_settled()
    cluster.wait_flowing()
    assert {line for part, reported in starts(cluster).items() for line in reported[len(begun[part]):]} == {"started"}


def generations(statuses):
    """Statuses that a worker wrote after another one had spoken of the same item in a later generation."""
    last, late = {}, []
    for key, value in (s for s in statuses if not s[0].startswith("status-topic-")):
        if value is None:
            last.pop(key, None)
            continue
        before = last.get(key)
        if before and before["worker_id"] != value["worker_id"] and before["generation"] > value["generation"]:
            late.append((key, value, before))
        if value["state"] != "UNASSIGNED":
            last[key] = value
    return late


def positions(messages):
    """Source offsets that went back, by stream."""
    last, back_ = {}, []
    for message in messages:
        connector, partition = json.loads(message.key())
        if connector == "numbers-in" and message.value():
            stream, sequence = partition["stream"], json.loads(message.value())["sequence"]
            if sequence < last.get(stream, 0):
                back_.append((stream, last[stream], sequence))
            last[stream] = sequence
    return back_


@pytest.mark.parametrize("who", [pytest.param("follower", marks=pytest.mark.nightly), "leader"])
def test_a_worker_suspended_past_its_session_writes_nothing_as_a_member(cluster, who):
    victim = cluster.leader() if who == "leader" else cluster.follower()
    victim.signal("STOP")
    try:
        cluster.wait_settled(without=[victim], within=30)
        cluster.wait_flowing(200)  # the others are well ahead
    finally:
        victim.signal("CONT")
    wait_until(lambda: "this process was suspended for" in victim.log.read_text(), 20, "the worker to notice")
    cluster.wait_settled()
    cluster.wait_flowing()
    late = [said for said in generations(cluster.statuses()) if said[1]["state"] != "UNASSIGNED"]
    assert late == []
    assert positions(cluster.kafka.messages(cluster.settings["offset.storage.topic"])) == []


def test_changes_fail_while_the_config_topic_refuses_writes_and_work_continues(cluster):
    """Changes fail with an error, running tasks continue, and the same request succeeds later."""
    topic = cluster.settings["config.storage.topic"]
    config = {"connector.class": "FileStreamSink", "topics": "late", "file": str(cluster.folder / "late.txt")}
    cluster.kafka.create("late")
    before = cluster.settled()
    cluster.kafka.configure(topic, "max.message.bytes", "1")
    try:
        wait_until(lambda: not takes_records(cluster.kafka, topic), what="the log to have its new setting")
        with pytest.raises(RestError, match=r"config") as refused:
            cluster.create("late", config, 1)
        assert refused.value.status == 500
        del cluster.wanted["late"]
        cluster.wait_flowing()
        assert cluster.settled() == before
    finally:
        cluster.kafka.configure(topic, "max.message.bytes", "1048588")
        wait_until(lambda: takes_records(cluster.kafka, topic), what="the log to have its old setting")
    cluster.create("late", config, 1)
    cluster.wait_settled()
    cluster.wait_flowing()
    cluster.delete("late")
    cluster.wait_settled()
