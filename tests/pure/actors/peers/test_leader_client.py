"""Requests to the leader: each one ends, even if the leader hangs and another worker takes over."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from actors.herder.effects import SendTaskConfigs
from actors.herder.events import TaskConfigsPublished
from actors.messages.correlation_ids import OpId
from actors.peers.leader_client import LeaderClient
from spark_tasks.errors import ConnectError
from storage.ids import ConnectorName
from tests.rigs.support import wait_until

NEW = "http://127.0.0.1:1/"


@pytest.fixture
def hung() -> Iterator[tuple[socket.socket, str]]:
    """A leader that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, f"http://127.0.0.1:{server.getsockname()[1]}/"


@pytest.fixture
def said() -> list[Any]:
    return []


@pytest.fixture
def client(said: list[Any]) -> Iterator[LeaderClient]:
    client = LeaderClient(said.append, "HmacSHA256", None)
    yield client
    client.close()


def test_requests_for_task_configs_stop_waiting_when_the_leader_changes(
    client: LeaderClient, said: list[Any], hung: Any
) -> None:
    server, url = hung
    client.follow(url)
    for number in (1, 2):
        client.send(SendTaskConfigs(OpId(number), url, ConnectorName("c"), ({"a": "b"},), None))
    connection, _ = server.accept()
    assert connection.recv(100).startswith(b"POST /connectors/c/tasks ")
    client.follow(None)  # out of the group for a moment
    client.follow(url)
    assert said == []
    client.follow(NEW)
    wait_until(lambda: len(said) == 2, 5, "both to be answered")
    assert [(done.op, str(done.error)) for done in said] == [(n, f"{url} no longer leads the group") for n in (1, 2)]
    connection.close()


def test_a_fencing_request_stops_waiting_when_the_leader_changes(client: LeaderClient, hung: Any) -> None:
    server, url = hung
    asked = client.fence(url, ConnectorName("c"), 1, None)  # before it is known who leads
    connection, _ = server.accept()
    client.follow(NEW)
    with pytest.raises(ConnectionError, match="no longer leads the group"):
        asked.result(5)
    connection.close()


def test_tasks_of_a_generation_share_a_fencing_request(client: LeaderClient, hung: Any) -> None:
    """Each task asks, and the leader may take a minute: the others' requests must not wait for theirs."""
    server, url = hung
    client.follow(url)
    asked = [client.fence(url, ConnectorName("c"), 1, None) for _ in range(100)]
    newer, other = client.fence(url, ConnectorName("c"), 2, None), client.fence(url, ConnectorName("d"), 1, None)
    connections = [server.accept()[0] for _ in range(3)]
    paths = sorted(connection.recv(100).split(b" ")[1] for connection in connections)
    assert paths == [b"/connectors/c/fence", b"/connectors/c/fence", b"/connectors/d/fence"]
    assert len({id(future) for future in (*asked, newer, other)}) == 3
    client.follow(NEW)
    for future in (asked[0], newer, other):
        with pytest.raises(ConnectionError):
            future.result(5)
    assert client.fence(NEW, ConnectorName("c"), 1, None) is not asked[0], "an answer is not used again"
    for connection in connections:
        connection.close()


def test_closing_the_client_ends_waiting_requests(client: LeaderClient, said: list[Any], hung: Any) -> None:
    server, url = hung
    client.send(SendTaskConfigs(OpId(1), url, ConnectorName("c"), (), None))
    connection, _ = server.accept()
    client.close()
    wait_until(lambda: said, 5, "the request to end")
    connection.close()


def defect() -> Any:
    raise TypeError("a defect")


@pytest.mark.parametrize(("url", "kind"), [("http://leader:none/", ConnectError), ("https://leader:1/", TypeError)])
def test_a_request_that_cannot_be_sent_ends_with_an_error(said: list[Any], url: str, kind: type[Exception]) -> None:
    client = LeaderClient(said.append, "HmacSHA256", defect)
    client.send(SendTaskConfigs(OpId(3), url, ConnectorName("c"), (), None))
    [answer] = wait_until(lambda: said, 10, "the end of the request")
    assert isinstance(answer, TaskConfigsPublished)
    assert (answer.op, type(answer.error)) == (3, kind)


def test_an_invalid_address_is_named() -> None:
    client = LeaderClient(lambda _: None, "HmacSHA256", defect)
    with pytest.raises(ConnectError, match="http://leader:none/"):
        client.fence("http://leader:none/", ConnectorName("c"), 1, None).result(10)
