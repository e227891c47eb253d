"""/connectors/{name}/dead-letters/replay: the accepted requests, and where they go."""

from __future__ import annotations

import pytest
from werkzeug.test import Client

from actors.messages.requests import ReplayDeadLetters
from storage.ids import ConnectorName, TargetState
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.fake_plugins import FILE
from tests.rigs.rest_apps import client_of

C = ConnectorName("c")


@pytest.fixture
def worker() -> FakeWorker:
    worker = FakeWorker()
    worker.put(C, {"connector.class": FILE + "FileStreamSinkConnector", "topics": "t"}, TargetState.STARTED, 1)
    return worker


@pytest.fixture
def client(worker: FakeWorker) -> Client:
    return client_of(worker)


@pytest.mark.parametrize("order", [
    {}, {"dry_run": True, "limit": 5, "filter": {"topics": ["t"], "from": 1_700_000_000_000}},
])
def test_a_replay_reaches_the_herder_with_plain_numbers(client: Client, worker: FakeWorker, order: dict) -> None:
    answer = client.post("/connectors/c/dead-letters/replay", json=order)
    assert (answer.status_code, answer.json["state"]) == (202, "RUNNING")
    assert worker.asked[-1] == ReplayDeadLetters(C, order)


def test_an_empty_body_selects_everything(client: Client, worker: FakeWorker) -> None:
    assert client.post("/connectors/c/dead-letters/replay").status_code == 202
    assert worker.asked[-1] == ReplayDeadLetters(C, {})


def test_the_progress_of_a_replay_is_returned(client: Client, worker: FakeWorker) -> None:
    answer = client.get("/connectors/c/dead-letters/replay")
    assert (answer.status_code, answer.json["connector"]) == (200, "c")
    assert worker.asked[-1] == ReplayDeadLetters(C, None)
    assert client.get("/connectors/nobody/dead-letters/replay").status_code == 404


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"{", b"\xff", b"[" * 5000, b"true"])
def test_a_wrong_body_is_a_bad_request(client: Client, worker: FakeWorker, body: bytes) -> None:
    answer = client.post("/connectors/c/dead-letters/replay", data=body, content_type="application/json")
    assert answer.status_code == 400
    assert worker.asked == []
