"""A connector's life through REST, in a real worker: create, pause, resume, stop, restart, change, delete."""

from __future__ import annotations

import time

import pytest

from tests.rigs.connector_states import states_of
from tests.rigs.support import wait_until
from tests.rigs.workers import pause_between

pytestmark = pytest.mark.integration

RUNNING, PAUSED, STOPPED = "RUNNING", "PAUSED", "STOPPED"
QUIET_S = 1.0  # for what must not happen: ten times the longest pause of an idle source


def source(file, topic, **more):
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic, **more}


def sink(file, topic, **more):
    return {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(file), "topics": topic, **more}


def append(file, lines):
    with file.open("a") as out:
        out.writelines(f"{line}\n" for line in lines)


def numbered(word, first, last):
    return [f"{word} {n}" for n in range(first, last)]


@pytest.fixture
def pipe(rig, topic_name):
    """A file through a topic into another file: their names, and both connectors RUNNING."""
    rig.kafka.create(topic_name)
    into, out = rig.folder / "in.txt", rig.folder / "out.txt"
    into.touch()
    rig.create(f"{topic_name}-in", source(into, topic_name), [RUNNING, RUNNING])
    rig.create(f"{topic_name}-out", sink(out, topic_name), [RUNNING, RUNNING])
    return into, out


def test_lines_are_copied_and_rest_reports_the_connectors(rig, pipe, topic_name):
    into, out = pipe
    append(into, numbered("line", 0, 100))
    rig.wait_lines(out, numbered("line", 0, 100))
    name = f"{topic_name}-in"
    reported = rig.call("GET", f"/connectors/{name}")
    assert reported == {"name": name, "config": {"name": name, **source(into, topic_name)}, "type": "source",
                    "tasks": [{"connector": name, "task": 0}]}
    status = rig.call("GET", f"/connectors/{name}/status")
    worker = status["connector"]["worker_id"]
    assert worker == f"127.0.0.1:{rig.process.port}"
    assert [(t["id"], t["state"], t["worker_id"]) for t in status["tasks"]] == [(0, RUNNING, worker)]
    assert rig.call("GET", f"/connectors/{name}/tasks/0/status")["state"] == RUNNING
    [task] = rig.call("GET", f"/connectors/{name}/tasks")
    assert task["config"]["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert set(rig.call("GET", "/connectors?expand=status&expand=info")[name]) == {"status", "info"}


def test_a_name_can_be_created_only_once(rig, topic_name):
    name = rig.create(topic_name, source(rig.folder / "none", topic_name), [RUNNING, RUNNING])
    again = rig.refused("POST", "/connectors", {"name": name, "config": source("x", "y")})
    assert (again.status, str(again)) == (409, f"HTTP 409: Connector {name} already exists")


@pytest.mark.parametrize("side", ["in", "out"])
def test_a_paused_connector_moves_nothing_until_it_is_resumed(rig, pipe, topic_name, side):
    into, out = pipe
    append(into, numbered("before", 0, 10))
    rig.wait_lines(out, numbered("before", 0, 10))
    name = f"{topic_name}-{side}"
    rig.call("PUT", f"/connectors/{name}/pause")
    rig.wait_states(name, [PAUSED, PAUSED])
    begun = time.monotonic()
    append(into, numbered("after", 0, 10))
    if side == "out":
        rig.wait_records(topic_name, 20)
    pause_between(begun, QUIET_S)
    assert out.read_text().splitlines() == numbered("before", 0, 10)
    assert states_of(rig.rest, name) == [PAUSED, PAUSED]
    rig.call("PUT", f"/connectors/{name}/resume")
    rig.wait_states(name, [RUNNING, RUNNING])
    rig.wait_lines(out, [*numbered("before", 0, 10), *numbered("after", 0, 10)])


@pytest.mark.parametrize("side", ["in", "out"])
def test_a_stopped_connector_has_no_tasks_until_it_is_resumed(rig, pipe, topic_name, side):
    into, out = pipe
    append(into, numbered("before", 0, 10))
    rig.wait_lines(out, numbered("before", 0, 10))
    name = f"{topic_name}-{side}"
    rig.call("PUT", f"/connectors/{name}/stop")
    rig.wait_states(name, [STOPPED])
    assert rig.call("GET", f"/connectors/{name}/tasks") == []
    assert rig.call("GET", f"/connectors/{name}")["tasks"] == []
    begun = time.monotonic()
    append(into, numbered("after", 0, 10))
    pause_between(begun, QUIET_S)
    assert out.read_text().splitlines() == numbered("before", 0, 10)
    rig.call("PUT", f"/connectors/{name}/resume")
    rig.wait_states(name, [RUNNING, RUNNING])
    rig.wait_lines(out, [*numbered("before", 0, 10), *numbered("after", 0, 10)])


def test_every_kind_of_restart_continues_where_it_was(rig, pipe, topic_name):
    """Each way of restarting leaves it running, where it was."""
    into, out = pipe
    sent = []
    for turn, path in enumerate((
        "restart", "tasks/0/restart", "restart?includeTasks=true", "restart?includeTasks=true&onlyFailed=true",
    )):
        for side in ("in", "out"):
            name = f"{topic_name}-{side}"
            answer = rig.call("POST", f"/connectors/{name}/{path}")
            if "?" not in path:
                assert answer is None
            elif "onlyFailed" in path:
                assert {answer["connector"]["state"], answer["tasks"][0]["state"]} == {RUNNING}
            else:
                assert {answer["connector"]["state"], answer["tasks"][0]["state"]} == {"RESTARTING"}
            rig.wait_states(name, [RUNNING, RUNNING])
        more = numbered(f"turn {turn},", 0, 5)
        append(into, more)
        sent += more
        rig.wait_lines(out, sent)
    unknown = rig.refused("POST", "/connectors/nobody/restart?includeTasks=true")
    assert (unknown.status, str(unknown)) == (404, "HTTP 404: Unknown connector: nobody")
    assert rig.refused("POST", f"/connectors/{topic_name}-in/tasks/7/restart").status == 404


def test_a_connector_is_restarted_when_the_ttl_of_a_provided_value_expires(rig, topic_name):
    """The connector is restarted repeatedly (KIP-297), its task never, since its configuration does not change."""
    folder = rig.folder / "alone"
    folder.mkdir()
    config = {"connector.class": "AloneSource", "topic": "${short:none:topic}", "folder": str(folder)}
    rig.create(topic_name, config, [RUNNING, RUNNING])
    wait_until((lambda: (folder / topic_name).read_text().count("started") > 2), what="two restarts")
    rig.create(topic_name, {**config, "config.action.reload": "none"}, [RUNNING, RUNNING])

    def starts_of_the_task():
        return (folder / f"{topic_name}-0").read_text().count("started")

    wait_until(lambda: starts_of_the_task() > 1, what="the start after the change")
    rig.delete(topic_name)
    assert "twice" not in (folder / topic_name).read_text()
    assert starts_of_the_task() == 2


def test_a_running_connector_can_be_reconfigured_without_loss(rig, pipe, topic_name):
    """The tasks get the new configuration and continue at their offsets: no record is lost or duplicated."""
    into, out = pipe
    moved, other = rig.folder / "moved.txt", f"{topic_name}-other"
    lines = []

    def send_until(condition, what):
        def sent():
            lines.append(f"line {len(lines)}")
            append(into, lines[-1:])
            return condition()

        wait_until(sent, 30, what)

    send_until(out.exists, "the first line")
    rig.create(f"{topic_name}-out", sink(moved, topic_name))
    send_until(moved.exists, "a line in the new file")
    [task] = rig.call("GET", f"/connectors/{topic_name}-out/tasks")
    assert task["config"]["file"] == str(moved)
    rig.create(f"{topic_name}-in", source(into, other))
    send_until(lambda: rig.kafka.end(other), "a record in the new topic")
    rig.wait_records(other, len(lines) - rig.kafka.end(topic_name))
    assert rig.kafka.values(topic_name) + rig.kafka.values(other) == lines
    rig.wait_lines(moved, lines[len(out.read_text().splitlines()):rig.kafka.end(topic_name)])
    patched = rig.call("PATCH", f"/connectors/{topic_name}-in/config", {"batch.size": "7", "topic": topic_name})
    assert patched["config"] == {"name": f"{topic_name}-in", **source(into, topic_name), "batch.size": "7"}
    again = rig.call("PATCH", f"/connectors/{topic_name}-in/config", {"batch.size": None})
    assert "batch.size" not in again["config"]


def test_a_deleted_connector_is_gone_and_its_offsets_remain(rig, pipe, topic_name):
    into, out = pipe
    append(into, numbered("line", 0, 10))
    rig.wait_lines(out, numbered("line", 0, 10))
    name = f"{topic_name}-in"
    written = {"position": into.stat().st_size}
    wait_until(lambda: [o["offset"] for o in rig.call("GET", f"/connectors/{name}/offsets")["offsets"]] == [written])
    before = rig.kafka.end("shared-worker-offsets")
    rig.delete(name)
    for path in ("", "/config", "/status", "/tasks", "/offsets"):
        assert rig.refused("GET", f"/connectors/{name}{path}").status == 404, path
    assert rig.refused("DELETE", f"/connectors/{name}").status == 404
    assert name not in rig.call("GET", "/connectors")
    assert rig.kafka.end("shared-worker-offsets") == before  # a new one of the name goes on
    append(into, numbered("more", 0, 10))
    rig.create(name, source(into, topic_name), [RUNNING, RUNNING])
    rig.wait_lines(out, [*numbered("line", 0, 10), *numbered("more", 0, 10)])


@pytest.mark.parametrize("state", [PAUSED, STOPPED])
def test_a_connector_created_paused_or_stopped_moves_nothing(rig, topic_name, state):
    """KIP-980: no task, so no record, before it is resumed."""
    into = rig.folder / "in.txt"
    append(into, numbered("line", 0, 5))
    config = source(into, rig.kafka.create(topic_name))
    rig.created.append(topic_name)
    answer = rig.call("POST", "/connectors", {"name": topic_name, "config": config, "initial_state": state.lower()})
    assert answer["name"] == topic_name
    rig.wait_states(topic_name, [state])
    pause_between(time.monotonic(), 0.3)
    assert rig.kafka.end(topic_name) == 0
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    rig.wait_records(topic_name, 5)
    rig.wait_states(topic_name, [RUNNING, RUNNING])


def test_names_with_special_characters_are_supported(rig, topic_name):
    """Blanks, slashes and letters of other alphabets are percent-encoded in paths."""
    name = f"{topic_name} a/b%ß"
    rig.create(name, source(rig.folder / "none", topic_name), [RUNNING, RUNNING])
    rig.delete(name)
