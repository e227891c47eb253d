"""Failures are reported and affect nothing else: tasks, plugins that raise or hang, invalid configurations."""

from __future__ import annotations

import contextlib
import re
import threading
import uuid

import pytest

from heeler.cli.client.rest_client import RestError
from tests.rigs.connector_states import states_of
from tests.rigs.failing_sources import FAILED, RUNNING, STOPPED, failing, hanging
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration

BAD = {
    "no class": ({}, "Connector config {name=%s} contains no connector type"),
    "unknown class": ({"connector.class": "Nonsense"}, "Failed to find any class that implements Connector"),
    "no topic": ({"connector.class": "FileStreamSource"}, 'Missing required configuration "topic"'),
    "no topics": ({"connector.class": "FileStreamSink"}, "Must configure one of topics or topics.regex"),
    "both": ({"connector.class": "FileStreamSink", "topics": "a", "topics.regex": "b"},
             "topics and topics.regex are mutually exclusive options, but both are set."),
    "tasks.max": ({"connector.class": "FileStreamSource", "topic": "t", "tasks.max": "0"},
                  "Invalid value 0 for configuration tasks.max: Value must be at least 1"),
    "converter": ({"connector.class": "FileStreamSource", "topic": "t", "value.converter": "no.Such"},
                  "Invalid value no.Such for configuration value.converter"),
    "transform": ({"connector.class": "FileStreamSource", "topic": "t", "transforms": "a",
                   "transforms.a.type": "no.Such"}, "Invalid value no.Such for configuration transforms.a.type"),
    "name": ({"connector.class": "FileStreamSource", "topic": "t", "name": "other"},
             "Connector name configuration (other) doesn't match connector name in the URL (%s)"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_configuration_is_refused(rig, topic_name, case):
    config, text = BAD[case]
    error = rig.refused("PUT", f"/connectors/{topic_name}/config", config)
    assert error.status == 400
    assert (text % topic_name if "%s" in text else text) in str(error)
    assert topic_name not in rig.call("GET", "/connectors")


def test_several_errors_are_reported_together(rig, topic_name):
    error = rig.refused("POST", "/connectors", {"name": topic_name, "config": {
        "connector.class": "FileStreamSource", "tasks.max": "x", "batch.size": "y"}})
    lines = str(error).splitlines()
    reported = [line for line in lines if line.startswith(("Invalid value", "Missing required"))]
    assert (error.status, lines[0]) == (
        400, f"HTTP 400: Connector configuration is invalid and contains the following {len(reported)} error(s):")
    for key in ("tasks.max", "batch.size", '"topic"'):
        assert any(key in line for line in reported), reported


def test_a_failed_task_shows_its_trace_and_a_restart_continues_it(rig, topic_name):
    """The trace is in its status, others continue, and after a restart it continues where it stopped."""
    healthy, out = rig.folder / "in.txt", topic_name + "-other"
    healthy.write_text("before\n")
    rig.create(f"{topic_name}-other", {"connector.class": "FileStreamSource", "file": str(healthy), "topic": out})
    release = rig.folder / "release"
    rig.create(topic_name, failing(release, "read", topic_name), [RUNNING, FAILED])
    status = rig.call("GET", f"/connectors/{topic_name}/status")
    trace = status["tasks"][0]["trace"]
    assert "RuntimeError: misbehaving at read" in trace
    assert "misbehaving.py" in trace
    assert "trace" not in status["connector"]
    assert rig.call("GET", f"/connectors/{topic_name}/tasks/0/status")["trace"] == trace
    with healthy.open("a") as file:
        file.write("after\n")
    rig.wait_records(out, 2)
    release.touch()
    answer = rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true&onlyFailed=true")
    assert (answer["connector"]["state"], answer["tasks"][0]["state"]) == (RUNNING, "RESTARTING")
    rig.wait_states(topic_name, [RUNNING, RUNNING])
    rig.wait_records(topic_name, 20)
    assert rig.kafka.values(topic_name) == [f"record {n}" for n in range(20)]


def test_text_from_outside_cannot_forge_log_lines(rig, topic_name):
    """The text comes from REST, two internal topics, a plugin's exception and its log; REST responses have it
    unchanged.
    """
    forged = f"[2026-01-01 00:00:00,000] ERROR forged {topic_name} (x:1)"
    name = f"{topic_name}-\u202e\u2028{forged}"
    says = f"\n{forged}\r\x1b[2K{forged}\u2029{forged}"
    rig.create(name, {**failing(rig.folder / "release", "read", topic_name), "says": says}, [RUNNING, FAILED])
    assert says in rig.rest.failure(name)
    for kind, key in (("config", "connector-"), ("status", "status-connector-")):
        rig.kafka.send(rig.process.properties[f"{kind}.storage.topic"], ['{"properties": 1'], [f"{key}\n{forged}"])

    def reported():
        lines = rig.process.log.read_text().splitlines()  # at all that ends a line for anybody
        about = [line for line in lines if forged in line]
        for kind in ("connector-", "status-connector-"):
            assert any(rf"{kind}\n{forged}" in line for line in about), about
        assert any(rf"WARN misbehaving\n{forged}" in line for line in about), "a Python worker of Spark"
        return about

    about = wait_until(reported, 30, "the lines about the records")
    assert any(rf"[{topic_name}-\u202e\u2028{forged}|task-0] " in line for line in about), about
    genuine = re.compile(r"\[20\d\d-(?!01-01 00:00:00,000).{18}\] (INFO|WARN|ERROR) |    ")
    assert [line for line in about if not genuine.match(line)] == []
    assert [line for line in about if set(line) & {*"\r\x1b\u2028\u2029\u202e"}] == []


def test_failing_sink_stops_consuming(rig, topic_name):
    """A sink that cannot write commits nothing of that batch."""
    kafka, folder = rig.kafka, rig.folder / "missing"
    kafka.create(topic_name)
    kafka.send(topic_name, ["a", "b"])
    rig.create(topic_name, {"connector.class": "FileStreamSink", "topics": topic_name, "file": str(folder / "out")},
               [RUNNING, FAILED])
    assert "Couldn't find or create file" in rig.rest.failure(topic_name)
    assert kafka.committed(f"connect-{topic_name}") == {}
    folder.mkdir()
    rig.call("POST", f"/connectors/{topic_name}/tasks/0/restart")
    rig.wait_lines(folder / "out", ["a", "b"])


@pytest.mark.parametrize("at", ["start", "task-start", "plan", "task-stop"])
def test_a_plugin_that_raises_fails_its_connector_or_task_until_a_restart(rig, topic_name, at):
    release = rig.folder / "release"
    expected = {"start": [FAILED], "task-start": [RUNNING, FAILED], "plan": [RUNNING, FAILED]}
    rig.create(topic_name, failing(release, at, topic_name), expected.get(at, [RUNNING, RUNNING]))
    if at == "task-stop":
        rig.wait_records(topic_name, 20)
        rig.call("PUT", f"/connectors/{topic_name}/stop")
        rig.wait_states(topic_name, [STOPPED])
        rig.call("PUT", f"/connectors/{topic_name}/resume")
        rig.wait_states(topic_name, [RUNNING, RUNNING])
    else:
        assert f"misbehaving at {at}" in rig.rest.failure(topic_name)
        release.touch()
        rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true")
        rig.wait_records(topic_name, 20)
        rig.wait_states(topic_name, [RUNNING, RUNNING])


def test_an_error_in_validation_is_a_500_response(rig, topic_name):
    error = rig.refused("PUT", f"/connectors/{topic_name}/config", failing(rig.folder / "release", "validate"))
    assert error.status == 500
    assert "misbehaving at validate" in str(error)


def test_a_connector_whose_stop_raises_can_be_deleted(rig, topic_name):
    """It is stopped and deleted regardless of the error."""
    rig.create(topic_name, failing(rig.folder / "release", "stop"), [RUNNING, RUNNING])
    rig.delete(topic_name)


def test_raising_task_configs_are_retried(rig, topic_name):
    """As with Kafka Connect, the connector is RUNNING meanwhile; nothing is lost."""
    release = rig.folder / "release"
    rig.create(topic_name, failing(release, "tasks", topic_name), [RUNNING])
    release.touch()
    rig.wait_states(topic_name, [RUNNING, RUNNING])
    rig.wait_records(topic_name, 20)


@pytest.fixture
def works(rig, topic_name):
    """Creating another connector and having it run, and its end."""

    def check():
        name = f"{topic_name}-other-{uuid.uuid4().hex[:8]}"
        file = rig.folder / "lines"
        file.write_text("line\n")
        rig.create(name, {"connector.class": "FileStreamSource", "file": str(file), "topic": name}, [RUNNING, RUNNING])
        rig.wait_records(name, 1)
        rig.delete(name)

    return check


@pytest.mark.parametrize("at", ["start", "tasks", "configure", "task-start", "plan", "read"])
def test_a_hanging_plugin_blocks_no_others(rig, topic_name, at, works):
    release = rig.folder / "release"
    rig.create(topic_name, hanging(release, at, topic=topic_name))
    sign = release.with_name("release.hangs")
    wait_until(sign.exists, 30, "the plugin to hang")
    works()
    assert sign.exists(), "it still hangs"
    release.touch()
    rig.wait_states(topic_name, [RUNNING, RUNNING])
    rig.wait_records(topic_name, 20)


@pytest.mark.parametrize("at", ["start", "tasks", "configure", "task-start", "plan", "read"])
def test_hanging_plugin_can_be_deleted(rig, topic_name, at, works):
    """It is abandoned after task.shutdown.graceful.timeout.ms (2 s here), and a new one with its name works."""
    release = rig.folder / "release"
    rig.create(topic_name, hanging(release, at, topic=topic_name))
    works()
    rig.delete(topic_name)
    works()
    rig.create(topic_name, hanging(release, topic=topic_name))
    rig.wait_records(topic_name, 20)
    rig.wait_states(topic_name, [RUNNING, RUNNING])
    release.touch()


@pytest.mark.parametrize("at", ["stop", "task-stop"])
def test_a_connector_whose_stop_hangs_can_be_deleted(rig, topic_name, at, works):
    release = rig.folder / "release"
    rig.create(topic_name, hanging(release, at, topic=topic_name), [RUNNING, RUNNING])
    rig.wait_records(topic_name, 20)
    rig.call("DELETE", f"/connectors/{topic_name}")
    works()
    wait_until(lambda: states_of(rig.rest, topic_name) == [], 30, "its end")
    rig.create(topic_name, hanging(release, topic=topic_name), [RUNNING, RUNNING])
    release.touch()


def test_a_hanging_validation_does_not_block_other_requests(rig, topic_name, works):
    release = rig.folder / "release"
    answers = []

    def ask():
        with contextlib.suppress(RestError):
            answers.append(rig.rest.put_config(topic_name, hanging(release, "validate")))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        works()
        assert not answers
    finally:
        release.touch()
        asking.join(30)
    assert answers[0]["name"] == topic_name
    rig.created.append(topic_name)
