"""`heeler connectors`: lists, topics, restarts and other changes."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.rigs.cli_fake import ESCAPE, INFO, STATUS, run


def test_names_with_control_characters_are_escaped(fake):
    name = f"\u202e{ESCAPE}\n"
    status = {**STATUS, "name": name, "connector": {"state": ESCAPE, "worker_id": ESCAPE}}
    fake.answers["GET /connectors"] = [(200, {name: {"status": status, "info": INFO}}), (200, [name])] * 2
    done = run(fake, "connectors", "list").stdout
    assert r"\u202e\x1b]0;owned\x07\x1b[2J\n" in done
    assert len(done.splitlines()) == 2
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        fake.answers["GET /connectors"] = [(200, {name: {"status": status, "info": INFO}}), (200, [name])]
        text = run(fake, "connectors", "list", "-o", form).stdout
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert read(text)[name]["status"] == status


def test_topics_of_a_connector_that_does_not_exist(fake):
    fake.answers["GET /connectors/c/topics"] = (200, {"c": {"topics": []}})  # as Kafka Connect answers
    run(fake, "connectors", "topics", "c", code=4)
    fake.answers["GET /connectors/c"] = (200, INFO)
    assert run(fake, "connectors", "topics", "c").stdout == "The connector has not used any topic yet.\n"


def test_show_works_without_a_status_but_reports_other_errors(fake):
    fake.answers["GET /connectors/c"] = (200, INFO)
    assert run(fake, "connectors", "show", "c").stdout.endswith("connector.\n")
    fake.answers["GET /connectors/c/status"] = (500, {"error_code": 500, "message": "away"})
    run(fake, "connectors", "show", "c", code=7)


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
@pytest.mark.parametrize(("words", "changes"), [
    (["pause", "c", "d"], [{"name": "c", "action": "pause"},
                           {"name": "d", "action": "pause", "error": "HTTP 404: no d"}]),
    (["resume", "c"], [{"name": "c", "action": "resume"}]),
    (["stop", "c"], [{"name": "c", "action": "stop"}]),
    (["delete", "c", "--yes"], [{"name": "c", "action": "delete"}]),
    (["restart", "c"], [{"name": "c", "action": "restart"}]),
    (["restart", "c", "--include-tasks"], [{"name": "c", "action": "restart", "response": STATUS}]),
    (["restart", "c", "--task", "1"], [{"name": "c", "action": "restart task 1"}]),
    (["topics", "c", "--reset"], [{"name": "c", "action": "reset topics"}]),
])
def test_changes_print_one_document_for_programs(fake, form, read, words, changes):
    fake.answers |= {
        **{f"PUT /connectors/c/{verb}": (202, None) for verb in ("pause", "resume")},
        "PUT /connectors/c/stop": (204, None), "PUT /connectors/c/topics/reset": (200, None),
        "PUT /connectors/d/pause": (404, {"message": "no d"}), "DELETE /connectors/c": (204, None),
        "POST /connectors/c/restart": (202, STATUS) if "--include-tasks" in words else (204, None),
        "POST /connectors/c/tasks/1/restart": (204, None)}
    done = run(fake, "connectors", *words, "-o", form, code=4 if "d" in words else 0)
    assert read(done.stdout) == {"changes": changes}


@pytest.mark.parametrize(("connector", "task", "words"), [
    ("RESTARTING", "RESTARTING", "restarts the connector, task 0"), ("RUNNING", "RESTARTING", "restarts task 0"),
    ("RUNNING", "RUNNING", "nothing to restart"),
])
def test_a_restart_says_what_restarts(fake, connector, task, words):
    plan = {**STATUS, "connector": {**STATUS["connector"], "state": connector},
            "tasks": [{**STATUS["tasks"][0], "state": task}]}
    fake.answers["POST /connectors/c/restart"] = (202, plan)
    assert run(fake, "connectors", "restart", "c", "--include-tasks", "--only-failed").stdout == f"c: {words}\n"


CONFIG = {"name": "c", "connector.class": "X", "sasl.jaas.config": 'x password="hunter2hunter2";',
          "pin": "swordfish", "a": "1"}


@pytest.fixture
def listed(fake):
    fake.answers["GET /connectors"] = [(200, {"c": {"status": STATUS, "info": {**INFO, "config": CONFIG}}}),
                                       (200, ["c"])] * 2
    fake.answers["GET /connector-plugins/X/config"] = (200, [{"name": "pin", "type": "PASSWORD"}])
    return fake


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_machine_readable_lists_have_no_secrets(listed, form, parse):
    shown = run(listed, "connectors", "list", "-o", form).stdout
    assert parse(shown)["c"]["info"]["config"] == {**CONFIG, "sasl.jaas.config": "[hidden]", "pin": "[hidden]"}
    shown = run(listed, "connectors", "list", "-o", form, "--show-secrets").stdout
    assert parse(shown)["c"]["info"]["config"] == CONFIG


@pytest.mark.parametrize(("state", "code"), [("RUNNING", 0), ("FAILED", 1)])
def test_tasks_have_their_states_and_no_secrets(fake, state, code):
    task = {"id": {"connector": "c", "task": 0}, "config": {"db.password": "swordfish", "a": "1"}}
    fake.answers |= {
        "GET /connectors/c/tasks": (200, [task, {**task, "id": {"connector": "c", "task": 1}}]),
        "GET /connectors/c/status": (200, {**STATUS, "tasks": [{"id": 0, "state": state, "worker_id": "w:1"}]}),
        "GET /connectors/c/config": (200, INFO["config"]),
    }
    done = run(fake, "connectors", "tasks", "c", code=code).stdout
    assert [line.split()[:2] for line in done.splitlines()[1:]] == [["0", state], ["1", "(no"]]
    assert "db.password=[hidden]" in done
    assert "swordfish" not in done
    assert "swordfish" in run(fake, "connectors", "tasks", "c", "--show-secrets", code=code).stdout
