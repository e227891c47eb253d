"""Responses of another worker, or of any other server at its address: each request ends within its limits."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rest.server.keys import Listener
from rest.server.settings import RestSettings
from spark_tasks.process import worker_requests
from spark_tasks.process.worker_requests import NotConnectedError, WorkerUnreachableError, exchange
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import Certificates, make_certificates, ports_of, serving, stub

OK = b"HTTP/1.1 200 OK\r\n"


def ask(url: str, method: str = "GET", body: bytes | None = None, **more: Any) -> tuple[int, bytes]:
    asked = {"tls": None, "connect_s": 20, "answer_s": 20, **more}
    return exchange(method, url, body, {"Accept": "application/json"}, **asked)[:2]


@contextmanager
def answering(answer: bytes, *, then_silent: bool = False, then_for_ever: bytes = b"") -> Iterator[str]:
    """The URL of a server that sends this to the first client, and then closes the connection, stays silent, or sends
    something every 10 ms.
    """
    ended = threading.Event()

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)
            if then_silent:
                ended.wait(60)
            with suppress(OSError):  # the client has gone
                while then_for_ever and not ended.wait(0.01):
                    connection.sendall(then_for_ever)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        ended.set()
        thread.join(20)


def test_a_response_is_returned_unchanged() -> None:
    with stub(201, b"\x1f\x8b no gzip") as other:
        answer = ask(f"http://127.0.0.1:{other.port}/connectors/a%2fb/../c?x=%20&y", "PUT", b"")
    assert answer == (201, b"\x1f\x8b no gzip")
    [(method, path, headers, body)] = other.requests
    assert (method, path.lower(), body) == ("PUT", "/connectors/a%2fb/../c?x=%20&y", b"")
    assert headers["Accept"] == "application/json"
    assert (headers["Content-Length"], headers["Accept-Encoding"]) == ("0", "identity")


@pytest.mark.parametrize(("answer", "reason"), [
    (b"", "Remote end closed connection without response"),
    (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
    (OK + b"Content-Length: 5\r\n\r\n{}", "2 bytes read, 3 more expected"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n", "IncompleteRead"),
    (OK + b"A: b\r\n" * 1000 + b"\r\n", "more than 100 headers"),
    (OK + b"A: " + b"b" * 100_000 + b"\r\n\r\n", "more than 65536 bytes"),
    (OK + b"Content-Length: 5000\r\n\r\n" + b"x" * 5000, "the response has more than"),
    (OK + b"\r\n" + b"x" * 5000, "the response has more than"),
])
def test_invalid_responses_are_reported_as_an_unreachable_worker(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, reason: str
) -> None:
    monkeypatch.setattr(worker_requests, "LONGEST_ANSWER", 4096)
    with answering(answer) as url, pytest.raises(WorkerUnreachableError, match=reason):
        ask(url)


@pytest.mark.parametrize("answer", [b"", OK + b"Content-Length: 5\r\n\r\n{}"])
def test_a_silent_server_is_not_waited_for_forever(answer: bytes) -> None:
    with answering(answer, then_silent=True) as url, pytest.raises(WorkerUnreachableError, match="timed out"):
        ask(url, answer_s=0.1)


@pytest.mark.parametrize(("answer", "then"), [
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    (OK + b"A: ", b"b"),
    (OK + b"\r\n", b"x"),
    (OK + b"Content-Length: 5000\r\n\r\n", b"x"),
])
def test_one_limit_holds_for_head_and_body_together(answer: bytes, then: bytes) -> None:
    """A server that sends something now and then could occupy a thread for ever."""
    with answering(answer, then_for_ever=then) as url, pytest.raises(WorkerUnreachableError, match="timed out"):
        ask(url, answer_s=0.1)


def test_shutting_the_socket_down_ends_the_request() -> None:
    def shut_down(sock: socket.socket) -> None:
        threading.Timer(0.05, sock.shutdown, (socket.SHUT_RDWR,)).start()

    with answering(b"", then_silent=True) as url, pytest.raises(WorkerUnreachableError):
        ask(url, connected=shut_down)


def test_without_a_thread_for_its_limit_a_request_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sends it tries again, as after other momentary failures; the system's limit of threads failed its task."""
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NotConnectedError, match="can't start new thread"):
            ask(f"http://127.0.0.1:{server.getsockname()[1]}/", "POST", b"{}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"), "elsewhere")


def context(trusted: Path | None, *, names: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted)
    context.check_hostname = names
    return context


def test_the_context_decides_what_is_trusted(made: Certificates) -> None:
    """Names are compared only if the context requires it (ssl.endpoint.identification.algorithm)."""
    settings = replace(RestSettings(), listeners=(Listener("https", "127.0.0.1", 0),),
                       tls={"ssl.keystore.location": str(made.pem)})
    with serving(FakeWorker(), settings) as server:
        url = f"https://127.0.0.1:{ports_of(server)[0]}/connectors"
        assert ask(url, tls=lambda: context(made.certificate, names=False)) == (200, b"[]")
        for refused, reason in ((context(made.certificate, names=True), "IP address mismatch"),
                                (context(None, names=False), "self-signed certificate")):
            with pytest.raises(WorkerUnreachableError, match=reason):
                ask(url, tls=lambda refused=refused: refused)


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x/", "http://:x/", "http:///a", "http://a:99999/"])
def test_invalid_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ask(url)


def test_errors_show_whether_the_request_was_sent(made: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"http://127.0.0.1:{server.getsockname()[1]}/"
    with answering(b"") as url, pytest.raises(WorkerUnreachableError) as lost:
        ask(url, "POST", b"{}")
    with pytest.raises(WorkerUnreachableError, match="refused") as refused:
        ask(closed, "POST", b"{}")
    with serving(FakeWorker(), replace(RestSettings(), listeners=(Listener("https", "127.0.0.1", 0),), tls={
            "ssl.keystore.location": str(made.pem)})) as other, pytest.raises(WorkerUnreachableError) as untrusted:
        ask(f"https://127.0.0.1:{ports_of(other)[0]}/", "POST", b"{}", tls=lambda: context(None, names=False))
    assert [found.value.sent for found in (lost, refused, untrusted)] == [True, False, False]
