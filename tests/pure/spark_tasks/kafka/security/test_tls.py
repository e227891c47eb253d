"""TLS settings of Kafka's clients: keys in memory, files of the user, and what a connection makes of them."""

from __future__ import annotations

import pickle
import shutil
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest

from spark_tasks.errors import ConfigError
from spark_tasks.kafka.security.tls import PemText, Tls
from tests.rigs.serving import Certificates, make_certificates


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("own"))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def certificate_sent(tls: Tls, server: Certificates) -> bytes | None:
    """The certificate that a server gets when a client connects, in DER. The server trusts only its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.pem)
    context.load_verify_locations(server.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    found: list[bytes | None] = []

    def accept() -> None:
        with context.wrap_socket(theirs, server_side=True) as secured:
            found.append(secured.getpeercert(binary_form=True))

    ours, theirs = socket.socketpair()
    server_side = threading.Thread(target=accept)
    server_side.start()
    with tls.wrap_socket(ours, server_hostname="127.0.0.1", do_handshake_on_connect=False) as secured:
        secured.do_handshake()
        server_side.join()
    return found[0]


def der(certificate: Certificates) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.certificate.read_text())


def test_keys_in_memory_are_used_and_never_in_the_temporary_folder(own: Certificates, temporary: Path) -> None:
    """They stayed there for good."""
    pem = PemText(own.pem.read_text())
    tls = Tls(trusted=pem, chain=pem, key=pem)
    with tls.files() as files:
        assert [Path(str(file)).read_text() for file in files] == [pem.text] * 3
        assert list(temporary.iterdir()) == []
    assert certificate_sent(tls, own) == der(own)
    assert list(temporary.iterdir()) == []


def test_certificates_that_were_renewed_in_their_files_are_used_by_the_next_connection(tmp_path: Path) -> None:
    mine, trusted = tmp_path / "mine.pem", tmp_path / "trusted.pem"
    tls = Tls(trusted=trusted, chain=mine, key=mine)
    for folder in ("first", "renewed"):
        made = make_certificates(tmp_path / folder)
        shutil.copyfile(made.pem, mine)
        shutil.copyfile(made.certificate, trusted)
        assert certificate_sent(tls, made) == der(made)


def test_they_are_sent_to_executors_on_other_machines_as_text(own: Certificates, temporary: Path) -> None:
    """Which do not have the worker's temporary files."""
    pem = PemText(own.pem.read_text())
    tls = Tls(trusted=own.certificate, chain=pem, key=pem, password="p")  # noqa: S106 - a test's
    sent = pickle.dumps(tls)
    assert str(temporary).encode() not in sent
    assert pickle.loads(sent) == tls
    assert certificate_sent(pickle.loads(sent), own) == der(own)


def test_a_key_and_its_password_are_not_shown(own: Certificates) -> None:
    pem = PemText(own.encrypted_pem.read_text())
    tls = Tls(chain=pem, key=pem, password="the password")  # noqa: S106 - a test's
    for shown in (repr(tls), str({"ssl_context": tls}), f"{pem}"):
        assert "the password" not in shown
        assert "PRIVATE" not in shown


@pytest.mark.parametrize(("password", "trusts", "words"), [
    ("other", "own", "the key store cannot be used: "), (None, "own", "the key store cannot be used: "),
    ("secret", "nothing", "the trust store cannot be used: "),
])
def test_what_cannot_be_used_is_reported_without_its_text(own: Certificates, password, trusts, words) -> None:
    """An encrypted key without its password must not be asked for on a terminal."""
    pem = PemText(own.encrypted_pem.read_text())
    trusted = own.certificate if trusts == "own" else PemText(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match=words) as caught:
        Tls(trusted=trusted, chain=pem, key=pem, password=password).check()
    assert "PRIVATE" not in str(caught.value)
    Tls(trusted=own.certificate, chain=pem, key=pem, password="secret").check()  # noqa: S106 - a test's


def test_the_name_of_the_broker_is_checked_unless_that_is_disabled(own: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other", "broker.example")
    assert certificate_sent(Tls(check_hostname=False, trusted=other.certificate), other) is None
    ours, theirs = socket.socketpair()
    with theirs, Tls(trusted=other.certificate).wrap_socket(
        ours, server_hostname="broker.example", do_handshake_on_connect=False
    ) as secured:
        assert secured.context.check_hostname
