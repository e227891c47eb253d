"""Servers and certificates for tests over real sockets."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import http.server
import ipaddress
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import NameOID

from heeler.embedded_kafka.java import find_java
from rest.server.keys import Listener
from rest.server.listeners import RestServer
from rest.server.settings import RestSettings
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.listening import listening
from tests.rigs.rest_apps import admin_app_of, app_of

LOCAL = (Listener("http", "127.0.0.1", 0),)


def ports_of(server: RestServer) -> tuple[int, ...]:
    """The ports that a server has bound, those of its main listeners first."""
    return tuple(listener.bind_addr[1] for listener in server.servers)


@contextlib.contextmanager
def serving(worker: FakeWorker, settings: RestSettings | None = None) -> Iterator[RestServer]:
    """A running REST server of a worker, on free ports of this machine."""
    settings = settings or replace(RestSettings(), listeners=LOCAL)
    server = RestServer(settings, app_of(worker, settings), admin_app_of(worker, settings))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def call(
    port: int, method: str, path: str, body: Any = None, *, tls: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, Any]:
    """One request over a separate connection: status and parsed body."""
    kind = http.client.HTTPConnection if tls is None else partial(http.client.HTTPSConnection, context=tls)
    connection = kind("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        data = None if body is None else json.dumps(body)
        typed = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, data, {**typed, **headers})
        response = connection.getresponse()
        raw = response.read()
        return response.status, json.loads(raw) if raw else None


def statuses(answers: bytes) -> list[int]:
    """The status codes of the responses in some bytes."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


@dataclass
class Stub:
    """Another worker, which sends given responses and remembers the requests."""

    status: int = 200
    body: bytes = b"{}"
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0


@contextlib.contextmanager
def stub(status: int = 200, body: Any = None) -> Iterator[Stub]:
    """A Stub on a free port; `body` is sent as JSON, or unchanged if it is bytes."""
    answers = Stub(status, body if isinstance(body, bytes) else json.dumps(body).encode())

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answers.requests.append((self.command, self.path, dict(self.headers), data))
            self.send_response(answers.status)
            if answers.status != 204:
                self.send_header("Content-Length", str(len(answers.body)))
            self.end_headers()
            if answers.status != 204:
                self.wfile.write(answers.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    with listening(Handler) as server:
        answers.port = server.server_port
        yield answers


@dataclass(frozen=True)
class Certificates:
    """Files of a self-signed certificate for 127.0.0.1; the password is `secret`."""

    pem: Path
    encrypted_pem: Path
    pkcs12: Path
    certificate: Path

    @property
    def jks(self) -> Path:
        """The file that keytool creates from `pkcs12` in Java's old format; the key has the password `own pass`."""
        made = self.pem.with_name("jks")
        if not made.exists():
            subprocess.run([
                str(Path(find_java()).with_name("keytool")), "-importkeystore", "-srckeystore", str(self.pkcs12),
                "-srcstorepass", "secret", "-srcalias", "worker", "-destkeystore", str(made), "-deststoretype", "JKS",
                "-deststorepass", "secret", "-destkeypass", "own pass"], check=True, capture_output=True)
        return made


def make_certificates(folder: Path, name: str = "127.0.0.1") -> Certificates:
    """A key and its certificate in all formats."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1")) if name == "127.0.0.1" else x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256()))
    chain = certificate.public_bytes(Encoding.PEM)
    encryption = BestAvailableEncryption(b"secret")
    contents = {
        "pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain,
        "encrypted_pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption) + chain,
        "pkcs12": serialize_key_and_certificates(b"worker", key, certificate, None, encryption),
        "certificate": chain,
    }
    folder.mkdir(exist_ok=True)
    for kind, content in contents.items():
        (folder / kind).write_bytes(content)
    return Certificates(**{kind: folder / kind for kind in contents})
