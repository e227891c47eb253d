"""Requests of arbitrary clients: the end of a request is never ambiguous, and no client blocks others."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rest.server.http
from rest.server.keys import Listener
from rest.server.settings import RestSettings
from storage.ids import ConnectorName, TargetState
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, call, make_certificates, serving
from tests.rigs.support import wait_until

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n"
POST = b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(FakeWorker(), replace(RestSettings(), listeners=LOCAL, max_body_bytes=4096)) as server:
        yield server.ports[0]


def exchange(port: int, request: bytes) -> bytes:
    """All that the server says to some bytes, until it closes or, after the last request, the client does."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def statuses(answers: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


@pytest.mark.parametrize("headers_and_body", [
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", b"Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}",
    b"Content-Length: +2\r\n\r\n{}", b"Content-Length: 0_2\r\n\r\n{}", b"Content-Length: -2\r\n\r\n",
    b"Content-Length: 0x2\r\n\r\n{}", b"Content-Length: 2, 2\r\n\r\n{}", b"Content-Length: \r\n\r\n",
    b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"Content-Length : 2\r\n\r\n{}", b"Content-Length\t: 2\r\n\r\n{}", b" Content-Length: 2\r\n\r\n{}",
    b"X: a\r\n Content-Length: 2\r\n\r\n{}", b"X: a\rContent-Length: 2\r\n\r\n{}", b"X: a\nContent-Length: 2\r\n\r\n{}",
    b"X: a\0\r\n\r\n", b": a\r\n\r\n", b"X(: a\r\n\r\n", b"Host: b\r\n\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: \r\n\r\n0\r\n\r\n", b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    *(b"Transfer-Encoding: chunked\r\n\r\n" + body for body in (
        b"0x2\r\n{}\r\n0\r\n\r\n", b"+2\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n", b"0_2\r\n{}\r\n0\r\n\r\n",
        b" 2\r\n{}\r\n0\r\n\r\n", b"2\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n", b"2\r\n{}xx\r\n0\r\n\r\n", b"\r\n{}\r\n",
        b"2;a\nb\r\n{}\r\n0\r\n\r\n", b"0\r\nGET / HTTP/1.1\r\n\r\n", b"0\r\n" + b"A: b\r\n" * 4000 + b"\r\n",
        b"f" * 5000 + b"\r\n")),
])
def test_a_request_whose_end_is_ambiguous_is_refused_and_the_connection_closed(
    port: int, headers_and_body: bytes
) -> None:
    answers = exchange(port, POST + headers_and_body + SMUGGLED)
    assert statuses(answers) == [400]
    head, _, body = answers.partition(b"\r\n\r\n")
    assert b"\r\nConnection: close" in head
    assert json.loads(body)["error_code"] == 400


@pytest.mark.parametrize("request_bytes", [
    b"GET / HTTP/1.01\r\nHost: a\r\n\r\n", b"GET / HTTP/+1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"GET /\x0b HTTP/1.1\r\nHost: a\r\n\r\n", b"GET //[ HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.0\r\nConnection: Keep-Alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
])
def test_a_malformed_head_is_refused(port: int, request_bytes: bytes) -> None:
    assert statuses(exchange(port, request_bytes + SMUGGLED)) == [400]


@pytest.mark.parametrize(("start", "status"), [
    (b"POST /nope", 404), (b"PUT /connectors", 405), (b"GET /connectors", 200), (b"POST /connectors/a//b", 400),
    (b"POST /connectors", 500), (b"DELETE /connectors/a", 404),
])
@pytest.mark.parametrize("framed", [
    b"Content-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED),
    b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    b"Transfer-Encoding: Chunked\r\n\r\n%x ;a=b\r\n%s\r\n0\r\nA: GET / HTTP/1.1\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    # WSGI would take its underscore for a dash
    b"Content_Length: 0\r\nContent-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED),
])
def test_a_body_is_never_taken_for_the_next_request(port: int, start: bytes, status: int, framed: bytes) -> None:
    head = start + b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    assert statuses(exchange(port, head + framed + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")) == [status, 200]


def test_requests_that_are_too_large_are_refused_before_they_are_read(port: int) -> None:
    over = b"POST /connectors HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4097\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(over)  # and none of the body
        assert statuses(b"".join(iter(lambda: connection.recv(65536), b""))) == [413]
    chunks = POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n"
    assert statuses(exchange(port, chunks + (b"400\r\n" + b" " * 1024 + b"\r\n") * 300 + b"0\r\n\r\n")) == [413]
    assert statuses(exchange(port, b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 80_000 + b"\r\n\r\n")) == [431]
    assert statuses(exchange(port, b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 20_000 + b"\r\n")) == [431]
    assert statuses(exchange(port, b"GET /" + b"a" * 80_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")) == [414]
    for answered in (b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 60_000 + b"\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4096\r\n\r\n" + b" " * 4096):
        assert statuses(exchange(port, answered)) == [200]


def test_a_response_reaches_a_client_that_keeps_sending(port: int) -> None:
    """If bytes were left unread, the system would reset the connection and the response could be lost."""
    for _ in range(20):
        assert statuses(exchange(port, POST + b"Content-Length: 1000000\r\n\r\n" + b" " * 1_000_000)) == [413]


SEPARATE = st.sampled_from([
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"0", b"+", b"_", b"x", b"\x85"])
FRAMING = st.sampled_from([
    b"Content-Length: 2\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"X: y\r\n", b"\r\n", b"{}",
    b"2\r\n{}\r\n", b"0\r\n\r\n", b"Connection: keep-alive\r\n", b"A: b\r\n"])


def whole_requests(data: bytes) -> int:
    """How many h11 sees."""
    import h11

    count = 0
    with contextlib.suppress(h11.RemoteProtocolError):
        while data:
            reader = h11.Connection(h11.SERVER)
            reader.receive_data(data)
            while not isinstance(event := reader.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    return count
            count += 1
            data = reader.trailing_data[0].removeprefix(b"\r\n")  # one empty line may be between two
    return count


@given(st.lists(FRAMING | SEPARATE, max_size=8).map(b"".join))
def test_request_framing_is_interpreted_no_more_leniently_than_by_another_parser(port: int, middle: bytes) -> None:
    sent = b"POST /nope HTTP/1.1\r\nHost: a\r\n" + middle + b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
    answered = statuses(exchange(port, sent))
    refused = answered[-1:] in ([400], [501])
    assert len(answered) - refused <= whole_requests(sent), answered
    assert set(answered[:-1]) <= {404, 200}


# ---------------------------------------------------------------- many at once
BURST = """
import asyncio, collections, ssl, sys
port, count, rounds, trusted = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
tls = ssl.create_default_context(cafile=trusted[0]) if trusted else None

async def ask():
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        for _ in range(rounds):
            writer.write(b"GET /connectors HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = next(line for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()
        return head.split(b" ", 2)[1].decode()
    except (OSError, EOFError) as error:
        return repr(error)

async def main():
    print(input(), *await asyncio.gather(*(asyncio.wait_for(ask(), 60) for _ in range(count))), sep=";")

asyncio.run(main())
"""


def ask_in_processes(port: int, count: int, *trusted: str, rounds: int = 1) -> list[str]:
    """The last status on each of `count` connections, or what went wrong; two processes open them in one moment."""
    command = [sys.executable, "-c", BURST, str(port), str(count // 2), str(rounds), *trusted]
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                       text=True)) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(lambda process: process.communicate("go\n", 90)[0], asking))
    return [one for line in said for one in line.strip().split(";")[1:]]


@pytest.fixture
def many_files() -> Iterator[None]:
    """A worker allows itself as many open files as it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.integration  # many real connections
@pytest.mark.usefixtures("many_files")
def test_a_thousand_connections_in_the_same_moment_are_all_answered() -> None:
    with serving(FakeWorker()) as server:
        assert Counter(ask_in_processes(server.ports[0], 1000, rounds=2)) == {"200": 1000}


@pytest.mark.integration  # many real connections
@pytest.mark.usefixtures("many_files")
def test_two_hundred_clients_keep_their_connections_over_tls(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = {"ssl.keystore.location": str(made.pem)}
    listeners = (Listener("https", "127.0.0.1", 0),)
    with serving(FakeWorker(), replace(RestSettings(), listeners=listeners, tls=tls)) as server:
        assert Counter(ask_in_processes(server.ports[0], 200, str(made.certificate), rounds=2)) == {"200": 200}


def test_silent_clients_take_no_thread() -> None:
    with serving(FakeWorker()) as server, contextlib.ExitStack() as stack:
        for _ in range(rest.server.http.MAX_THREADS + 50):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[0]), TIMEOUT_S))
        assert call(server.ports[0], "GET", "/connectors") == (200, [])


@pytest.mark.parametrize("slowly", [b"GET / HTTP/1.1\r\nHost: a\r\nA: ", POST + b"Content-Length: 4096\r\n\r\n"])
def test_a_request_that_arrives_too_slowly_is_aborted(slowly: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest.server.http, "IDLE_TIMEOUT_S", 0.4)
    monkeypatch.setattr(rest.server.http, "BODY_TIMEOUT_S", 0.4)
    with serving(FakeWorker()) as server, \
            socket.create_connection(("127.0.0.1", server.ports[0]), TIMEOUT_S) as connection:
        connection.sendall(slowly)
        connection.settimeout(0.05)  # between two drops
        answer = b""
        for _ in range(TIMEOUT_S * 20):
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65536)
                break
            connection.sendall(b"a")
        assert statuses(answer) == [408]


SLOWLY = {
    "head": b"GET / HTTP/1.1\r\nHost: a\r\nA: ", "body": POST + b"Content-Length: 4096\r\n\r\n",
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n4", "handshake": b"\x16\x03\x01\x02\x00",
    "answer": b"GET /connectors/large HTTP/1.1\r\nHost: a\r\n\r\n",  # and does not read it
}


@pytest.mark.integration  # many real connections
@pytest.mark.parametrize("kind", SLOWLY)
def test_slow_clients_make_way_for_others(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more slow clients than threads, and none of them finishes during the test."""
    monkeypatch.setattr(rest.server.http, "MAX_THREADS", 8)
    monkeypatch.setattr(rest.server.http, "SLOW_S", 0.2)
    monkeypatch.setattr(rest.server.http, "IDLE_TIMEOUT_S", 600)
    monkeypatch.setattr(rest.server.http, "BODY_TIMEOUT_S", 600)
    settings, trust = replace(RestSettings(), listeners=LOCAL), None
    if kind == "handshake":
        made = make_certificates(tmp_path)
        settings = replace(settings, listeners=(Listener("https", "127.0.0.1", 0),),
                           tls={"ssl.keystore.location": str(made.pem)})
        trust = ssl.create_default_context(cafile=made.certificate)
    worker = FakeWorker()
    if kind == "answer":
        worker.put(ConnectorName("large"), {"x": "y" * 20_000_000}, TargetState.STARTED, 0)
    with serving(worker, settings) as server, contextlib.ExitStack() as stack:
        port = server.ports[0]
        server.servers[0].timeout = 600
        for _ in range(20):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
            slow.setblocking(False)
            slow.send(SLOWLY[kind])
        wait_until(lambda: server.servers[0].requests.waiting > 0, 30, "more slow clients than threads")
        for _ in range(2):
            assert call(port, "GET", "/", tls=trust)[0] == 200


def test_rejected_connections_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Connections that are rejected before the handshake and after it."""
    caplog.set_level("INFO")
    made = make_certificates(tmp_path)
    settings = replace(RestSettings(), listeners=(Listener("https", "127.0.0.1", 0),),
                       tls={"ssl.keystore.location": str(made.pem)})
    trust = ssl.create_default_context(cafile=made.certificate)
    with serving(FakeWorker(), settings) as server:
        for shake_hands in (False, True):
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", server.ports[0]), TIMEOUT_S) as stranger:
                    raw = stranger
                    if shake_hands:
                        raw = socket.socket(fileno=trust.wrap_socket(stranger, server_hostname="127.0.0.1").detach())
                    raw.settimeout(TIMEOUT_S)
                    raw.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
                    with contextlib.suppress(ConnectionResetError):
                        while raw.recv(4096):
                            pass
                    raw.close()
    for kind in ("TLS handshake with", "A connection to the REST server failed"):
        assert len([record for record in caplog.records if record.message.startswith(kind)]) == 5
    assert not any(record.exc_info for record in caplog.records)


def test_a_full_server_closes_idle_connections_and_answers_all() -> None:
    with serving(FakeWorker()) as server, contextlib.ExitStack() as stack:
        port = server.ports[0]
        server.servers[0].max_connections = 20
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S)) for _ in range(20)]
        for connection in idle:
            connection.sendall(b"HEAD /connectors HTTP/1.1\r\nHost: a\r\n\r\n")
            assert statuses(connection.recv(65536)) == [200]
        assert Counter(ask_in_processes(port, 100)) == {"200": 100}
        assert idle[0].recv(1) == b"", "the one that idled longest has gone"


def test_silent_connections_are_closed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest.server.http, "SILENT_S", 0.5)
    with serving(FakeWorker()) as server, contextlib.ExitStack() as stack:
        server.servers[0].max_connections = 20
        for _ in range(40):  # half of them fill the server, the others wait in the backlog
            stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[0]), TIMEOUT_S))
        assert call(server.ports[0], "GET", "/connectors") == (200, [])


STARVED = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from dataclasses import replace
from rest.server.settings import RestSettings
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, serving
with serving(FakeWorker(), replace(RestSettings(), listeners=LOCAL)) as server:
    held = []
    try:
        while True:
            held.append(socket.socket())
    except OSError:
        held = held[4:]
    print(server.ports[0], flush=True)
    input()
"""


@pytest.mark.integration  # many real connections
def test_without_file_descriptors_connections_wait_until_there_are_some() -> None:
    with subprocess.Popen([sys.executable, "-c", STARVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          ) as starved:
        assert starved.stdin is not None
        assert starved.stdout is not None
        port = int(starved.stdout.readline())
        try:
            assert Counter(ask_in_processes(port, 60)) == {"200": 60}
        finally:
            starved.stdin.write("\n")
            starved.stdin.close()
            rest_of_output = starved.stdout.read()
    assert "Traceback" not in rest_of_output
