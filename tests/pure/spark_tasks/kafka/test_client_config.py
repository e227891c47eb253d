"""Java's client properties as kafka-python's settings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from heeler.embedded_kafka.java import find_java
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.security.tls import PemText, Tls

SERVER = {"bootstrap.servers": "localhost:9092"}
LOGIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="al ice" password="s=\\"e;c\'r\\\\et" ;'
)



@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pem")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
         str(key), "-out", str(certificate), "-subj", "/CN=localhost", "-days", "2"],
        check=True, capture_output=True,
    )  # fmt: skip
    return key.read_text(), certificate.read_text()


def test_a_plaintext_client_has_only_servers_and_protocol():
    assert client_settings(SERVER) == {"bootstrap_servers": ["localhost:9092"], "security_protocol": "PLAINTEXT"}


def test_settings_are_parsed_and_unknown_ones_left_out():
    settings = client_settings(
        {
            "bootstrap.servers": " a:1, PLAINTEXT://b:2,[::1]:3 ",
            "client.id": "me",
            "request.timeout.ms": "12000",
            "metadata.max.age.ms": " 7 ",
            "client.rack": "a",
            "group.id": "g",
        }
    )
    assert settings == {
        "bootstrap_servers": ["a:1", "PLAINTEXT://b:2", "[::1]:3"],
        "client_id": "me",
        "request_timeout_ms": 12000,
        "metadata_max_age_ms": 7,
        "security_protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_quoted_sasl_passwords_are_parsed(mechanism):
    settings = client_settings(
        {
            **SERVER,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": LOGIN,
        }
    )
    assert settings["sasl_mechanism"] == mechanism
    assert settings["sasl_plain_username"] == "al ice"
    assert settings["sasl_plain_password"] == "s=\"e;c'r\\et"  # noqa: S105


def test_tls_supports_pem_texts(pem):
    key, certificate = pem
    properties = {
        **SERVER,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificate.replace("\n", "\\n"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
        "ssl.endpoint.identification.algorithm": "",
    }
    settings = client_settings(properties)
    assert settings["ssl_context"] == Tls(
        check_hostname=False, trusted=PemText(certificate), chain=PemText(certificate), key=PemText(key))
    assert client_settings(properties) == settings


def test_pem_texts_may_have_lines_of_any_characters(pem):
    """OpenSSL writes the names of a certificate above it."""
    found = client_settings({**SERVER, "security.protocol": "SSL",
                             "ssl.truststore.certificates": f"subject=O = M\u00fcller\n{pem[1]}"})
    assert found["ssl_context"].trusted == PemText(pem[1])


def test_a_pem_text_may_be_one_line(pem):
    """As are values that continue over several lines of a properties file; Java reads them."""
    key, certificate = (" ".join(text.split("\n")) for text in pem)
    found = client_settings({**SERVER, "security.protocol": "SSL", "ssl.truststore.certificates": certificate * 2,
                             "ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key})
    tls = found["ssl_context"]
    assert [one.text for one in (tls.key, tls.chain, tls.trusted)] == [*pem, pem[1] * 2]


def test_tls_supports_pem_files(pem, tmp_path):
    store = tmp_path / "store.pem"
    store.write_text("".join(pem))
    settings = client_settings(
        {
            **SERVER,
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(store),
        }
    )
    assert settings["ssl_context"] == Tls(check_hostname=True, trusted=store, chain=store, key=store)


@pytest.fixture(scope="module")
def keytool(tmp_path_factory):
    """Makes a key store of a type, and a trust store from it."""
    folder, program = tmp_path_factory.mktemp("keytool"), Path(find_java()).with_name("keytool")

    def run(store, *arguments):
        command = [str(program), "-J-XX:TieredStopAtLevel=1", *arguments, "-keystore", store, "-storepass", "secret"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)

    def make(kind):
        run(f"key-{kind}", "-genkeypair", "-alias", "a", "-keyalg", "EC", "-dname", "CN=localhost",
            "-storetype", kind, "-keypass", "own pass" if kind == "JKS" else "secret")
        run(f"key-{kind}", "-exportcert", "-alias", "a", "-rfc", "-file", f"{kind}.pem")
        run(f"trust-{kind}", "-importcert", "-alias", "ca", "-noprompt", "-file", f"{kind}.pem", "-storetype", kind)
        return {"ssl.keystore.location": str(folder / f"key-{kind}"), "ssl.keystore.password": "secret",
                "ssl.truststore.location": str(folder / f"trust-{kind}"), "ssl.truststore.password": "secret"}

    return make


@pytest.mark.integration
def test_pkcs12_stores_of_keytool_are_converted_to_pem(keytool):
    stores = {**SERVER, "security.protocol": "SSL", **keytool("PKCS12")}
    settings = client_settings(stores)
    assert client_settings({**stores, "ssl.keystore.type": "PKCS12", "ssl.truststore.type": "JKS"}) == settings
    tls = settings["ssl_context"]
    assert tls.password is None
    assert "-----BEGIN CERTIFICATE-----" in tls.trusted.text
    assert "-----BEGIN PRIVATE KEY-----" in tls.key.text
    with pytest.raises(ConfigError, match=r"ssl.truststore.location is neither PEM nor .* with this password"):
        client_settings({**stores, "ssl.truststore.password": "other"})


@pytest.mark.integration
def test_jks_stores_are_converted_to_pem(keytool):
    stores = {**SERVER, "security.protocol": "SSL", **keytool("JKS")}
    settings = client_settings({**stores, "ssl.key.password": "own pass"})
    assert settings["ssl_context"].password is None
    with pytest.raises(ConfigError, match="Cannot recover key"):
        client_settings({**stores, "ssl.key.password": "other"})


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": "nohost"}, "host:port"),
        ({**SERVER, "request.timeout.ms": "soon"}, "soon for configuration request.timeout.ms"),
        ({**SERVER, "request.timeout.ms": "-1"}, "at least 0"),
        ({**SERVER, "security.protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({**SERVER, "security.protocol": "SASL_SSL"}, "GSSAPI.*PLAIN, SCRAM"),
        ({**SERVER, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "no username and no password"),
        ({**SERVER, "security.protocol": "SSL", "ssl.truststore.location": "/no"}, "ssl.truststore.location: /no can"),
        ({**SERVER, "security.protocol": "SSL", "ssl.keystore.location": "/dev/zero"}, "zero .* not a regular file"),
        ({**SERVER, "security.protocol": "SSL", "ssl.keystore.type": "BCFKS"}, "BCFKS.*PEM, PKCS12, JKS"),
        (
            {**SERVER, "security.protocol": "SSL", "ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"},
            "BEGIN",
        ),
        ({**SERVER, "security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "ldap"),
    ],
)
def test_errors_for_invalid_settings_say_what_to_change(properties, message):
    with pytest.raises(ConfigError, match=message):
        client_settings(properties)


def test_errors_show_no_secret():
    broken = LOGIN.replace("password", "pass")
    with pytest.raises(ConfigError) as raised:
        client_settings(
            {
                **SERVER,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": broken,
            }
        )
    assert "s=" not in str(raised.value).split("for example")[0]
    assert "al ice" not in str(raised.value)
