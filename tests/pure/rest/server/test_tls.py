"""HTTPS: key stores, cipher suites, client certificates, wrong settings."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from actors.errors import NotLeaderError
from rest.server.keys import Listener
from rest.server.settings import RestSettings
from rest.server.tls import client_context
from spark_tasks.errors import ConfigError
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, Certificates, call, make_certificates, ports_of, serving

HTTPS = (Listener("https", "127.0.0.1", 0),)


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
            assert get_over_tls(ports_of(server)[0], context) == 200
        assert server.advertised_url == f"https://127.0.0.1:{ports_of(server)[0]}/"


@pytest.mark.parametrize("end", ["\n", "\\n", " "])
def test_https_with_certificates_in_the_properties(certificates: Certificates, end: str) -> None:
    """`end`: of lines; a space if a value continues over several lines of the properties file."""
    key, _, chain = certificates.pem.read_text().replace("\n", end).partition("-----BEGIN CERTIFICATE")
    trusted = certificates.certificate.read_text().replace("\n", end)
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE" + chain,
              "ssl.truststore.certificates": trusted, "ssl.client.auth": "required",
              "ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=inline)) as server:
        assert get_over_tls(ports_of(server)[0], client_context(inline)) == 200


def test_a_trust_store_may_have_lines_of_any_characters(certificates: Certificates, tmp_path: Path) -> None:
    """OpenSSL writes the names of a certificate above it."""
    text = f"subject=O = M\u00fcller\n{certificates.certificate.read_text()}"
    (tmp_path / "trust").write_text(text, encoding="utf-8")
    tls = tls_of(certificates) | {"ssl.truststore.location": str(tmp_path / "trust")}
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls)) as server:
        assert get_over_tls(ports_of(server)[0], client_context(tls)) == 200


@pytest.mark.parametrize(("suites", "version"), [
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1.2"),
    ("TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3")])
def test_only_configured_cipher_suites_are_accepted(certificates: Certificates, suites: str, version: str) -> None:
    tls = tls_of(certificates, ssl_cipher_suites=suites)
    other = {"TLSv1.2": "TLSv1.3", "TLSv1.3": "TLSv1.2"}[version]
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls)) as server:
        mine = client_context(tls_of(certificates, ssl_enabled_protocols=version))
        assert get_over_tls(ports_of(server)[0], mine) == 200
        with pytest.raises(ssl.SSLError):
            get_over_tls(ports_of(server)[0], client_context(tls_of(certificates, ssl_enabled_protocols=other)))


@pytest.mark.parametrize(("auth", "with_certificate", "works"), [
    ("required", True, True), ("required", False, False), ("requested", False, True), ("none", True, True)])
def test_client_certificates_are_required_or_requested(
    certificates: Certificates, auth: str, with_certificate: bool, works: bool
) -> None:
    settings = replace(RestSettings(), listeners=HTTPS, tls=tls_of(certificates, ssl_client_auth=auth))
    mine = tls_of(certificates) if with_certificate else {"ssl.truststore.location": str(certificates.certificate)}
    with serving(FakeWorker(), settings) as server:
        if works:
            assert get_over_tls(ports_of(server)[0], client_context(mine)) == 200
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                get_over_tls(ports_of(server)[0], client_context(mine))


def test_a_foreign_certificate_and_a_wrong_name_are_refused(certificates: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path, "elsewhere.example")
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls_of(other))) as server:
        port = ports_of(server)[0]
        for trusted in (certificates, other):
            with pytest.raises(ssl.SSLCertVerificationError):
                get_over_tls(port, client_context({"ssl.truststore.location": str(trusted.certificate)}))
        lax = {"ssl.truststore.location": str(other.certificate), "ssl.endpoint.identification.algorithm": ""}
        assert get_over_tls(port, client_context(lax)) == 200


def test_a_silent_client_does_not_block_others(certificates: Certificates) -> None:
    with serving(FakeWorker(), replace(RestSettings(), listeners=HTTPS, tls=tls_of(certificates))) as server:
        address = ("127.0.0.1", ports_of(server)[0])
        with socket.create_connection(address) as silent, socket.create_connection(address) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert get_over_tls(ports_of(server)[0], client_context(tls_of(certificates))) == 200
            silent.setblocking(False)
            with pytest.raises(BlockingIOError):  # others did not wait until it was given up
                silent.recv(1)


def test_workers_forward_over_tls(certificates: Certificates) -> None:
    settings = replace(RestSettings(), listeners=HTTPS, tls=tls_of(certificates, ssl_client_auth="required"))
    with serving(FakeWorker(), settings) as leader:
        lost = FakeWorker(redirect=NotLeaderError("no", leader.advertised_url))
        with serving(lost, replace(settings, listeners=LOCAL)) as server:
            assert call(ports_of(server)[0], "PUT", "/connectors/a/stop") == (
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
    ({"ssl.keystore.location": "PEM", "ssl.truststore.certificates": "x"}, "ssl.truststore"),
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
