"""Ports, and a broker's answer."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading

import pytest

from heeler.embedded_kafka.ports import free_port, require_free, serves_kafka
from heeler.errors import SetupError


def test_free_ports_differ_and_are_outside_the_ephemeral_range():
    ports = {free_port() for _ in range(50)}
    assert len(ports) == 50
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert max(ports) < server.getsockname()[1]
    with pytest.raises(OSError, match="assign"):
        free_port("192.0.2.1")


def test_an_error_is_raised_if_no_port_is_free(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr("heeler.embedded_kafka.ports.PORTS", range(port, port + 1))
        with pytest.raises(SetupError, match=f"^No free port was found on 127.0.0.1 from {port} to {port}"):
            free_port()


def test_a_port_that_another_process_was_given_is_not_given_again():
    port = free_port()
    text = f"""
from heeler.embedded_kafka import ports
ports.PORTS = range({port}, {port + 1})
ports.free_port()
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert "SetupError: No free port was found" in ended.stderr


def test_a_free_port_is_free_and_a_used_one_is_named():
    port = free_port()
    require_free("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(SetupError, match=f"Port {port} .* is in use"):
        require_free("127.0.0.1", port)
    with pytest.raises(SetupError, match="cannot be used"):
        require_free("192.0.2.1", port)


@pytest.mark.parametrize(
    ("answer", "serves"),
    [
        (struct.pack(">iiii", 12, 1, 0, 1), True),
        (struct.pack(">iiii", 12, 1, 0, 0), False),  # it answers and is not yet part of its own cluster
        (struct.pack(">i", 12), False),
        (b"", False),
    ],
)
def test_a_broker_is_ready_when_it_lists_itself_in_its_metadata(answer, serves):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert serves_kafka("127.0.0.1", server.getsockname()[1]) is serves
        thread.join()
    assert not serves_kafka("127.0.0.1", free_port())
