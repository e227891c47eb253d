"""The `heeler` command and a heeler worker; tests/interop/test_cli_java.py has the same with a Java worker."""

from __future__ import annotations

import json
import logging

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from tests.rigs.cli_tour import Terminal, tour
from tests.rigs.failing_sources import QUICK, failing
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration


def test_the_command_line_tour_against_heeler(rig, topic_name):
    rig.created += [f"{topic_name}-in", f"{topic_name}-out"]
    tour(rig.rest.url, rig.kafka, rig.folder, topic_name)


def test_top_and_story_show_restarts(rig, topic_name):
    """Uses responses that only heeler's workers return."""
    terminal, release = Terminal(rig.rest.url), rig.folder / "release"
    rig.create(topic_name, {**failing(release, "read", topic_name), **QUICK})
    sink, out = f"{topic_name}-out", rig.folder / "out"
    rig.kafka.create(sink)
    rig.kafka.send(sink, ["a", "b", "c"])
    rig.create(sink, {"connector.class": "FileStreamSink", "topics": sink, "file": str(out)})
    rig.wait_lines(out, ["a", "b", "c"])

    def restarted() -> bool:
        # Whatever it is at that moment: failed with a next attempt, or running with a count.
        task = terminal.data("connectors", "list")[topic_name]["status"]["tasks"][0]
        return task.get("restarts", {}).get("count", 0) >= 2

    wait_until(restarted, 60, "two restarts")
    release.touch()
    rig.wait_records(topic_name, 20)  # by the first instance that does not fail
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])
    status = terminal.run("connectors", "status", topic_name).stdout.splitlines()
    assert "RESTARTS" in status[0]
    assert "; failed: RuntimeError: misbehaving at read" in status[2]
    assert "task 0: RUNNING, restarts: " in terminal.run("connectors", "show", topic_name).stdout
    assert "RESTARTS" not in terminal.run("connectors", "status", sink).stdout
    story = terminal.data("connectors", "story", topic_name)["story"]
    assert any("Restarting after a failure" in str(step) for step in story)
    assert "Restarting after a failure" in terminal.run("connectors", "story", topic_name).stdout
    terminal.run("connectors", "story", f"{topic_name}-nobody", code=4)

    def caught_up() -> bool:
        shown = terminal.run("top", "--times", "2", "--interval", "0.5").stdout.rpartition("CONNECTOR")[2].splitlines()
        [task] = [line.split() for line in shown if line.startswith(f"{sink} ") and " task 0 " in line]
        assert task[1:4] == ["task", "0", "RUNNING"]
        assert task[4] == "0", "records a second, between two looks"
        assert task[5:7] == ["0", "0"], "lag, and no errors"
        return True

    wait_until(caught_up, 30, "a look at a sink that has caught up")
    [task] = [row for row in terminal.data("top", "--times", "1")
              if (row["connector"], row["task"]) == (topic_name, 0)]
    assert (task["state"], task["errors"]) == ("RUNNING", 0), "those of the instance that runs now"


def test_a_sink_is_tried_with_the_newest_records_of_its_topics(rig, topic_name):
    """They are read without a group; nothing is written, produced or committed."""
    rig.kafka.create(topic_name)
    rig.kafka.send(topic_name, [f"line {number}" for number in range(9)])
    topics, end = set(rig.kafka.admin.list_topics(timeout=10).topics), rig.kafka.end(topic_name)
    file, out = rig.folder / "tried.yaml", rig.folder / "out.txt"
    file.write_text(f"name: {topic_name}\nconnector.class: FileStreamSink\ntopics: {topic_name}\nfile: {out}\n"
                    "value.converter: org.apache.kafka.connect.storage.StringConverter\n")
    words = ["try", str(file), "--limit", "2", "--bootstrap-servers", rig.kafka.servers, "-o", "json"]
    try:
        done = CliRunner().invoke(main, words, catch_exceptions=False)
    finally:
        logging.disable(logging.NOTSET)  # the command ends with its process, so it leaves logging disabled
    assert done.exit_code == 0, done.output
    stages = json.loads(done.stdout)["stages"]
    assert [stage["stage"] for stage in stages] == ["read", "converter", "write"]
    assert [[record["value"] for record in stage["records"]] for stage in stages] == [["line 7", "line 8"]] * 3
    assert not out.exists()
    assert (set(rig.kafka.admin.list_topics(timeout=10).topics), rig.kafka.end(topic_name)) == (topics, end)
    assert rig.kafka.group_state(f"connect-{topic_name}") == "DEAD"


def test_trials_over_http(rig, topic_name):
    """POST /connectors/try: with the worker's plugins and converters; nothing is left behind."""
    file, out = rig.folder / "in.txt", rig.folder / "out.txt"
    file.write_text("a\nb\nc\n")
    topics = set(rig.kafka.admin.list_topics(timeout=10).topics)
    source = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic_name, "transforms": "up",
              "transforms.up.type": "org.apache.kafka.connect.transforms.HoistField$Value", "transforms.up.field": "l"}
    stages = rig.call("POST", "/connectors/try", {"config": source, "limit": 2})["stages"]
    assert stages[0]["stage"] == "read"
    assert [record["value"] for record in stages[0]["records"]] == ["a", "b"]
    assert [record["value"] for record in stages[1]["records"]] == [{"l": "a"}, {"l": "b"}]
    sink = {"connector.class": "FileStreamSink", "topics": topic_name, "file": str(out)}
    stages = rig.call("POST", "/connectors/try", {"config": sink, "records": [{"value": "x"}]})["stages"]
    assert stages[-1]["records"][0]["value"] == "x"
    for body, words in (({"config": {**source, "connector.class": "Nobody"}}, "Nobody"), ({"config": sink}, "records"),
                        ({"conf": {}}, "Unrecognized field"), ({"config": source, "limit": 0}, "limit")):
        error = rig.refused("POST", "/connectors/try", body)
        assert (error.status, words in str(error)) == (400, True), error
    config = failing(rig.folder / "release", "read", topic_name)
    [failed] = rig.call("POST", "/connectors/try", {"config": config})["stages"]
    assert failed["error"].endswith("RuntimeError: misbehaving at read")
    assert not out.exists()
    assert topic_name not in rig.call("GET", "/connectors")
    assert set(rig.kafka.admin.list_topics(timeout=10).topics) == topics
    assert rig.kafka.group_state(f"connect-{topic_name}") == "DEAD"
