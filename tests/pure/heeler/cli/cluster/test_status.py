"""`heeler connectors status`, also in a pipe and on a terminal; what `show` reports of tasks."""

from __future__ import annotations

import io
import json
import sys

import pytest
import yaml

from heeler.cli.main import main
from tests.rigs.cli_fake import ESCAPE, INFO, STALL, STALLS, STATUS, run
from tests.rigs.terminal import follows_changes_until_ctrl_c


def test_statuses_are_shown_although_some_requests_fail(fake):
    fake.answers["GET /connectors/c/status"] = (200, STATUS)
    missing = {"error_code": 404, "message": "No status found for connector nope"}
    fake.answers["GET /connectors/nope/status"] = (404, missing)
    done = run(fake, "connectors", "status", "nope", "c", code=4)
    assert done.stderr == "heeler: nope: HTTP 404: No status found for connector nope\n"
    assert "FAILED" in done.stdout
    assert list(json.loads(run(fake, "connectors", "status", "nope", "c", "-o", "json", code=4).stdout)) == ["c"]


def test_status_of_a_failed_task_exits_with_code_1(fake):
    fake.answers["GET /connectors/c/status"] = (200, STATUS)
    done = run(fake, "connectors", "status", "c", "--trace", code=1).stdout
    assert "Boom\n  \tat x".replace("  \t", "\t") in done
    assert done.splitlines()[2].split() == ["c", "task", "0", "FAILED", "w:1", "Boom"]


def test_status_continues_with_the_differences(fake):
    """On a terminal, it is a table, see the next test."""
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


def test_status_on_a_terminal_is_a_table_until_ctrl_c(fake, on_a_terminal):
    fake.answers["GET /connectors"] = (200, {"c": {"status": STATUS}})
    shown = on_a_terminal("connectors", "status", "--watch", "--interval", "0.1")
    shown.until("CONNECTOR", "task 0", "FAILED", "Boom")
    follows_changes_until_ctrl_c(fake, shown)
    assert "\x1b[?25h" in shown.output, "the cursor is there again"


@pytest.mark.parametrize(("restarts", "words"), [
    ({"count": 2, "cause": "failed: Boom", "next_attempt": "2026-11-22T18:00:00Z"},
     "2, next at 2026-11-22T18:00:00Z; failed: Boom"),
    ({"count": 3, "cause": f"failed: {ESCAPE}"}, r"3; failed: \x1b]0;owned\x07\x1b[2J"),
    ({"count": 0, "cause": "failed: no such file", "permanent": True},
     "0, no more: a restart cannot fix this; failed: no such file"),
    ({}, "; "), ([], ""), ("often", ""), (None, ""), ({"count": [1], "cause": {}}, "(a list); (an object)"),
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


def test_automatic_restarts_of_the_connector_are_shown(fake):
    restarts = {"count": 4, "cause": "failed: Boom"}
    fake.answers |= {"GET /connectors/c/status": (200, {**STATUS, "restarts": restarts}),
                     "GET /connectors/c": (200, INFO)}
    first = run(fake, "connectors", "status", "c", code=1).stdout.splitlines()[1]
    assert first.endswith("4; failed: Boom")
    assert ", restarts: 4; failed: Boom\n" in run(fake, "connectors", "show", "c").stdout


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


@pytest.mark.parametrize(("words", "name"), [((), b"\\u65e5\xe9"), (("-o", "json"), "\u65e5\xe9".encode())])
def test_a_terminal_that_is_not_in_utf_8(fake, monkeypatch, words, name):
    """What it cannot show is escaped; JSON is always in UTF-8."""
    fake.answers["GET /connectors"] = (200, {"\u65e5\xe9": {"status": {**STATUS, "name": "\u65e5\xe9"}}})
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "latin-1"))
    with pytest.raises(SystemExit) as end:
        main(["connectors", "status", "--url", fake.url, *words])
    sys.stdout.flush()
    assert end.value.code == 1, "a task has failed"
    assert name in written.getvalue()
