"""Translates the properties of Java's Kafka clients, as in a worker's properties file, to kafka-python's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spark_tasks.config.client_properties import CONNECTION_NUMBERS
from spark_tasks.config.client_values import client_value, given_value
from spark_tasks.config.unsupported import refuse
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.security.key_stores import certificates, identity, is_pem, pem_text, read_store
from spark_tasks.kafka.security.tls import Pem, PemText, Tls

DEFAULTS: Final = {"reconnect_backoff_max_ms": 1000}
"""Of clients that have to reconnect soon: Kafka's default, as the library would wait for up to 30 s."""
_ANY: Final = "consumer"  # its keys of connections, which all clients have, are those of the others
_STORES: Final = ("PEM", "PKCS12", "JKS")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_JAAS_OPTION = re.compile(
    r"""(?<![\w.\-])([\w.\-]++)\s*+=\s*+(?:"((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\.)*+)'|([^\s;"']+))""")


def client_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns keyword arguments for kafka-python's clients: `bootstrap_servers`, `security_protocol`, and those for
    which a property is set. Ignores unknown properties. They can be pickled. Raises ConfigError with advice if a value
    or a security setting is not supported.
    """
    settings: dict[str, Any] = {"bootstrap_servers": _servers(properties)}
    if properties.get("client.id"):
        settings["client_id"] = properties["client.id"]
    for key in CONNECTION_NUMBERS:
        if (number := given_value(_ANY, properties, key)) is not None:
            settings[key.replace(".", "_")] = number
    if lookup := given_value(_ANY, properties, "client.dns.lookup"):
        settings["client_dns_lookup"] = lookup
    protocol = client_value(_ANY, properties, "security.protocol").upper()
    settings["security_protocol"] = protocol
    if protocol.startswith("SASL"):
        settings.update(_sasl(properties))
    refuse(properties)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = tls_settings(properties)
    return settings


def _servers(properties: Mapping[str, str]) -> list[str]:
    servers = [server for server in given_value(_ANY, properties, "bootstrap.servers") or () if server]
    if not servers:
        raise _bad("bootstrap.servers", properties.get("bootstrap.servers"), "host:port, several separated by commas")
    for server in servers:
        if not re.fullmatch(r"(?:[^:]*://)?(\[[0-9a-fA-F:.%]+\]|[^\s:/]+):\d{1,5}", server):
            raise _bad("bootstrap.servers", server, "host:port")
    return servers


def _sasl(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = client_value(_ANY, properties, "sasl.mechanism").upper()
    if mechanism not in _MECHANISMS:
        allowed = f"one of {', '.join(_MECHANISMS)} (Kerberos and OAuth are not supported)"
        raise _bad("sasl.mechanism", mechanism, allowed)
    options = _jaas(properties.get("sasl.jaas.config", ""))
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise ConfigError(
            f"sasl.jaas.config has no {' and no '.join(missing)} (value hidden); for example, {mechanism} needs: "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";',
        )
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def _jaas(text: str) -> dict[str, str]:
    """Returns the options of a JAAS login module entry. In quotes, a backslash escapes the next character."""
    options = {}
    for name, double, single, bare in _JAAS_OPTION.findall(text):
        options[name] = bare or re.sub(r"\\(.)", r"\1", double or single)
    return options


def tls_settings(properties: Mapping[str, str]) -> Tls:
    """Returns the TLS settings of a client, from the ssl.* properties of any client. Raises ConfigError."""
    for kind in ("keystore", "truststore"):
        store = properties.get(f"ssl.{kind}.type", "").strip().upper()
        if store not in ("", *_STORES):
            allowed = f"one of {', '.join(_STORES)} (for JKS and PKCS12: what keytool writes)"
            raise _bad(f"ssl.{kind}.type", store, allowed)
    found = replace(_own_certificate(properties), check_hostname=bool(_endpoint_check(properties)),
                    trusted=_trusted(properties))
    found.check()
    return found


def _trusted(properties: Mapping[str, str]) -> Pem | None:
    location = properties.get("ssl.truststore.location", "").strip()
    if not location:
        return _pem(properties, "ssl.truststore.certificates")
    content = read_store("ssl.truststore.location", location)
    if is_pem(content):
        return Path(location)
    return PemText(certificates(content, properties.get("ssl.truststore.password")))


def _own_certificate(properties: Mapping[str, str]) -> Tls:
    """Returns the client's certificate chain, its key and the key's password; nothing without a key store."""
    location = properties.get("ssl.keystore.location", "").strip()
    password = properties.get("ssl.key.password")
    if not location:
        chain = _pem(properties, "ssl.keystore.certificate.chain")
        key = _pem(properties, "ssl.keystore.key") or chain
        return Tls(chain=chain, key=key, password=password) if chain else Tls()
    content = read_store("ssl.keystore.location", location)
    if is_pem(content):  # it holds the key and the chain
        return Tls(chain=Path(location), key=Path(location), password=password)
    both = PemText(identity(content, properties.get("ssl.keystore.password"), password).decode())
    return Tls(chain=both, key=both)


def _endpoint_check(properties: Mapping[str, str]) -> str:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip()
    if algorithm.lower() not in ("https", ""):
        raise _bad("ssl.endpoint.identification.algorithm", algorithm, "https, or nothing for no check")
    return algorithm


def _pem(properties: Mapping[str, str], key: str) -> PemText | None:
    text = properties.get(key, "").strip()
    if not text:
        return None
    pem = pem_text(text)
    if not pem:
        raise ConfigError(f"{key} (value hidden) is not PEM: it has no -----BEGIN …----- with its -----END …-----")
    return PemText(pem)


def _bad(key: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {key}: must be {allowed}")
