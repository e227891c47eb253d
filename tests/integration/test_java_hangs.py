"""Java plugins that hang are stalled, with the stack in Java; a poll that waits for data is not."""

from __future__ import annotations

import pytest

from tests.rigs.java_connectors import FILE_SOURCE, SLOW_S, counting, noting, wait_notes, worker_with_jars
from tests.rigs.support import wait_until
from tests.rigs.workers import shared

pytestmark = pytest.mark.integration

QUICK = {"task.progress.timeout.ms": "1000"}


def slow(ms, **more):
    """A transform that takes so long for each record."""
    return {"transforms": "slow", "transforms.slow.type": "heeler.tests.Slow", "transforms.slow.ms": str(ms),
            **{f"transforms.slow.{name}": value for name, value in more.items()}}


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
    ("hang-start", "start has not returned for ", "ModeSource$Counting.start("),
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


def test_a_sink_whose_close_hangs_is_stalled_with_its_stack(rig, topic_name):
    """The stack in Java was missing."""
    rig.kafka.create(topic_name)
    rig.create(topic_name, {**noting(rig, topic_name), **QUICK}, ["RUNNING", "RUNNING"])
    rig.kafka.send(topic_name, ["hang-close"])
    wait_notes(rig, "put 0 0 hang-close")
    rig.call("PUT", f"/connectors/{topic_name}/stop")
    wait_until(lambda: "close has not returned for " in story(rig, topic_name), SLOW_S)
    assert "NoteSink$Noting.close(" in story(rig, topic_name)


def test_a_transform_of_a_sink_that_hangs_is_stalled_with_its_stack(rig, topic_name):
    """It was never reported."""
    rig.kafka.create(topic_name)
    rig.create(topic_name, {**noting(rig, topic_name), **slow(3_600_000), **QUICK}, ["RUNNING", "RUNNING"])
    rig.kafka.send(topic_name, ["one"])
    [degraded] = wait_until(lambda: entries(rig, "degraded", topic_name), SLOW_S)
    assert degraded.startswith(f"{topic_name}-0: a transform or converter has not returned for ")
    wait_until(lambda: "heeler.tests.Slow.apply(" in story(rig, topic_name))
    rig.delete(topic_name)


@pytest.mark.parametrize("kind", ["source", "sink"])
@pytest.mark.parametrize("slowly", [
    slow(400), {**slow(400, failures="6"), "errors.retry.timeout": "60000", "errors.retry.delay.max.ms": "300"}],
    ids=["records", "attempts"])
def test_transforms_that_take_their_time_and_go_on_are_no_stall(rig, topic_name, kind, slowly):
    """The time was that of all records of a poll, with all attempts."""
    lines = [str(number) for number in range(10)]
    config = {**slowly, "task.progress.timeout.ms": "2500"}
    if kind == "sink":
        rig.kafka.create(topic_name)
        rig.kafka.send(topic_name, lines)
        rig.create(topic_name, {**noting(rig, topic_name), **config})
        wait_notes(rig, "put 0 9 9")
    else:
        file = rig.folder / "lines"
        file.write_text("\n".join(lines) + "\n")
        rig.create(topic_name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic_name, **config})
        rig.wait_records(topic_name, 10)
    assert "has not returned" not in story(rig, topic_name)
    rig.delete(topic_name)
