"""What transports read from a socket, and when."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import sys
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.kafka.connections import Loop
from spark_tasks.kafka.security.tls import Tls
from spark_tasks.kafka.transports import TcpTransport, TlsTransport, UnfinishedFrame
from tests.rigs.serving import make_certificates
from tests.rigs.support import wait_until


class Reader:
    """What a transport passes to its connection."""

    _sensors = None

    def __init__(self) -> None:
        self.received: list[object] = []

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def connection_lost(self, error: object) -> None:
        self.received.append(str(error))


@given(st.lists(st.integers(0, 40), max_size=8), st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_the_missing_part_of_a_frame_is_known_however_the_stream_is_cut(sizes: list[int], cuts: list[int]) -> None:
    stream = b"".join(size.to_bytes(4, "big") + b"\xff" * size for size in sizes)
    ends = list(itertools.accumulate(4 + size for size in sizes))
    begins, frame, at = [0, *ends], UnfinishedFrame(), 0
    for cut in itertools.cycle(cuts):
        piece = stream[at : at + cut]
        if not piece:
            break
        at += len(piece)
        begin, end = max(one for one in begins if one <= at), min((one for one in ends if one >= at), default=at)
        assert frame.after(piece) == (end - at if at - begin >= 4 else 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports a socket as readable from a number of bytes on")
def test_the_rest_of_a_response_is_read_when_all_of_it_has_arrived() -> None:
    """A broker sends a response with hundreds of partitions in as many pieces; each would wake the loop."""
    loop, reader, response = Loop(), Reader(), (1000).to_bytes(4, "big") + bytes(1000)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        with theirs:
            ours.setblocking(False)
            theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = TcpTransport(loop, ours, host="broker")
            transport.set_protocol(reader)
            transport.resume_reading()
            theirs.sendall(response[:10])
            wait_until(lambda: loop.poll(timeout_ms=5) is None and reader.received)
            for at in range(10, 1000, 10):
                theirs.sendall(response[at : at + 10])
                loop.poll(timeout_ms=0)
            assert reader.received == [response[:10]]
            theirs.sendall(response[1000:])
            wait_until(lambda: loop.poll(timeout_ms=5) is None and len(reader.received) > 1)
            assert reader.received[1] == response[10:]
            theirs.sendall(b"1")  # of the next one: it is not waited for
            wait_until(lambda: loop.poll(timeout_ms=5) is None and len(reader.received) > 2)
    loop.close()


def test_data_received_just_before_a_disconnect_is_read() -> None:
    """A broker sends the reason for refusing a login and closes the connection."""
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


def test_the_reason_of_a_closed_tls_connection_is_read_although_writing_fails_first(tmp_path) -> None:
    """With TLS 1.3, a broker refuses a certificate after the client's handshake, and may be gone at its first write."""
    own, other = make_certificates(tmp_path / "own"), make_certificates(tmp_path / "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.pem)
    context.load_verify_locations(own.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    loop, reader = Loop(), Reader()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        ours.setblocking(False)
        tls = Tls(trusted=own.certificate, chain=other.pem, key=other.pem)
        transport = TlsTransport(loop, ours, host="127.0.0.1", ssl_context=tls)
        transport.set_protocol(reader)
        refusal = threading.Thread(target=refuse, args=(server, context))
        refusal.start()
        loop.run(transport.handshake)
        refusal.join()
        transport.write(b"request")
        wait_until(lambda: loop.poll(timeout_ms=5) is None and reader.received)
    assert "TLSV1_ALERT_UNKNOWN_CA" in str(reader.received[0])
    loop.close()


def refuse(server: socket.socket, context: ssl.SSLContext) -> None:
    """Refuse the TLS connection of a client, and reset it."""
    theirs, _ = server.accept()
    with theirs, suppress(ssl.SSLError):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        context.wrap_socket(theirs, server_side=True)
