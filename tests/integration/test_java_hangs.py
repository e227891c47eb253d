"""Java plugins that hang are stalled, with the stack in Java; a poll that waits for data is not."""

from __future__ import annotations

import pytest

from tests.rigs.java_connectors import SLOW_S, counting, noting, worker_with_jars
from tests.rigs.support import wait_until
from tests.rigs.workers import shared

pytestmark = pytest.mark.integration

QUICK = {"task.progress.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def java_worker(kafka, tmp_path_factory):
    with worker_with_jars(kafka, tmp_path_factory.mktemp("java"), "java-hangs") as rig:
        yield rig


@pytest.fixture
def rig(java_worker, tmp_path):
    with shared(java_worker, tmp_path) as own:
        yield own


def entries(rig, field, name):
    """What /health says of this task there."""
    return [entry for entry in rig.call("GET", "/health").get(field, ()) if entry.startswith(f"{name}-0: ")]


def story(rig, name):
    return str(rig.call("GET", f"/connectors/{name}/story"))


def test_a_poll_that_waits_for_data_is_mentioned_and_not_degraded(rig, topic_name):
    rig.create(topic_name, {**counting(topic_name, "hang"), **QUICK}, ["RUNNING", "RUNNING"])
    rig.wait_records(topic_name, 5)
    [mentioned] = wait_until(lambda: entries(rig, "waiting", topic_name), SLOW_S)
    assert mentioned.startswith(f"{topic_name}-0: poll has been waiting since 20")
    assert entries(rig, "degraded", topic_name) == []
    assert "stalled" not in rig.call("GET", f"/connectors/{topic_name}/status")["tasks"][0]
    log = rig.process.log
    wait_until(lambda: "ModeSource$Counting.poll(" in log.read_text(), what="the stack in the log")
    assert [line for line in log.read_text().splitlines() if topic_name in line and " WARN" in line] == []
    rig.delete(topic_name)
    wait_until(lambda: entries(rig, "waiting", topic_name) == [])


@pytest.mark.parametrize(("mode", "says", "where"), [
    ("hang-start", "a call on the worker has not returned for ", "ModeSource$Counting.start("),
    ("spin", "poll has not returned for ", "ModeSource$Counting.poll("),
])
def test_a_source_that_hangs_is_stalled_with_its_stack(rig, topic_name, mode, says, where):
    rig.create(topic_name, {**counting(topic_name, mode), **QUICK})
    [degraded] = wait_until(lambda: entries(rig, "degraded", topic_name), SLOW_S)
    assert degraded.startswith(f"{topic_name}-0: {says}")
    wait_until(lambda: where in story(rig, topic_name))
    assert where in rig.process.log.read_text()
    assert entries(rig, "waiting", topic_name) == []
    rig.delete(topic_name)


def test_a_sink_whose_put_hangs_is_stalled_with_its_stack(rig, topic_name):
    rig.kafka.create(topic_name)
    rig.create(topic_name, {**noting(rig, topic_name), **QUICK}, ["RUNNING", "RUNNING"])
    rig.kafka.send(topic_name, ["hang"])
    [degraded] = wait_until(lambda: entries(rig, "degraded", topic_name), SLOW_S)
    assert degraded.startswith(f"{topic_name}-0: put has not returned for ")
    wait_until(lambda: "NoteSink$Noting.put(" in story(rig, topic_name))
