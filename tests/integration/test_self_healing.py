"""Failed and stalled tasks of a real worker are restarted automatically, as status, story, health and metrics show."""

from __future__ import annotations

import re

import pytest

from tests.rigs.failing_sources import FAILED, QUICK, RUNNING, failing, hanging
from tests.rigs.scrape import metrics
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration


def stalled(rig, name):
    """What the status of its task says of a stall."""
    return rig.call("GET", f"/connectors/{name}/status")["tasks"][0].get("stalled")


def restarts(rig, name):
    """What the status of the only task says of them; {} before there is any."""
    status = rig.call("GET", "/connectors?expand=status").get(name, {}).get("status", {"tasks": []})
    return next((task.get("restarts", {}) for task in status["tasks"]), {})


def story(rig, name):
    return str(rig.call("GET", f"/connectors/{name}/story"))


def test_a_failed_task_is_restarted_until_it_works(rig, topic_name):
    release = rig.folder / "release"
    rig.create(topic_name, {**failing(release, "read", topic_name), **QUICK})
    wait_until(lambda: restarts(rig, topic_name).get("count", 0) >= 2, 30, "two restarts")
    assert restarts(rig, topic_name)["cause"].startswith("failed: RuntimeError: misbehaving at read")
    release.touch()
    rig.wait_records(topic_name, 20)
    rig.wait_states(topic_name, [RUNNING, RUNNING])
    assert "next_attempt" not in restarts(rig, topic_name)
    assert metrics(rig)["heeler_task_restarts_total", "failure", topic_name, "0"] >= 2
    assert "Restarting after a failure" in story(rig, topic_name)


def test_a_permanent_failure_is_not_retried(rig, topic_name):
    config = {**failing(rig.folder / "release", "read", topic_name), **QUICK, "says": " for good"}
    rig.create(topic_name, config, [RUNNING, FAILED])
    assert restarts(rig, topic_name) == {
        "count": 0, "cause": "failed: spark_tasks.errors.PermanentError: misbehaving at read for good",
        "permanent": True}
    assert "A restart cannot fix this" in story(rig, topic_name)


@pytest.mark.parametrize("at", ["plan", "read", "transform"])
def test_a_stalled_task_is_reported_with_its_stack_and_restarted(rig, topic_name, at):
    """In a call on the worker (plan), and in a Spark job (read, transform)."""
    release = rig.folder / "release"
    hold = {"transforms": "hold", "transforms.hold.type": "misbehaving.hold", "transforms.hold.at": at,
            "transforms.hold.release": str(release)}
    rig.create(topic_name, {**hanging(release, at, topic=topic_name), **hold, **QUICK, "errors.restart.policy": "all",
                            "errors.restart.limit": "2", "task.progress.timeout.ms": "2000"})
    wait_until(lambda: "in hang" in story(rig, topic_name), 40, "the stack in the story")
    assert re.search(r'^ +File ".*misbehaving.py", line \d+,? in hang$', rig.process.log.read_text(), re.MULTILINE)
    wait_until(lambda: metrics(rig).get(("heeler_task_restarts_total", "stall", topic_name, "0"), 0) >= 1, 30,
               "a restart")
    wait_until(lambda: any(topic_name in reported for reported in rig.call("GET", "/health").get("degraded", ())), 30,
               "the next instance to stall")
    assert metrics(rig)["heeler_task_stalled", topic_name, "0"] == 1
    wait_until(lambda: "in hang" in str(stalled(rig, topic_name)), 10, "the status to say so")
    release.touch()
    rig.wait_records(topic_name, 20)
    wait_until(lambda: metrics(rig)["heeler_task_stalled", topic_name, "0"] == 0, 30, "it to go on")
    wait_until(lambda: stalled(rig, topic_name) is None, 10, "the status to say so")
    assert not any(topic_name in reported for reported in rig.call("GET", "/health").get("degraded", ()))


@pytest.mark.parametrize(("at", "method"), [("start", "start"), ("tasks", "task_configs"), ("stop", "stop")])
def test_a_connector_that_hangs_is_reported_with_its_stack(rig, topic_name, at, method):
    release = rig.folder / "release"
    rig.create(topic_name, {**hanging(release, at, topic=topic_name), "task.progress.timeout.ms": "1000"},
               [RUNNING, RUNNING] if at == "stop" else None)
    if at == "stop":
        rig.call("PUT", f"/connectors/{topic_name}/pause")
    wait_until(lambda: "in hang" in story(rig, topic_name), 40, "the stack in the story")
    assert [line for line in rig.call("GET", "/health")["degraded"]
            if line.startswith(f"{topic_name}: {method} has not returned for ")]
    found = rig.call("GET", f"/connectors/{topic_name}/status").get("stalled") if at != "start" else None
    assert at == "start" or "in hang" in found["what"]
    rig.delete(topic_name)
    start = f"[{topic_name}|worker] Did not stop within 2000 ms (task.shutdown.graceful.timeout.ms) and was abandoned"

    def below() -> str:
        """The lines below that one."""
        _, _, after = rig.process.log.read_text().partition(f"{start}; its call is here:")
        return after.partition("\n[")[0]

    wait_until(lambda: re.search(r'^ +File ".*misbehaving.py", line \d+,? in hang$', below(), re.MULTILINE), 30,
               "the stack where it was abandoned")
    assert "The connector has failed" not in rig.process.log.read_text().partition(start)[2]
    release.touch()


def test_a_sink_whose_write_hangs_is_abandoned_with_a_plain_message(rig, topic_name):
    """It is reported at /health, other connectors continue, and what the worker itself cancels has no stack in the log.
    """
    release, other = rig.folder / "release", f"{topic_name}-other"
    rig.kafka.create(topic_name)
    rig.kafka.send(topic_name, ["a"])
    rig.create(topic_name, {"connector.class": "HangingSink", "topics": topic_name, "at": "write",
                            "release": str(release), **QUICK, "errors.restart.policy": "all",
                            "task.progress.timeout.ms": "2000"})
    rig.create(other, {"connector.class": "FileStreamSink", "topics": topic_name, "file": str(rig.folder / other)})
    wait_until(lambda: any(topic_name in reported for reported in rig.call("GET", "/health").get("degraded", ())), 40,
               "it to be told")
    assert "in hang" in story(rig, topic_name)
    rig.kafka.send(topic_name, ["b"])
    rig.wait_lines(rig.folder / other, ["a", "b"])
    log = rig.process.log

    def lines():
        return [line for line in log.read_text().splitlines() if f"[{topic_name}|task-0]" in line]

    wait_until(lambda: any("What the abandoned task was doing has ended: " in line for line in lines()), 40, "its end")
    assert [line for line in lines() if " ERROR " in line and "] Did not stop within " not in line] == []
    assert metrics(rig)["heeler_task_restarts_total", "stall", topic_name, "0"] >= 1
    release.touch()
    wait_until(lambda: rig.kafka.committed(f"connect-{topic_name}") == {(topic_name, 0): 2}, 40, "both records")
    wait_until(lambda: not any(topic_name in entry for entry in rig.call("GET", "/health").get("degraded", ())), 30,
               "it to be well")
