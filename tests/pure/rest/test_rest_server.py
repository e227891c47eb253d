"""The server over real sockets: keep-alive, many waiting requests, bad requests, shutdown, TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.errors import NotFoundError, NotLeaderError
from rest.server.http import HttpServer
from rest.server.keys import Listener
from rest.server.settings import RestSettings
from rest.server.tls import client_context
from spark_tasks.errors import ConfigError
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, Certificates, call, make_certificates, serving
from tests.rigs.support import wait_until

HTTPS = (Listener("https", "127.0.0.1", 0),)


def raw_exchange(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def test_one_connection_serves_many_requests() -> None:
    with serving(FakeWorker()) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.ports[0], timeout=10)
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
        port = server.ports[0]
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


@pytest.mark.parametrize("request_bytes", [
    b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    b"POST /connectors HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
])
def test_input_that_is_not_http_gets_an_error_like_all_others(request_bytes: bytes) -> None:
    with serving(FakeWorker()) as server:
        head, body = raw_exchange(server.ports[0], request_bytes)
        status = int(head.split()[1])
        assert status >= 400
        assert b"application/json" in head
        assert json.loads(body)["error_code"] == status
        assert call(server.ports[0], "GET", "/connectors") == (200, [])


def test_chunked_bodies_are_read() -> None:
    with serving(FakeWorker()) as server:
        head, body = raw_exchange(server.ports[0], (
            b"PUT /connectors/a/config HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["message"] == "Connector config {name=a} contains no connector type"


def test_a_stopping_server_refuses_requests_and_closes_connections() -> None:
    with serving(FakeWorker()) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.ports[0], timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            assert connection.getresponse().read()
            server.refuse()
            connection.request("GET", "/connectors")
            response = connection.getresponse()
            assert (response.status, response.headers["Connection"]) == (503, "close")
            assert json.loads(response.read()) == {"error_code": 503, "message": "The worker is shutting down"}
    with pytest.raises(ConnectionRefusedError):
        call(server.ports[0], "GET", "/")


def test_stopping_lets_a_request_end_and_leaves_no_threads() -> None:
    before = threading.active_count()
    worker = FakeWorker(silent=True)
    results: list[tuple[int, object]] = []
    with serving(worker, replace(RestSettings(), listeners=LOCAL, request_timeout_s=0.5)) as server:
        thread = threading.Thread(target=lambda: results.append(call(server.ports[0], "GET", "/connectors/a")))
        thread.start()
        wait_until(lambda: len(worker.asked) == 1)
    thread.join(10)
    assert results[0][0] == 500
    wait_until(lambda: threading.active_count() <= before)


def test_a_port_in_use_is_named() -> None:
    with serving(FakeWorker()) as server:
        taken = replace(RestSettings(), listeners=(Listener("http", "127.0.0.1", server.ports[0]),))
        refusal = f"REST cannot listen on 127.0.0.1:{server.ports[0]}: .*another address"
        with pytest.raises(ConfigError, match=refusal), \
                serving(FakeWorker(), taken):
            pass


def test_several_listeners_and_a_separate_admin_listener() -> None:
    settings = replace(RestSettings(), listeners=LOCAL * 2, admin_listeners=LOCAL)
    with serving(FakeWorker(), settings) as server:
        first, second, admin = server.ports
        for port in (first, second):
            assert call(port, "GET", "/connectors") == (200, [])
            assert call(port, "GET", "/admin/loggers")[0] == 404
        assert call(admin, "GET", "/admin/loggers") == (200, {})
        assert call(admin, "GET", "/connectors")[0] == 404


@pytest.mark.parametrize("every", ["", "0.0.0.0", "::"])
def test_a_listener_on_all_interfaces_advertises_a_reachable_address(every: str) -> None:
    with serving(FakeWorker(), replace(RestSettings(), listeners=(Listener("http", every, 0),))) as server:
        port = server.ports[0]
        assert call(port, "GET", "/connectors") == (200, [])
        assert server.advertised[1] == port
        assert server.advertised[0] not in {"", "::", "0.0.0.0"}
    advertised = replace(RestSettings(), listeners=LOCAL, advertised_host="connect.example", advertised_port=80)
    with serving(FakeWorker(), advertised) as server:
        assert server.advertised_url == "http://connect.example:80/"
        assert server.worker_id == "connect.example:80"


# ---------------------------------------------------------------- TLS
@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("worker"))


def tls_of(certificates: Certificates, **more: str) -> dict[str, str]:
    return {"ssl.keystore.location": str(certificates.pem), "ssl.truststore.location": str(certificates.certificate),
            **{key.replace("_", "."): value for key, value in more.items()}}


def get_over_tls(port: int, context: ssl.SSLContext) -> int:
    with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)) as connection:
        for _ in range(2):
            connection.request("GET", "/connectors")
            response = connection.getresponse()
            response.read()
        return response.status


@pytest.mark.parametrize("keys", [
    {"ssl.keystore.location": "pem"},
    {"ssl.keystore.location": "encrypted_pem", "ssl.key.password": "secret"},
    {"ssl.keystore.location": "pkcs12", "ssl.keystore.password": "secret", "ssl.keystore.type": "PKCS12"},
    pytest.param({"ssl.keystore.location": "jks", "ssl.keystore.password": "secret", "ssl.key.password": "own pass"},
                 marks=pytest.mark.integration),
])
def test_https_with_every_kind_of_key_store(certificates: Certificates, keys: dict[str, str]) -> None:
    tls = {key: str(getattr(certificates, value, value)) for key, value in keys.items()}
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls)) as server:
        for trusted in (certificates.certificate, certificates.pkcs12):
            context = client_context({"ssl.truststore.location": str(trusted), "ssl.truststore.password": "secret"})
            assert get_over_tls(server.ports[0], context) == 200
        assert server.advertised_url == f"https://127.0.0.1:{server.ports[0]}/"


def test_https_with_certificates_in_the_properties(certificates: Certificates) -> None:
    key, _, chain = certificates.pem.read_text().partition("-----BEGIN CERTIFICATE")
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE" + chain,
              "ssl.truststore.certificates": certificates.certificate.read_text(), "ssl.client.auth": "required",
              "ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=inline)) as server:
        assert get_over_tls(server.ports[0], client_context(inline)) == 200


@pytest.mark.parametrize(("suites", "version"), [
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1.2"),
    ("TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3")])
def test_only_configured_cipher_suites_are_accepted(certificates: Certificates, suites: str, version: str) -> None:
    tls = tls_of(certificates, ssl_cipher_suites=suites)
    other = {"TLSv1.2": "TLSv1.3", "TLSv1.3": "TLSv1.2"}[version]
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls)) as server:
        assert get_over_tls(server.ports[0], client_context(tls_of(certificates, ssl_enabled_protocols=version))) == 200
        with pytest.raises(ssl.SSLError):
            get_over_tls(server.ports[0], client_context(tls_of(certificates, ssl_enabled_protocols=other)))


@pytest.mark.parametrize(("auth", "with_certificate", "works"), [
    ("required", True, True), ("required", False, False), ("requested", False, True), ("none", True, True)])
def test_client_certificates_are_required_or_requested(
    certificates: Certificates, auth: str, with_certificate: bool, works: bool
) -> None:
    settings = replace(RestSettings(), listeners=HTTPS, tls=tls_of(certificates, ssl_client_auth=auth))
    mine = tls_of(certificates) if with_certificate else {"ssl.truststore.location": str(certificates.certificate)}
    with serving(FakeWorker(), settings) as server:
        if works:
            assert get_over_tls(server.ports[0], client_context(mine)) == 200
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                get_over_tls(server.ports[0], client_context(mine))


def test_a_foreign_certificate_and_a_wrong_name_are_refused(certificates: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path, "elsewhere.example")
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls_of(other))) as server:
        port = server.ports[0]
        for trusted in (certificates, other):
            with pytest.raises(ssl.SSLCertVerificationError):
                get_over_tls(port, client_context({"ssl.truststore.location": str(trusted.certificate)}))
        lax = {"ssl.truststore.location": str(other.certificate), "ssl.endpoint.identification.algorithm": ""}
        assert get_over_tls(port, client_context(lax)) == 200


def test_a_silent_client_does_not_block_others(certificates: Certificates) -> None:
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls_of(certificates))) as server:
        address = ("127.0.0.1", server.ports[0])
        with socket.create_connection(address) as silent, socket.create_connection(address) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert get_over_tls(server.ports[0], client_context(tls_of(certificates))) == 200
            silent.setblocking(False)
            with pytest.raises(BlockingIOError):  # others did not wait until it was given up
                silent.recv(1)


def test_workers_forward_over_tls(certificates: Certificates) -> None:
    settings = replace(RestSettings(), listeners=HTTPS, tls=tls_of(certificates, ssl_client_auth="required"))
    with serving(FakeWorker(), settings) as leader:
        lost = FakeWorker(redirect=NotLeaderError("no", leader.advertised_url))
        with serving(lost, replace(settings, listeners=LOCAL)) as server:
            assert call(server.ports[0], "PUT", "/connectors/a/stop") == (
                404, {"error_code": 404, "message": "Unknown connector a"})


@pytest.mark.parametrize(("tls", "words"), [
    ({}, "needs a certificate"), ({"ssl.keystore.location": "/nowhere/at/all"}, "cannot be read"),
    ({"ssl.keystore.location": "JKS"}, "keytool"), ({"ssl.keystore.location": "GARBAGE"}, "ssl.keystore.location"),
    ({"ssl.keystore.location": "PEM", "ssl.client.auth": "maybe"}, "ssl.client.auth"),
    ({"ssl.keystore.location": "PEM", "ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols"),
    ({"ssl.keystore.location": "PEM", "ssl.cipher.suites": "ROT13"}, "ssl.cipher.suites"),
    ({"ssl.keystore.location": "PEM", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "name either all suites"),
    ({"ssl.keystore.location": "PEM", "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
      "ssl.enabled.protocols": "TLSv1.3"}, "none of them"),
    ({"ssl.keystore.location": "PEM", "ssl.provider": "BCFIPS"}, "cannot honor it"),
    ({"ssl.keystore.location": "PEM", "ssl.trustmanager.algorithm": "Pins"}, "cannot honor it"),
    ({"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "y"}, "ssl.keystore"),
])
def test_bad_tls_settings_are_explained(
    tls: dict[str, str], words: str, certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    (tmp_path / "garbage").write_bytes(b"garbage")
    files = {"JKS": tmp_path / "jks", "GARBAGE": tmp_path / "garbage", "PEM": certificates.pem}
    tls = {key: str(files.get(value, value)) for key, value in tls.items()}
    settings = replace(RestSettings(), listeners=HTTPS, tls=tls)
    with pytest.raises(ConfigError, match=words), serving(FakeWorker(), settings):
        pass
