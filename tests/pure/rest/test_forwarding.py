"""Requests that another worker has to answer."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from werkzeug.test import Client

from actors.errors import NotAssignedError, NotLeaderError
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.fake_plugins import FILE
from tests.rigs.rest_apps import client_of
from tests.rigs.serving import ports_of, serving, stub

SOURCE = {"connector.class": FILE + "FileStreamSourceConnector", "topic": "t"}
NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


def follower(target: int | str | None) -> Client:
    """A worker that says another one must answer."""
    url = f"http://127.0.0.1:{target}/" if isinstance(target, int) else target
    worker = FakeWorker(redirect=NotLeaderError("Only the leader can do this.", url))
    return client_of(worker)


def test_every_operation_can_be_requested_from_a_follower() -> None:
    leader = FakeWorker()
    with serving(leader) as server:
        client = follower(ports_of(server)[0])
        made = client.post("/connectors", json={"name": "a/b", "config": SOURCE})
        assert made.status_code == 201
        assert made.headers["Location"] == "http://localhost/connectors/a%2Fb"
        assert made.json is not None
        assert made.json["config"] == {**SOURCE, "name": "a/b"}
        path = "/connectors/a%2Fb"
        assert client.put(f"{path}/config", json=SOURCE).status_code == 200
        assert client.put("/connectors/new/config", json=SOURCE).status_code == 201
        assert client.patch(f"{path}/config", json={"x": "1"}).json == {
            "name": "a/b", "config": {**SOURCE, "name": "a/b", "x": "1"}, "tasks": [{"connector": "a/b", "task": 0}],
            "type": "source"}
        assert client.post(f"{path}/restart").status_code == 204
        restarted = client.post(f"{path}/restart?includeTasks=TRUE")
        assert restarted.status_code == 202
        assert restarted.json is not None
        assert [task["state"] for task in restarted.json["tasks"]] == ["RESTARTING"]
        assert client.post(f"{path}/tasks/0/restart").status_code == 204
        assert client.put(f"{path}/stop").status_code == 204
        offsets = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]}
        assert client.patch(f"{path}/offsets", json=offsets).json == {
            "message": "The offsets for this connector have been altered successfully"}
        assert client.delete(f"{path}/offsets").status_code == 200
        assert client.delete(path).status_code == 204
        again = client.delete(path)
        assert (again.status_code, again.json) == (404, {"error_code": 404, "message": "Connector a/b not found"})


def test_a_users_request_may_be_forwarded_twice() -> None:
    leader = FakeWorker()
    with serving(leader) as last:
        middle_worker = FakeWorker(redirect=NotLeaderError("no", f"http://127.0.0.1:{ports_of(last)[0]}"))
        with serving(middle_worker) as middle:
            assert follower(ports_of(middle)[0]).post(
                "/connectors", json={"name": "a", "config": SOURCE}).status_code == 201
    assert leader.config.connectors() == ["a"]


def test_three_hops_are_a_conflict() -> None:
    lost = FakeWorker(redirect=NotLeaderError("no", "http://127.0.0.1:1"))
    with serving(lost) as last:
        middle_worker = FakeWorker(redirect=NotLeaderError("no", f"http://127.0.0.1:{ports_of(last)[0]}"))
        with serving(middle_worker) as middle:
            answer = follower(ports_of(middle)[0]).delete("/connectors/a")
    assert (answer.status_code, answer.json) == (409, {"error_code": 409, "message": CONFLICT})


@pytest.mark.parametrize(("query", "sent"), [("", "forward=true"), ("?forward=true", "forward=false"),
                                             ("?forward=TRUE&x=y", "forward=false")])
def test_a_forwarded_request_carries_only_the_authorization_header(query: str, sent: str) -> None:
    with stub(204) as other:
        answer = follower(other.port).put(f"/connectors/a/stop{query}", headers={
            "Authorization": "Basic eHk=", "Cookie": "c=d", "X-Forwarded-For": "me", "User-Agent": "curl"})
    assert answer.status_code == 204
    (method, path, headers, body), = other.requests
    assert (method, path, body) == ("PUT", f"/connectors/a/stop?{sent}", b"")
    assert headers["Authorization"] == "Basic eHk="
    assert headers["User-Agent"] == "kafka-connect"
    assert headers["Accept"] == "application/json"
    assert not {"Cookie", "X-Forwarded-For"} & headers.keys()


def test_a_forwarded_restart_keeps_its_flags() -> None:
    with stub(202, {"name": "a"}) as other:
        answer = follower(other.port).post("/connectors/a/restart?onlyFailed=true&forward=true")
    assert (answer.status_code, answer.json) == (202, {"name": "a"})
    assert other.requests[0][1] == "/connectors/a/restart?forward=false&includeTasks=false&onlyFailed=true"


def test_a_forwarded_creation_has_no_field_that_java_does_not_know() -> None:
    with stub(201, {"name": "a"}) as other:
        follower(other.port).post("/connectors", json={"name": "a", "config": SOURCE, "initial_state": "paused"})
        more = {"name": "a", "config": {**SOURCE, "n": 1}}
        follower(other.port).post("/connectors", json=more)
    first, second = (json.loads(body) for *_, body in other.requests)
    assert first == {"name": "a", "config": {**SOURCE, "name": "a"}, "initial_state": "PAUSED"}
    assert second == {"name": "a", "config": {**SOURCE, "name": "a", "n": "1"}, "initial_state": None}


@pytest.mark.parametrize("more", ["", ', "n": 99999999999999999999'])
def test_numbers_beyond_a_double_are_forwarded_as_jackson_writes_them(more: str) -> None:
    body = f'{{"offsets": [{{"partition": {{"p": -1e999}}, "offset": {{"pos": 1e999{more}}}}}]}}'
    with stub(200, {"message": "done"}) as other:
        follower(other.port).patch("/connectors/a/offsets", data=body, content_type="application/json")
    [offset] = json.loads(other.requests[0][3])["offsets"]
    assert offset["partition"] == {"p": "-Infinity"}
    assert offset["offset"]["pos"] == "Infinity"


@pytest.mark.parametrize("query", ["?forward=false", "?forward=no", "?forward="])
def test_the_last_hop_does_not_forward(query: str) -> None:
    answer = follower(1).delete(f"/connectors/a{query}")
    assert (answer.status_code, answer.json) == (409, {"error_code": 409, "message": CONFLICT})


@pytest.mark.parametrize("url", [None, ""])
def test_without_a_known_leader_the_response_is_a_conflict(url: str | None) -> None:
    answer = follower(url).delete("/connectors/a")
    assert (answer.status_code, answer.json) == (409, {"error_code": 409, "message": NO_LEADER})


def test_a_task_restart_is_forwarded_to_the_owner() -> None:
    with stub(204) as other:
        worker = FakeWorker(redirect=NotAssignedError("elsewhere", f"http://127.0.0.1:{other.port}"))
        client = client_of(worker)
        assert client.post("/connectors/a/tasks/0/restart").status_code == 204
    assert other.requests[0][1] == "/connectors/a/tasks/0/restart?forward=true"


@pytest.mark.parametrize(("status", "body", "expected"), [
    (409, {"error_code": 409, "message": "busy"}, (409, 409, "busy")),
    (500, {"error_code": 50001, "message": "odd"}, (500, 50001, "odd")),
    (404, {"error_code": 404, "message": "Connector é not found"}, (404, 404, "Connector é not found")),
    (502, b"<html>", (500, 500, "IO Error trying to forward REST request")),
    (401, b"User cannot access the resource.", (500, 500, "IO Error trying to forward REST request")),
    (500, {}, (500, 500, "IO Error trying to forward REST request")),
    (400, {"error_code": 400, "message": "bad"}, (400, 400, "bad")),
    (300, {}, (500, 500, "Unexpected status code when handling forwarded request: 300")),
    (302, {}, (500, 500, "Unexpected status code when handling forwarded request: 302")),
    (201, b"{", (500, 500, "IO Error trying to forward REST request")),
])
def test_the_other_workers_response_is_returned(status: int, body: Any, expected: tuple[int, int, str]) -> None:
    with stub(status, body) as other:
        answer = follower(other.port).post("/connectors", json={"name": "a", "config": SOURCE})
    assert answer.json is not None
    assert (answer.status_code, answer.json["error_code"]) == expected[:2]
    assert answer.json["message"].startswith(expected[2])


def test_the_other_workers_error_without_a_message_stays_without_one() -> None:
    with stub(500, {"error_code": 500, "message": None}) as other:  # as Java writes an exception without a message
        answer = follower(other.port).delete("/connectors/a")
    assert (answer.status_code, answer.json) == (500, {"error_code": 500, "message": None})


def test_an_unreachable_worker_is_a_500_response() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, not listening: refuses connections
        answer = follower(free.getsockname()[1]).delete("/connectors/a")
    assert answer.status_code == 500
    assert answer.json is not None
    assert answer.json["message"].startswith("IO Error trying to forward REST request: ")


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://:x/"])
def test_an_invalid_address_is_a_500_response(url: str) -> None:
    answer = follower(url).delete("/connectors/a")
    assert answer.status_code == 500
    assert answer.json is not None
    assert answer.json["message"].startswith("Error trying to forward REST request: ")
