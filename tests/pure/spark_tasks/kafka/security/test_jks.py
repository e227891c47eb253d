"""Stores that keytool wrote in Java's old format. Real keytools, through a script that notes what they are asked."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates

from heeler.embedded_kafka.java import find_java
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.security import jks
from spark_tasks.kafka.security.key_stores import certificates, identity

pytestmark = pytest.mark.integration  # it starts Java

PASSWORD, OWN = 'st"ore €', "-schlüssel €"
KEYTOOL = Path(find_java()).resolve().with_name("keytool")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store with a certificate and a key whose password is its own, the key's certificate, and a trust store."""
    folder = tmp_path_factory.mktemp("jks")
    secrets = {**os.environ, "LC_ALL": "C.UTF-8", "STORE": PASSWORD, "OWN": OWN}

    def keytool(store, *arguments):
        subprocess.run([str(KEYTOOL), *arguments, "-keystore", store, "-storetype", "JKS", "-storepass:env", "STORE"],
                       check=True, capture_output=True, cwd=folder, env=secrets)

    keytool("key", "-genkeypair", "-alias", "my, näme", "-keyalg", "EC", "-dname", "CN=me", "-keypass:env", "OWN")
    keytool("key", "-exportcert", "-alias", "my, näme", "-rfc", "-file", "cert")
    for store in ("key", "trust"):
        keytool(store, "-importcert", "-alias", "another", "-noprompt", "-file", "cert")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A Java home whose keytool does as the real one after noting its command line and the folder of its files."""
    jks.converted.cache_clear()
    home, temporary = tmp_path / "java", tmp_path / "tmp"
    (home / "bin").mkdir(parents=True)
    temporary.mkdir()
    notes = f'echo "$@" >> {home}/asked\nls -ld {temporary}/* >> {home}/folders\n'
    for name, does in (("java", ""), ("keytool", f'{notes}exec {KEYTOOL} "$@"\n')):
        (home / "bin" / name).write_text(f"#!/bin/sh\n{does}")
        (home / "bin" / name).chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield home
    assert list(temporary.iterdir()) == []


def test_a_key_may_have_a_password_of_its_own(stores, java):
    pem = identity(stores["key"], PASSWORD, OWN)
    (certificate,) = load_pem_x509_certificates(stores["cert"])
    assert load_pem_x509_certificates(pem)[0] == certificate
    key, public = load_pem_private_key(pem, None).public_key(), (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert key.public_bytes(*public) == certificate.public_key().public_bytes(*public)
    asked = (java / "asked").read_text()
    assert "-srckeypass:env" in asked
    assert not any(secret in asked for secret in (PASSWORD, OWN))
    assert {line[:10] for line in (java / "folders").read_text().splitlines()} == {stat.filemode(0o40700)}


@pytest.mark.parametrize("password", [PASSWORD, None])
def test_a_trust_store_is_read_once_with_or_without_its_password(stores, java, password):
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: certificates(stores["trust"], password), range(8)))
    assert {text.encode() for text in found} == {stores["cert"].replace(b"\r\n", b"\n")}
    assert len((java / "asked").read_text().splitlines()) == 1, "once for all who have the same store"


@pytest.mark.parametrize(("store", "passwords", "message"), [
    ("trust", ("wrong",), r"ssl.truststore.location: keytool cannot .*password was incorrect\): check the store"),
    ("key", ("wrong", OWN), r"ssl.keystore.location: keytool cannot .*password was incorrect"),
    ("key", (PASSWORD, "wrong"), r"ssl.keystore.location: keytool cannot .*Cannot recover key.*ssl.key.password"),
    ("trust", (PASSWORD, OWN), "no private key"),
])
@pytest.mark.usefixtures("java")
def test_the_error_for_a_store_that_cannot_be_opened_has_the_reason(stores, store, passwords, message):
    with pytest.raises(ConfigError, match=message) as raised:
        (identity if len(passwords) > 1 else certificates)(stores[store], *passwords)
    assert not any(secret in str(raised.value) for secret in (PASSWORD, OWN, "wrong"))


@pytest.mark.parametrize("password", [PASSWORD, None])
@pytest.mark.usefixtures("java")
def test_the_error_for_a_damaged_store_says_so(stores, password):
    with pytest.raises(ConfigError, match=r"keytool cannot .* that the file is complete"):
        certificates(stores["trust"][:-100], password)


def test_the_error_for_a_missing_keytool_says_what_to_do(stores, java, monkeypatch):
    def message():
        with pytest.raises(ConfigError, match=r"install .* or convert .*-importkeystore") as raised:
            certificates(stores["trust"], PASSWORD)
        return str(raised.value)

    (java / "bin" / "keytool").unlink()
    assert f"no keytool next to {java}/bin/java" in message()
    (java / "bin" / "java").unlink()
    assert f"no keytool in JAVA_HOME ({java})" in message()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java))
    assert "no java on the PATH" in message()


def test_the_time_to_wait_for_keytool_is_limited(stores, java, monkeypatch):
    (java / "bin" / "keytool").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setattr(jks, "MAX_KEYTOOL_S", 0.1)
    with pytest.raises(ConfigError, match=r"bin/keytool does not work: .*timed out"):
        certificates(stores["trust"], PASSWORD)
