"""Coroutines on the IO thread that no thread waits for."""

from __future__ import annotations

import gc
import logging
import socket
import threading
import weakref

import pytest

from spark_tasks.kafka.connections import Connections, Loop, Manager, TcpTransport
from tests.rigs.support import wait_until


@pytest.fixture
def connections():
    made = Connections({"bootstrap_servers": ["127.0.0.1:1"]})
    yield made
    made.close()


async def coroutine():
    raise TypeError("a defect")


def function():
    raise TypeError("a defect")


@pytest.mark.parametrize("started", [function, coroutine])
def test_a_defect_is_logged_and_the_thread_continues(connections, caplog, started):
    connections.start(started)
    wait_until(lambda: "TypeError: a defect" in caplog.text)
    done = threading.Event()
    connections.start(done.set)
    assert done.wait(10)


def test_coroutines_cancelled_by_close_are_not_logged_as_defects(connections, caplog):
    begun = threading.Event()

    async def long():
        begun.set()
        await connections.sleep(60_000)

    with caplog.at_level(logging.INFO, "spark_tasks"):
        connections.start(long)
        assert begun.wait(10)
        connections.close()
    assert [record for record in caplog.records if record.name.startswith("spark_tasks")] == []


def test_data_received_just_before_a_disconnect_is_read() -> None:
    """A broker sends the reason for refusing a login and closes the connection."""

    class Reader:
        _sensors = None

        def __init__(self) -> None:
            self.received: list[object] = []

        def data_received(self, data: bytes) -> None:
            self.received.append(data)

        def connection_lost(self, error: object) -> None:
            self.received.append(str(error))

    loop, reader = Loop(), Reader()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(b"refused")
        theirs.close()
        transport = TcpTransport(loop, ours, host="broker")
        transport.set_protocol(reader)
        transport.resume_reading()
        wait_until(lambda: loop.poll(timeout_ms=5) is None and len(reader.received) > 1)
        assert reader.received[0] == b"refused"
        assert "disconnected" in str(reader.received[1])
    loop.close()


def test_a_closed_manager_is_released():
    """The library's timer for idle connections keeps it: one for each member that a worker ever had."""
    loop = Loop()
    manager = Manager(loop, bootstrap_servers=["127.0.0.1:1"], connections_max_idle_ms=1)
    let_go = weakref.ref(manager)
    manager.close()
    del manager

    def gone() -> bool:
        loop.poll(timeout_ms=5)
        gc.collect()
        return let_go() is None

    wait_until(gone)
    loop.close()
