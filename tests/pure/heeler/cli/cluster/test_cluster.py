"""The commands with a server that sends arbitrary responses; tests/rigs/cli_tour.py uses real workers."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
import yaml
from click.testing import CliRunner

from heeler.cli.main import main
from spark_tasks.process import worker_requests
from tests.rigs.fake_connect import fake_connect

ESCAPE = "\x1b]0;owned\x07\x1b[2J"
STATUS = {"name": "c", "type": "sink", "connector": {"state": "RUNNING", "worker_id": "w:1"},
          "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "Boom\n\tat x"}]}
STALL = "stalled since 2026-11-22T18:00:00Z: a batch has been running for 300 s"
STALLS = {**STATUS, "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w:1"}, {
    "id": 1, "state": "RUNNING", "worker_id": "w:1",
    "stalled": {"since": "2026-11-22T18:00:00Z", "what": "a batch has been running for 300 s\nin read"}}]}
INFO = {"name": "c", "config": {"name": "c", "connector.class": "X", "a": "1"}, "tasks": [], "type": "sink"}


@pytest.fixture
def fake():
    with fake_connect() as running:
        yield running


def run(fake, *words, code=0, url=None):
    done = CliRunner(env={"HEELER_PROFILES": "/nowhere"}).invoke(
        main, [*words, "--url", url or fake.url, "--timeout", "0"], catch_exceptions=False)
    assert done.exit_code == code, (done.exit_code, done.output)
    return done


@pytest.mark.parametrize(("words", "request_line"), [
    (("loggers", "list"), "GET /admin/loggers"), (("loggers", "set", "root", "INFO"), "PUT /admin/loggers/root"),
    (("connectors", "story", "c"), "GET /connectors/c/story"),
    (("connectors", "replay", "c", "--yes"), "POST /connectors/c/dead-letters/replay"),
])
def test_errors_say_that_an_endpoint_is_not_served_here(fake, words, request_line):
    """By a Java worker, or because heeler serves it on admin.listeners."""
    error = run(fake, *words, code=4).stderr
    assert f"{request_line} is not served at this address. Workers of Java Kafka Connect" in error
    assert "A worker with admin.listeners serves some paths only there" in error
    fake.answers[request_line] = 404, {"error_code": 404, "message": "Connector c not found"}
    assert run(fake, *words, code=4).stderr == "heeler: HTTP 404: Connector c not found\n"


@pytest.mark.parametrize(("answer", "code", "text"), [
    ((404, {"error_code": 404, "message": "Connector c not found"}), 4, "HTTP 404: Connector c not found"),
    ((400, {"error_code": 400, "message": "wrong"}), 5, "HTTP 400: wrong"),
    ((401, b"User cannot access the resource."), 5, "HTTP 401: User cannot access the resource."),
    ((409, {"error_code": 409, "message": "Connector c already exists"}), 5, "already exists"),
    ((409, {"error_code": 409, "message": "stale configuration"}), 6, "stale configuration"),
    ((500, {"error_code": 500, "message": "a rebalance"}), 7, "HTTP 500: a rebalance"),
    ((500, b""), 7, "(no message)"),
    ((502, b"<html>" + b"x" * 10_000), 7, "10,000 characters"),
    ((502, b"<html>\n<h1 class='a'>Bad\n  Gateway</h1></html>"), 7, "HTTP 502: Bad Gateway\n"),
    ((404, b"<html>\n<h1>no page</h1></html>"), 7, "Is that a Kafka Connect worker? Its response: no page"),
    ((404, b""), 7, "HTTP 404 without JSON"),
    ((503, {"error_code": 503, "message": ["odd"]}), 7, '["odd"]'),
    ((500, {"error_code": 500, "message": f"no {ESCAPE}"}), 7, r"no \x1b]0;owned\x07\x1b[2J"),
    ((200, b"<html>a proxy</html>"), 7, "is not JSON"),
    ((200, b"[" * 100_000), 7, "is not JSON"),
    ((200, b"\xff\xfe\x00"), 7, "is not JSON"),
    ((200, []), 7, "is not an object but of type list"),
    ((200, None), 7, "is not an object but of type NoneType"),
    ((200, {**INFO, "config": {"a": {"b": "c"}}}), 7, "is not an object of strings but of type dict"),
    ((302, b""), 7, "redirects (HTTP 302)"),
    ((0, b""), 3, "No worker responds"),
])
def test_errors_have_their_exit_codes(fake, answer, code, text):
    fake.answers["GET /connectors/c"] = answer
    done = run(fake, "connectors", "show", "c", code=code)
    assert text in done.stderr
    assert "Traceback" not in done.output
    assert "\x1b" not in done.output


@pytest.mark.parametrize("status", [
    {"connector": {}, "tasks": [{"id": "0"}]}, {"connector": []}, {"connector": {}, "tasks": {}}, "RUNNING",
    {"connector": {}, "tasks": [[]]},
])
def test_malformed_statuses_are_reported(fake, status):
    fake.answers["GET /connectors/c/status"] = (200, status)
    assert "The response for a connector's status" in run(fake, "connectors", "status", "c", code=7).stderr


def test_a_response_over_the_limit_is_refused(fake, monkeypatch):
    monkeypatch.setattr(worker_requests, "LONGEST_ANSWER", 2**20)
    fake.answers["GET /connectors"] = (200, b" " * 2**21)
    assert "the response has more than 1 MiB" in run(fake, "connectors", "list", code=7).stderr


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


def test_statuses_are_shown_although_some_requests_fail(fake):
    fake.answers["GET /connectors/c/status"] = (200, STATUS)
    missing = {"error_code": 404, "message": "No status found for connector nope"}
    fake.answers["GET /connectors/nope/status"] = (404, missing)
    done = run(fake, "connectors", "status", "nope", "c", code=4)
    assert done.stderr == "heeler: nope: HTTP 404: No status found for connector nope\n"
    assert "FAILED" in done.stdout
    assert list(json.loads(run(fake, "connectors", "status", "nope", "c", "-o", "json", code=4).stdout)) == ["c"]


def test_topics_of_a_connector_that_does_not_exist(fake):
    fake.answers["GET /connectors/c/topics"] = (200, {"c": {"topics": []}})  # as Kafka Connect answers
    run(fake, "connectors", "topics", "c", code=4)
    fake.answers["GET /connectors/c"] = (200, INFO)
    assert run(fake, "connectors", "topics", "c").stdout == "The connector has not used any topic yet.\n"


def test_error_messages_keep_their_lines(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c", "connector.class": "X", "a": "1"}')
    fake.answers["GET /connectors"] = (200, {})
    value = {"value": {"name": "a", "value": "1", "errors": ["one\ntwo"]}, "definition": {"type": "STRING"}}
    fake.answers["PUT /connector-plugins/X/config/validate"] = (200, {"configs": [value], "error_count": 1})
    assert "heeler: c: a: one\ntwo\n" in run(fake, "connectors", "apply", str(file), "--dry-run", code=1).stderr
    assert "one two" in run(fake, "validate", str(file), code=1).stdout


def test_status_of_a_failed_task_exits_with_code_1(fake):
    fake.answers["GET /connectors/c/status"] = (200, STATUS)
    done = run(fake, "connectors", "status", "c", "--trace", code=1).stdout
    assert "Boom\n  \tat x".replace("  \t", "\t") in done
    assert done.splitlines()[2].split() == ["c", "task", "0", "FAILED", "w:1", "Boom"]


def test_status_continues_with_the_differences(fake):
    """On a terminal, it is a table, see below."""
    healthy = {**STATUS, "tasks": [{"id": n, "state": "RUNNING", "worker_id": "w:1"} for n in (0, 1)]}
    listed = [(200, {"c": {"status": one}}) for one in (healthy, healthy, STATUS, STATUS)]
    fake.answers["GET /connectors"] = [*listed, (200, {}), (400, {"message": "over"})]
    watch = ("connectors", "status", "--watch", "--interval", "0.1")
    done = run(fake, *watch, code=5)
    assert done.stdout.splitlines() == [
        "c  sink  RUNNING  w:1", "c  task 0  RUNNING  w:1", "c  task 1  RUNNING  w:1", "c  task 0  FAILED  w:1  Boom",
        "c  task 1  (gone)", "c  sink  (gone)", "c  task 0  (gone)"]
    fake.answers["GET /connectors"] = [*listed, (400, {"message": "over"})]
    documents = yaml.safe_load_all(run(fake, *watch, "-o", "yaml", code=5).stdout.replace("c:", "---\nc:"))
    assert list(documents) == [{"c": healthy}, {"c": STATUS}]


class OnATerminal:
    """The command in a process with a terminal of its own."""

    def __init__(self, *words):
        self._control, terminal = pty.openpty()
        name = os.ttyname(terminal)  # the first one that a session opens is where its Ctrl-C comes from
        shell = ["sh", "-c", f'exec "$@" <{name} >{name} 2>&1', "sh", sys.executable, "-m", "heeler", *words]
        self.process = subprocess.Popen(shell, start_new_session=True, env={**os.environ, "TERM": "xterm"})
        self.output = ""
        self._terminal = terminal  # open as long as this reads

    def until(self, *texts):
        """Wait until it has shown all of them since the last call."""
        deadline = time.monotonic() + 60
        while missing := [text for text in texts if text not in self.output]:
            assert self.process.poll() is None, f"it has ended without {missing}: {self.output}"
            assert time.monotonic() < deadline, f"it does not show {missing}: {self.output}"
            if select.select([self._control], [], [], 1)[0]:
                self.output += os.read(self._control, 65_536).decode(errors="replace")
        self.output = ""

    def interrupt(self):
        os.write(self._control, b"\x03")

    def end(self):
        """The exit code; the rest of what it has shown is in `output`."""
        code = self.process.wait(30)
        while select.select([self._control], [], [], 0)[0]:
            self.output += os.read(self._control, 65_536).decode(errors="replace")
        os.close(self._terminal)
        os.close(self._control)
        return code


@pytest.fixture
def on_a_terminal(fake):
    """Starts commands for the fake; those that a failed test leaves are killed."""
    started = []

    def start(*words):
        started.append(OnATerminal(*words, "--url", fake.url))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def _follows_changes_until_ctrl_c(fake, shown):
    fake.answers["GET /connectors"] = (400, {"message": "not now"})
    shown.until("not now")
    fake.answers["GET /connectors"] = (200, {"c": {"status": STALLS}})
    shown.until("task 1", "stalled since")
    shown.interrupt()
    assert shown.end() == 130


def test_status_on_a_terminal_is_a_table_until_ctrl_c(fake, on_a_terminal):
    fake.answers["GET /connectors"] = (200, {"c": {"status": STATUS}})
    shown = on_a_terminal("connectors", "status", "--watch", "--interval", "0.1")
    shown.until("CONNECTOR", "task 0", "FAILED", "Boom")
    _follows_changes_until_ctrl_c(fake, shown)
    assert "\x1b[?25h" in shown.output, "the cursor is there again"


def test_top_is_a_full_screen_until_ctrl_c(fake, on_a_terminal):
    fake.answers |= {"GET /connectors": (200, {"c": {"status": STATUS}}), "GET /metrics": (200, metrics(1000, 7))}
    shown = on_a_terminal("top", "--interval", "0.2")
    shown.until("\x1b[?1049h", "RECORDS/S", "task 0", "FAILED", "Boom")
    _follows_changes_until_ctrl_c(fake, shown)
    assert "\x1b[?1049l" in shown.output, "the screen is what it was before"
    data = on_a_terminal("top", "--interval", "0.2", "-o", "json")
    data.until('"RECORDS/S": ')
    data.interrupt()
    assert data.end() == 130
    assert "\x1b[?1049" not in data.output


def test_what_takes_longer_than_a_second_is_shown(fake, on_a_terminal):
    fake.answers["GET /connectors/c/topics"] = (200, {"c": {"topics": ["t"]}})
    fake.responds.clear()
    shown = on_a_terminal("connectors", "topics", "c")
    shown.until("Waiting for GET connectors")
    fake.responds.set()
    assert shown.end() == 0
    assert "\x1b[2K" in shown.output, "its line is removed"
    assert re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.output).split()[-2:] == ["TOPIC", "t"]


@pytest.mark.parametrize(("restarts", "words"), [
    ({"count": 2, "cause": "failed: Boom", "next_attempt": "2026-11-22T18:00:00Z"},
     "2, next at 2026-11-22T18:00:00Z; failed: Boom"),
    ({"count": 3, "cause": f"failed: {ESCAPE}"}, r"3; failed: \x1b]0;owned\x07\x1b[2J"),
    ({"count": 0, "cause": "failed: no such file", "permanent": True},
     "0, no more: a restart cannot fix this; failed: no such file"),
    ({}, "; "), ([], ""), ("often", ""), (None, ""), ({"count": [1], "cause": {}}, "(list); (dict)"),
])
def test_automatic_restarts_are_shown(fake, restarts, words):
    status = {**STATUS, "tasks": [{**STATUS["tasks"][0], "restarts": restarts}]}
    fake.answers |= {"GET /connectors/c/status": (200, status), "GET /connectors/c": (200, INFO)}
    done = run(fake, "connectors", "status", "c", code=1).stdout
    assert words.removesuffix("; failed: Boom").strip() in done
    assert done.count("Boom") == 1, "as the cause of a restart, too"
    assert ("RESTARTS" in done.splitlines()[0]) == bool(words)
    shown = run(fake, "connectors", "show", "c").stdout
    assert shown.splitlines()[-1] == "task 0: FAILED" + (f", restarts: {words}" if words else "")
    assert run(fake, "connectors", "status", "c", "-o", "json", code=1).stdout.count("restarts") == 1


def test_show_works_without_a_status_but_reports_other_errors(fake):
    fake.answers["GET /connectors/c"] = (200, INFO)
    assert run(fake, "connectors", "show", "c").stdout.endswith("connector.\n")
    fake.answers["GET /connectors/c/status"] = (500, {"error_code": 500, "message": "away"})
    run(fake, "connectors", "show", "c", code=7)


def test_requests_wait_for_the_end_of_a_rebalance(fake):
    passing = (409, {"error_code": 409, "message": "a rebalance"})
    fake.answers["PUT /connectors/c/pause"] = [passing, passing, (202, None)]
    done = CliRunner().invoke(main, ["connectors", "pause", "c", "--url", fake.url])
    assert (done.exit_code, done.output) == (0, "c: will pause\n")
    assert len(fake.asked) == 3


def test_workers_are_tried_in_turn_but_no_change_twice(fake):
    with fake_connect({"GET /connectors/c": (0, b""), "PUT /connectors/c/pause": (0, b"")}) as dying:
        fake.answers |= {"GET /connectors/c": (200, INFO), "PUT /connectors/c/pause": (202, None)}
        both = f"http://127.0.0.1:1,{dying.url},{fake.url}"
        assert "connector.class" in run(fake, "connectors", "show", "c", url=both).stdout
        asked = len(fake.asked)
        assert "may have carried it out" in run(fake, "connectors", "pause", "c", url=both, code=3).stderr
        assert len(fake.asked) == asked


def test_names_are_quoted_in_paths(fake):
    fake.answers["DELETE /connectors/a%2Fb%3F%20%23%0D%0A"] = (204, None)
    run(fake, "connectors", "delete", "a/b? #\r\n", "-y")


def apply(fake, folder, *words, code=0, there=None):
    listed = {name: {"info": {**INFO, "name": name, "config": config}} for name, config in (there or {}).items()}
    fake.answers["GET /connectors"] = (200, listed)
    return run(fake, "connectors", "apply", str(folder), *words, code=code)


def test_apply_continues_after_an_error_and_reports_it(fake, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "config": {"connector.class": "X"}}))
    fake.answers["POST /connectors"] = [(201, INFO), (400, {"message": "bad"}), (201, INFO)]
    fake.answers["DELETE /connectors/z"] = (204, None)
    there = {"z": {"name": "z", "connector.class": "X"}}
    done = apply(fake, tmp_path, "--prune", "--yes", "-o", "json", code=5, there=there)
    said = json.loads(done.stdout)["changes"]
    assert [(c["name"], c["action"], "error" in c) for c in said] == [
        ("a", "create", False), ("b", "create", True), ("c", "create", False), ("z", "delete", False)]
    assert "b: HTTP 400: bad" in done.stderr


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


def test_create_prints_what_was_created_without_secrets(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"name": "c", "config": {**INFO["config"], "db.password": "swordfish"}}))
    created = {**INFO, "config": {**INFO["config"], "db.password": "swordfish"}}
    fake.answers["POST /connectors"] = (201, created)
    done = run(fake, "connectors", "create", str(file), "-o", "json")
    assert json.loads(done.stdout) == {"changes": [{"name": "c", "action": "create", "response": {
        **INFO, "config": {**INFO["config"], "db.password": "[hidden]"}}}]}
    assert run(fake, "connectors", "create", str(file)).stdout == "c: created\n"


def test_secrets_are_masked_by_name_and_by_the_plugins_declaration(fake, tmp_path):
    config = {"connector.class": "X", "pin": "918273645", "db.password": "swordfish", "from": "${file:/p:pw}",
              "url": "jdbc:x://u:swordfish9@h", "copy": "is swordfish here"}
    fake.answers["GET /connector-plugins/X/config"] = (200, [{"name": "pin", "type": "PASSWORD"}])
    fake.answers["PUT /connector-plugins/X/config/validate"] = (200, {"configs": []})
    (tmp_path / "c.json").write_text(json.dumps({"name": "c", "config": config}))
    there = {"c": {**config, "name": "c", "pin": "1111111111", "db.password": "haddock99", "from": "${file:/p:old}"}}
    done = apply(fake, tmp_path, "--dry-run", there=there).output
    assert "pin=[hidden] (changed)" in done
    assert "from=${file:/p:old}" in done
    assert "from=${file:/p:pw}" in done
    for secret in ("918273645", "1111111111", "swordfish", "haddock"):
        assert secret not in done
    created = apply(fake, tmp_path, "--dry-run", there={}).output
    assert "copy=is [hidden] here" in created
    assert "swordfish" not in created


def test_no_change_before_all_files_are_read(fake, tmp_path):
    (tmp_path / "a.json").write_text('{"name": "a", "config": {"connector.class": "X"}}')
    (tmp_path / "b.yaml").write_text("connector.class: [")
    (tmp_path / "c.yml").write_text("name: a\nconnector.class: X\n")
    done = apply(fake, tmp_path, "--yes", code=2)
    assert "b.yaml: it is not valid YAML: expected the node content" in done.stderr
    assert "connector a is also defined in" in done.stderr
    assert fake.asked == []


def test_a_file_that_is_not_json(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c",')
    assert f"heeler: {file}: it is not valid JSON: " in run(fake, "validate", str(file), code=2).stderr


@pytest.mark.parametrize(("text", "reason"), [
    ("name: c\nbogus\n", "it is not valid YAML: could not find expected ':': line 3 column 1"),
    ("name: c\n\tx: 1\n", "line 2 column 1"), ("a: *b\n", "undefined alias"), ("\x00", "#x0000"),
    ("[" * 3000, "it is nested too deeply"),
])
def test_a_file_that_is_not_yaml(fake, tmp_path, text, reason):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    said = run(fake, "validate", str(file), code=2).stderr
    assert said.startswith(f"heeler: {file}: ")
    assert reason in said
    assert "unicode string" not in said
    listed = CliRunner(env={"HEELER_PROFILES": str(file), "HEELER_URL": ""}).invoke(main, ["connectors", "list"])
    assert (listed.exit_code, reason in listed.stderr) == (2, True), listed.output


def test_profiles_contain_address_and_user(fake, tmp_path):
    file = tmp_path / "profiles.yaml"
    (tmp_path / "pw").write_text("sesame\n")
    file.write_text(f"default: here\nprofiles:\n  here:\n    url: [127.0.0.1:1, '{fake.url}']\n    user: ann\n"
                    f"    password-file: {tmp_path / 'pw'}\n  gone: {{url: 'http://127.0.0.1:1'}}\n")
    fake.answers["GET /connectors/c/status"] = (200, {**STATUS, "tasks": []})

    def asked(*words, **environ):
        runner = CliRunner(env={"HEELER_PROFILES": str(file), "HEELER_URL": "", "HEELER_PROFILE": "", **environ})
        return runner.invoke(main, ["connectors", "status", "c", *words])

    assert asked().exit_code == 0
    assert fake.headers[-1]["Authorization"] == "Basic YW5uOnNlc2FtZQ=="
    assert asked(HEELER_PROFILE="gone").exit_code == 3
    assert asked("--profile", "gone", HEELER_URL=fake.url).exit_code == 3
    assert asked(HEELER_PROFILE="gone", HEELER_URL=fake.url).exit_code == 0
    assert asked("--profile", "none").exit_code == 2
    assert asked("--url", fake.url.replace("//", "//bob:x@")).exit_code == 0
    assert fake.headers[-1]["Authorization"] == "Basic Ym9iOng="
    assert "x@" not in asked("--url", "http://bob:x@127.0.0.1:1").output
    for wrong in ("profiles: []", "profiles: {a: {uri: x}}\ndefault: a", "a: [", "profiles: {}\ndefault: b",
                  "profiles: {a: {url: 'ftp://x'}}\ndefault: a",
                  "profiles: {a: {ca: /none, url: 'https://x'}}\ndefault: a"):
        file.write_text(wrong)
        assert asked().exit_code == 2, wrong


def test_validate_shows_what_is_wrong(fake, tmp_path):
    file = tmp_path / "c.properties"
    file.write_text("name=c\nconnector.class=a.X\nsecret.pin=hunter2\n")
    wrong = {"definition": {"name": "secret.pin", "type": "PASSWORD"},
             "value": {"name": "secret.pin", "value": "hunter2", "errors": ["hunter2 is no number"]}}
    fake.answers["PUT /connector-plugins/a.X/config/validate"] = (200, {"configs": [wrong], "error_count": 1})
    done = run(fake, "validate", str(file), code=1)
    assert done.stdout.splitlines()[1].split() == ["c", "secret.pin", "[hidden]", "[hidden]", "is", "no", "number"]
    assert "hunter2" not in done.output


def test_offsets_can_be_set_from_the_output_of_show(fake, tmp_path):
    now = [{"partition": {"file": "x"}, "offset": {"position": 7}}, {"partition": {"file": "y"}, "offset": {"at": 1}}]
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": now})
    fake.answers["PATCH /connectors/c/offsets"] = (200, {"message": "altered"})
    file = tmp_path / "offsets.json"
    file.write_text(run(fake, "offsets", "show", "c", "-o", "json").stdout.replace("7", "0"))
    done = run(fake, "offsets", "set", "c", "--from", str(file), "-y").stdout
    assert '{"file": "x"}' in done
    assert '"y"' not in done  # it stays as it is
    assert fake.asked[-1][1]["offsets"][0] == {"partition": {"file": "x"}, "offset": {"position": 0}}
    for text in ("[1]", "{", '{"offsets": [{"partition": 1}]}', "{}"):
        file.write_text(text)
        assert str(file) in run(fake, "offsets", "set", "c", "--from", str(file), "-y", code=2).stderr
    run(fake, "offsets", "set", "c", "t:0", code=2)


def place(topic, partition, offset):
    return {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": {"kafka_offset": offset}}


def test_partitions_are_in_the_order_of_their_numbers(fake):
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("t", 10, 1), place("t", 9, 2)]})
    assert [line.split()[0] for line in run(fake, "offsets", "show", "c").stdout.splitlines()[1:]] == ["t:9", "t:10"]
    done = run(fake, "offsets", "set", "c", "t:10=5", "t:9=5", "--dry-run").stdout
    assert [line.split()[0] for line in done.splitlines()[1:]] == ["t:9", "t:10"]
    source = [{"partition": {"stream": n}, "offset": {"at": 1}} for n in (10, 2)]
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": source})
    done = run(fake, "offsets", "reset", "c", "--dry-run", "-o", "json").stdout
    assert [one["partition"]["stream"] for one in json.loads(done)["changes"]] == [2, 10]


def test_offsets_are_changed_with_one_document_for_programs(fake):
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("t", 0, 1)]})
    fake.answers["PATCH /connectors/c/offsets"] = (200, {"message": "altered"})
    fake.answers["DELETE /connectors/c/offsets"] = (200, {"message": "reset"})
    t0 = place("t", 0, 1)["partition"]

    def reported(*words):
        return json.loads(run(fake, "offsets", *words, "-y", "-o", "json").stdout)

    change = {"partition": t0, "now": {"kafka_offset": 1}, "then": {"kafka_offset": 2}}
    assert reported("set", "c", "t:0=2") == {"changes": [change], "message": "altered"}
    assert reported("set", "c", "t:0=1") == {"changes": []}
    assert reported("set", "c", "t:0=2", "--dry-run") == {"changes": [change]}
    assert reported("reset", "c") == {"changes": [{**change, "then": None}], "message": "reset"}
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": []})
    assert reported("reset", "c") == {"changes": [], "message": "reset"}
    assert "c may store offsets outside Kafka. Reset it anyway?" in run(fake, "offsets", "reset", "c", code=2).stderr
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("t", 0, 1)]})
    assert "Reset 1 offset?" in run(fake, "offsets", "reset", "c", code=2).stderr


class TwoPartitions:
    """In place of Kafka: each topic has two partitions with offsets 3 to 9."""

    def __init__(self, settings):
        pass

    def partitions(self, *_, **__):
        return [0, 1]

    def offsets(self, places, which, **_):
        return dict.fromkeys(places, 3 if which == "earliest" else 9)

    def close(self):
        pass


@pytest.mark.parametrize(("to", "offset"), [("beginning", 3), ("earliest", 3), ("end", 9), ("latest", 9)])
def test_reset_moves_a_sink_but_not_its_dead_letters(fake, monkeypatch, to, offset):
    monkeypatch.setattr("spark_tasks.kafka.cluster.KafkaCluster", TwoPartitions)
    config = {"connector.class": "X", "topics.regex": ".*", "errors.deadletterqueue.topic.name": "dead"}
    fake.answers["GET /connectors/c/config"] = (200, config)
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("dead", 0, 5), place("t", 0, 5)]})
    done = json.loads(run(fake, "offsets", "reset", "c", "--to", to, "--dry-run", "-o", "json").stdout)
    assert [(one["partition"]["kafka_topic"], one["then"]["kafka_offset"]) for one in done["changes"]] == [
        ("t", offset), ("t", offset)]


def test_a_sink_cannot_be_reset_to_an_offset(fake):
    assert "heeler offsets set CONNECTOR TOPIC:PARTITION=OFFSET" in run(
        fake, "offsets", "reset", "c", "--to", "7", code=2).stderr


def test_help_imports_no_slow_libraries():
    """The command line starts fast: HTTP, YAML, rich and PySpark are imported only by commands that need them."""
    import subprocess
    import sys

    code = ("import sys; from heeler.cli.main import main\n"
            "try: main(['--help'])\nexcept SystemExit: pass\n"
            "slow = {'rich', 'urllib3', 'yaml', 'marshmallow', 'pyspark', 'pyarrow', 'kafka', 'numba', 'asyncio'}\n"
            "assert not slow & set(sys.modules), slow & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("words", [
    "heeler --url {} connectors show o", "heeler connectors --url {} show o", "heeler connectors show --url {} o",
    "heeler --url {nobody} connectors --url {} show o"])
def test_shells_complete_names_of_the_cluster_that_was_specified(fake, words):
    fake.answers["GET /connectors"] = (200, ["orders"])
    words = words.format(fake.url, nobody="http://127.0.0.1:9")
    env = {"_HEELER_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words.split()) - 1), "COMP_WORDS": words,
           "HEELER_URL": "http://127.0.0.1:9"}
    assert "orders" in CliRunner(env=env).invoke(main, prog_name="heeler").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_connector_names(fake, shell):
    assert "_HEELER_COMPLETE" in CliRunner().invoke(main, ["completion", shell]).stdout
    fake.answers["GET /connectors"] = (200, ["orders", "others", "evil\x1b[2J", 5])
    env = {"_HEELER_COMPLETE": f"{shell}_complete", "COMP_CWORD": "3" if shell != "fish" else "o",
           "COMP_WORDS": "heeler connectors show o", "HEELER_URL": fake.url}
    done = CliRunner(env=env).invoke(main, prog_name="heeler")
    assert [name for name in ("orders", "others", "evil") if name in done.output] == ["orders", "others"]


STORY = {"connector": "c", "story": [{"at": "2026-11-22T18:00:00Z", "cause": "Joined#17", "because": "op 3",
                                     "what": "joined", "effects": ["StartInstance c"]}]}


def test_the_story_of_a_connector_is_printed(fake):
    fake.answers["GET /connectors/c/story"] = (200, STORY)
    assert run(fake, "connectors", "story", "c").stdout.splitlines()[1].split() == [
        fake.url.partition("//")[2], "2026-11-22T18:00:00Z", "Joined#17", "op", "3", "joined", "StartInstance", "c"]
    run(fake, "connectors", "story", "d", code=4)


def test_a_story_from_several_workers(fake):
    """The named workers and the one that runs the task; each step is shown once, in the order of time."""
    def step(at, what):
        return {"at": f"2026-11-22T18:00:{at}Z", "cause": f"Step#{at}", "because": None, "what": what, "effects": []}

    with fake_connect() as other, fake_connect() as odd:
        place = other.url.partition("//")[2]
        fake.answers |= {
            "GET /connectors/c/story": (200, {"story": [step("00", "a"), step("02", "hangs\nin read")]}),
            "GET /connectors/c/status": (200, {**STATUS, "tasks": [{"id": 0, "state": "RUNNING", "worker_id": place}]})}
        other.answers["GET /connectors/c/story"] = (200, {"story": [step("00.5", "b"), step("00", "a")]})
        odd.answers["GET /connectors/c/story"] = (200, {"story": 5})
        url = f"{fake.url},{odd.url},http://127.0.0.1:1"
        shown = run(fake, "connectors", "story", "c", url=url).stdout.splitlines()[1:]
        mine = fake.url.partition("//")[2]
        assert [(line.split()[0], line.split()[2:]) for line in shown] == [
            (mine, ["Step#00", "a"]), (place, ["Step#00.5", "b"]), (mine, ["Step#02", "hangs", "…"])]
        steps = json.loads(run(fake, "connectors", "story", "c", "-o", "json", url=url).stdout)["story"]
        assert steps[2] == {"worker": mine, **step("02", "hangs\nin read")}


def metrics(written, lag):
    return (f"# HELP heeler_task_records_total x\n"
            f'heeler_task_records_total{{connector="c",task="0",stage="read",worker="w"}} 999\n'
            f'heeler_task_records_total{{connector="c",task="0",stage="write",worker="w"}} {written}\n'
            f'heeler_sink_lag_records{{connector="c",task="0",topic="t",partition="0"}} {lag}\n'
            f'heeler_sink_lag_records{{connector="c",task="0",topic="t",partition="1"}} 1\n'
            'heeler_task_errors_total{connector="c",task="0",stage="write"} 3\n'
            'heeler_task_errors_total{connector="c"} 3\nheeler_task_errors_total{connector="c",task="x"} 3\n'
            'heeler_sink_lag_records{connector="c",task="0"} NaN\nnonsense\n').encode()


def test_status_and_show_report_stalled_tasks(fake):
    fake.answers |= {"GET /connectors/c/status": (200, STALLS), "GET /connectors/c": (200, INFO)}
    lines = run(fake, "connectors", "status", "c", code=1).stdout.splitlines()
    assert [line.partition("RUNNING  w:1")[2].strip() for line in lines[1:]] == ["", "", STALL]
    assert run(fake, "connectors", "status", "c", "--trace", code=1).stdout.endswith(
        f"\nc, task 1:\n{STALL}\nin read\n")
    assert run(fake, "connectors", "show", "c").stdout.endswith(f"\ntask 0: RUNNING\ntask 1: RUNNING, {STALL}\n")
    stalled = [task.get("stalled") for task in json.loads(
        run(fake, "connectors", "status", "c", "-o", "json", code=1).stdout)["c"]["tasks"]]
    assert stalled == [None, STALLS["tasks"][1]["stalled"]]
    for odd in ("yes", [], {}, {"since": [], "what": {}}):
        fake.answers["GET /connectors/c/status"] = (200, {**STATUS, "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": "w", "stalled": odd}]})
        run(fake, "connectors", "status", "c", "--trace", code=int(isinstance(odd, dict)))


def test_credentials_do_not_go_to_workers_that_only_a_status_names(fake):
    with fake_connect({"GET /metrics": (200, metrics(1, 1))}) as other:
        status = {**STATUS, "connector": {"state": "RUNNING", "worker_id": other.url.partition("//")[2]}}
        fake.answers["GET /connectors"] = (200, {"c": {"status": status}})
        run(fake, "top", "--times", "1", url=fake.url.replace("//", "//ann:sesame@"))
        assert "Authorization" in fake.headers[-1]
        assert [request for request, _ in other.asked] == ["GET /metrics?names=heeler"]
        assert "Authorization" not in other.headers[-1]


REPLAY = {"connector": "c", "queue": "q", "dry_run": False, "state": "DONE", "error": None, "scanned": 3, "replayed": 0,
          "would_replay": 0, "refused_again": 0, "left": 1, "held_by_the_sink": 0, "not_replayable": 0,
          "by_topic": {f"t{ESCAPE}": 2}, "by_stage": {"TASK_PUT": 2}, "by_exception": {"E": 2}, "partitions": [],
          "samples": []}


def test_a_replay_shows_its_plan_and_waits_for_its_end(fake):
    path = "/connectors/c/dead-letters/replay"
    sample = {"queue_partition": 0, "queue_offset": 7, "topic": "t", "partition": 0, "offset": 1, "stage": "TASK_PUT",
              "exception": "E", "message": ESCAPE, "key": None, "value": "v"}
    dry = {**REPLAY, "dry_run": True, "would_replay": 2, "samples": [sample]}
    fake.answers[f"POST {path}"] = [(202, {**dry, "state": "RUNNING"}), (202, {**REPLAY, "replayed": 2})]
    fake.answers[f"GET {path}"] = (200, dry)
    shown = run(fake, "connectors", "replay", "c", "--dry-run", "--stage", "TASK_PUT", "--values").output
    assert "would be replayed" in shown
    assert "QUEUE OFFSET" in shown
    assert "\x1b" not in shown
    assert "replayed" in run(fake, "connectors", "replay", "c", "--yes", "--limit", "2").output
    assert [body for request, body in fake.asked if request.startswith("POST")] == [
        {"filter": {"stages": ["TASK_PUT"]}, "dry_run": True, "values": True}, {"filter": {}, "limit": 2}]


def test_a_replay_counts_each_letter_and_those_refused_again(fake):
    path = "POST /connectors/c/dead-letters/replay"
    fake.answers[path] = (202, {**REPLAY, "scanned": 9, "replayed": 3, "left": 2, "not_replayable": 1})
    rows = dict(line.rsplit(maxsplit=1) for line in run(fake, "connectors", "replay", "c", "-y").stdout.splitlines())
    assert rows["replayed before"] == "3"
    assert "of these refused again" not in rows
    fake.answers[path] = (202, {**REPLAY, "replayed": 2, "refused_again": 1})
    done = run(fake, "connectors", "replay", "c", "-y", code=1).stdout
    assert "of these refused again" in done
    assert "replayed before" not in done


def test_a_replay_that_ends_early_says_why(fake):
    ended = {**REPLAY, "state": "FAILED", "error": f"no{ESCAPE}"}
    fake.answers["POST /connectors/c/dead-letters/replay"] = (202, ended)
    done = run(fake, "connectors", "replay", "c", "--yes", code=1)
    assert "the replay ended early: no" in done.stderr
    assert "\x1b" not in done.output


def test_options_may_stand_before_the_command_and_between_its_words(fake, tmp_path):
    fake.answers["GET /connectors/c/topics"] = (200, {"c": {"topics": ["t"]}})
    file = tmp_path / "profiles.yaml"
    file.write_text(f"profiles: {{there: {{url: '{fake.url}'}}}}")
    runner = CliRunner(env={"HEELER_PROFILES": str(file), "HEELER_URL": "", "HEELER_PROFILE": ""})
    nobody = "http://127.0.0.1:9"
    for words in (["--url", fake.url, "-o", "json", "connectors", "topics", "c"],
                  ["--url", nobody, "-o", "json", "connectors", "topics", "c", "--url", fake.url],
                  ["--url", nobody, "-o", "yaml", "connectors", "topics", "c", "--profile", "there", "-o", "json"],
                  ["--profile", "there", "connectors", "topics", "c", "-o", "json"],
                  ["connectors", "--url", fake.url, "-o", "json", "topics", "c"],
                  ["--url", nobody, "-o", "yaml", "connectors", "--url", fake.url, "--output", "json", "topics", "c"],
                  ["--url", nobody, "-o", "json", "connectors", "--profile", "there", "topics", "c"],
                  ["connectors", "--url", nobody, "-o", "json", "topics", "c", "--url", fake.url],
                  ["connectors", "--url", nobody, "-o", "yaml", "topics", "c", "--profile", "there", "-o", "json"],
                  ["--profile", "none", "connectors", "--profile", "there", "-o", "json", "topics", "c"]):
        done = runner.invoke(main, words)
        assert (done.exit_code, json.loads(done.stdout)) == (0, ["t"]), (words, done.output)
    assert "No worker responds" in runner.invoke(main, ["--url", nobody, "connectors", "topics", "c"]).output
    for words, reason in ((["--url", fake.url, "broker"], "broker has no option --url"),
                          (["--url", fake.url, "plugins", "install", "x"], "install has no option --url"),
                          (["plugins", "--url", fake.url, "install", "x"], "install has no option --url"),
                          (["loggers", "-o", "xml", "list"], "'xml' is not one of")):
        done = runner.invoke(main, words)
        assert (done.exit_code, reason in done.output) == (2, True), (words, done.output)


@pytest.mark.parametrize("group", [["offsets", "show", "c"], ["plugins", "list"], ["loggers", "list"]])
def test_every_group_accepts_the_options(fake, group):
    there = [*group[:1], "--url", fake.url, "--timeout", "0", "-o", "json", *group[1:]]
    assert "HTTP 404" in CliRunner().invoke(main, there).output


# ---------------------------------------------------------------- what is shown
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


def test_plugins_list_shows_the_runtime_in_use_where_there_are_two(fake):
    plain = {"class": "a.Plain", "type": "source", "version": "1"}
    both = {"class": "b.Both", "type": "sink", "version": "4.3.1", "runtime": "java",
            "passed_over": [{"runtime": "heeler", "location": "classpath"}]}
    fake.answers["GET /connector-plugins"] = (200, [plain, both])
    assert [line.split() for line in run(fake, "plugins", "list").stdout.splitlines()] == [
        ["TYPE", "CLASS", "VERSION", "RUNTIME"], ["sink", "b.Both", "4.3.1", "java"], ["source", "a.Plain", "1"]]
    fake.answers["GET /connector-plugins"] = (200, [plain])
    assert "RUNTIME" not in run(fake, "plugins", "list").stdout


def test_an_unknown_class_is_a_configuration_error(fake, tmp_path):
    """Workers respond with 500, but the error is not theirs; other files are checked too."""
    (tmp_path / "a.properties").write_text("name=a\nconnector.class=Nonesuch\n")
    (tmp_path / "b.properties").write_text("name=b\nconnector.class=X\n")
    words = "Failed to find any class that implements Connector and which name matches Nonesuch, available"
    fake.answers["PUT /connector-plugins/Nonesuch/config/validate"] = (
        500, {"error_code": 500, "message": f"org.apache.x.BadRequestException: {words}"})
    key = {"definition": None, "value": {"name": "b.name", "value": "b", "errors": ["wrong, too"]}}
    fake.answers["PUT /connector-plugins/X/config/validate"] = (200, {"configs": [key]})
    done = run(fake, "validate", str(tmp_path), code=1)
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["a", "connector.class", "Nonesuch"], ["b", "b.name", "b"]]
    assert "BadRequestException" not in done.output
    [said, _] = json.loads(run(fake, "validate", str(tmp_path), "-o", "json", code=1).stdout)
    assert said["errors"] == {"connector.class": [words]}
    fake.answers["PUT /connector-plugins/Nonesuch/config/validate"] = (500, {"error_code": 500, "message": "timed out"})
    run(fake, "validate", str(tmp_path), code=7)
