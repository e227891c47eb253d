"""The server over real sockets: keep-alive, shutdown, and clients that are many, slow or silent."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rest.server.http
from actors.errors import NotFoundError
from rest.server.http import HttpServer
from rest.server.keys import Listener
from rest.server.settings import RestSettings
from storage.ids import ConnectorName, TargetState
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, call, make_certificates, ports_of, serving, statuses
from tests.rigs.support import wait_until

HTTPS = (Listener("https", "127.0.0.1", 0),)
POST = b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
TIMEOUT_S = 60


def test_one_connection_serves_many_requests() -> None:
    with serving(FakeWorker()) as server:
        connection = http.client.HTTPConnection("127.0.0.1", ports_of(server)[0], timeout=10)
        with contextlib.closing(connection):
            sockets = set()
            for method, path in (("GET", "/"), ("HEAD", "/connectors"), ("GET", "/nope"), ("PUT", "/connectors"),
                                 ("GET", "/connectors")):
                connection.request(method, path)
                connection.getresponse().read()
                sockets.add(connection.sock)
            assert len(sockets) == 1


def test_a_connection_that_is_returned_while_the_server_stops_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """It was about to wait for its next request just after the server had checked whether it is still running."""
    asked, go = threading.Event(), threading.Event()

    def app(_environ: Any, start_response: Any) -> list[bytes]:
        asked.set()
        go.wait(20)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    server = HttpServer(("127.0.0.1", 0), app, 1000, 10)
    server.prepare()
    serving_ = threading.Thread(target=server.serve)
    serving_.start()
    address = server.bind_addr
    with (socket.create_connection(address, 10) as idle,
          contextlib.closing(http.client.HTTPConnection(*address, timeout=10)) as busy):
        wait_until(lambda: len(server.open) == 1)
        busy.request("GET", "/")
        assert asked.wait(10)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert idle.recv(1) == b"", "it waited for nothing, and is closed with the selector"
        serving_.join(10)
        server.ready = True  # as the thread of the other one has seen it
        go.set()
        assert busy.getresponse().read() == b"ok"
        assert busy.sock.recv(1) == b""
    stopping.join(10)
    assert server.interrupt is None
    assert [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"] == []


def test_waiting_requests_do_not_block_others() -> None:
    worker = FakeWorker(silent=True)
    with serving(worker) as server:
        port = ports_of(server)[0]
        waiting = [threading.Thread(target=call, args=(port, "GET", f"/connectors/{n}")) for n in range(40)]
        for thread in waiting:
            thread.start()
        wait_until(lambda: len(worker.unanswered) == 40)
        assert call(port, "GET", "/connectors") == (200, [])
        assert all(thread.is_alive() for thread in waiting), "answered while others waited"
        for future in worker.unanswered:
            future.set_exception((NotFoundError, NotFoundError("not found"), None))
        for thread in waiting:
            thread.join(10)


def test_a_stopping_server_refuses_requests_and_closes_connections() -> None:
    with serving(FakeWorker()) as server:
        connection = http.client.HTTPConnection("127.0.0.1", ports_of(server)[0], timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            assert connection.getresponse().read()
            server.refuse()
            connection.request("GET", "/connectors")
            response = connection.getresponse()
            assert (response.status, response.headers["Connection"]) == (503, "close")
            assert json.loads(response.read()) == {"error_code": 503, "message": "The worker is shutting down"}
    with pytest.raises(ConnectionRefusedError):
        call(ports_of(server)[0], "GET", "/")


def test_stopping_lets_a_request_end_and_leaves_no_threads() -> None:
    before = threading.active_count()
    worker = FakeWorker(silent=True)
    results: list[tuple[int, object]] = []
    with serving(worker, replace(RestSettings(), listeners=LOCAL, request_timeout_s=0.5)) as server:
        thread = threading.Thread(target=lambda: results.append(call(ports_of(server)[0], "GET", "/connectors/a")))
        thread.start()
        wait_until(lambda: len(worker.asked) == 1)
    thread.join(10)
    assert results[0][0] == 500
    wait_until(lambda: threading.active_count() <= before)


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
        assert Counter(ask_in_processes(ports_of(server)[0], 1000, rounds=2)) == {"200": 1000}


@pytest.mark.integration  # many real connections
@pytest.mark.usefixtures("many_files")
def test_two_hundred_clients_keep_their_connections_over_tls(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = {"ssl.keystore.location": str(made.pem)}
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls)) as server:
        assert Counter(ask_in_processes(ports_of(server)[0], 200, str(made.certificate), rounds=2)) == {"200": 200}


def test_silent_clients_take_no_thread() -> None:
    with serving(FakeWorker()) as server, contextlib.ExitStack() as stack:
        for _ in range(rest.server.http.MAX_THREADS + 50):
            stack.enter_context(socket.create_connection(("127.0.0.1", ports_of(server)[0]), TIMEOUT_S))
        assert call(ports_of(server)[0], "GET", "/connectors") == (200, [])


@pytest.mark.parametrize("slowly", [b"GET / HTTP/1.1\r\nHost: a\r\nA: ", POST + b"Content-Length: 4096\r\n\r\n"])
def test_a_request_that_arrives_too_slowly_is_aborted(slowly: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest.server.http, "IDLE_TIMEOUT_S", 0.4)
    monkeypatch.setattr(rest.server.http, "BODY_TIMEOUT_S", 0.4)
    with serving(FakeWorker()) as server, \
            socket.create_connection(("127.0.0.1", ports_of(server)[0]), TIMEOUT_S) as connection:
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
        settings = replace(settings, listeners=HTTPS, tls={"ssl.keystore.location": str(made.pem)})
        trust = ssl.create_default_context(cafile=made.certificate)
    worker = FakeWorker()
    if kind == "answer":
        worker.put(ConnectorName("large"), {"x": "y" * 20_000_000}, TargetState.STARTED, 0)
    with serving(worker, settings) as server, contextlib.ExitStack() as stack:
        port = ports_of(server)[0]
        server.servers[0].timeout = 600
        for _ in range(20):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
            slow.setblocking(False)
            slow.send(SLOWLY[kind])
        wait_until(lambda: server.servers[0].requests.waiting > 0, 30, "more slow clients than threads")
        for _ in range(2):
            assert call(port, "GET", "/", tls=trust)[0] == 200


def test_refused_clients_make_way_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest.server.http, "MAX_THREADS", 4)
    monkeypatch.setattr(rest.server.http, "DRAIN_S", 600)
    with serving(FakeWorker()) as server, contextlib.ExitStack() as stack:
        refused = []
        for _ in range(12):
            refused.append(stack.enter_context(socket.create_connection(("127.0.0.1", ports_of(server)[0]), TIMEOUT_S)))
            refused[-1].sendall(b"BAD\r\n\r\n")
        assert call(ports_of(server)[0], "GET", "/")[0] == 200
        assert [statuses(connection.recv(65536)) for connection in refused] == [[400]] * 12


def test_rejected_connections_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Connections that are rejected before the handshake and after it."""
    caplog.set_level("INFO")
    made = make_certificates(tmp_path)
    settings = replace(RestSettings(), listeners=HTTPS, tls={"ssl.keystore.location": str(made.pem)})
    trust = ssl.create_default_context(cafile=made.certificate)
    with serving(FakeWorker(), settings) as server:
        for shake_hands in (False, True):
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", ports_of(server)[0]), TIMEOUT_S) as stranger:
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
        port = ports_of(server)[0]
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
            stack.enter_context(socket.create_connection(("127.0.0.1", ports_of(server)[0]), TIMEOUT_S))
        assert call(ports_of(server)[0], "GET", "/connectors") == (200, [])


STARVED = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from dataclasses import replace
from rest.server.settings import RestSettings
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, ports_of, serving
with serving(FakeWorker(), replace(RestSettings(), listeners=LOCAL)) as server:
    held = []
    try:
        while True:
            held.append(socket.socket())
    except OSError:
        held = held[4:]
    print(ports_of(server)[0], flush=True)
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
