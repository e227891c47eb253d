"""TLS contexts from Kafka's `ssl.*` keys, for listeners and for requests to other workers.

Key and trust stores may be PEM files, PEM in the property itself, PKCS12 or JKS. The type is detected from the content;
ssl.*.type is ignored.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from spark_tasks.config.unsupported import refuse_https
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.security.key_stores import certificates, identity, is_pem, pem_text, read_store
from spark_tasks.process.private_files import memory_file

_VERSIONS = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_TLS_1_3_SUITES = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True)
class _Identity:
    """A private key with its certificate chain in PEM, and the key's password."""

    pem: bytes
    password: str | None


def server_context(tls: Mapping[str, str]) -> ssl.SSLContext:
    """The context for an https listener. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = _identity(tls)
    if own is None:
        raise ConfigError("An https listener needs a certificate: set ssl.keystore.location, or ssl.keystore.key and "
                          "ssl.keystore.certificate.chain (each also with the prefix listeners.https.)")
    _load_identity(context, own)
    client_auth = tls.get("ssl.client.auth", "none").strip().lower()
    if client_auth not in _CLIENT_AUTH:
        raise ConfigError(f"Invalid value {client_auth} for configuration ssl.client.auth: must be one of "
                          f"{', '.join(_CLIENT_AUTH)}")
    context.verify_mode = _CLIENT_AUTH[client_auth]
    trusted = _trusted(tls)
    if trusted is not None:
        _load_trusted(context, trusted)
    elif client_auth != "none":
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    _restrict(context, tls)
    return context


def client_context(tls: Mapping[str, str]) -> ssl.SSLContext:
    """The context for requests to workers with https listeners. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    checked = tls.get("ssl.endpoint.identification.algorithm", "https").strip()
    if checked.lower() not in ("https", ""):
        raise ConfigError(f"Invalid value {checked} for configuration ssl.endpoint.identification.algorithm: "
                          "must be https, or empty to disable the check")
    context.check_hostname = bool(checked)
    trusted = _trusted(tls)
    if trusted is None:
        context.load_default_certs()
    else:
        _load_trusted(context, trusted)
    own = _identity(tls)
    if own is not None:
        _load_identity(context, own)
    _restrict(context, tls)
    return context


def pem_certificates(tls: Mapping[str, str]) -> list[str]:
    """The configured certificate chain, with its key, and the configured trusted certificates, in PEM. Raises
    ConfigError.
    """
    own, trusted = _identity(tls), _trusted(tls)
    return [*([own.pem.decode(errors="replace")] if own else []), *([trusted] if trusted else [])]


def _identity(tls: Mapping[str, str]) -> _Identity | None:
    key_password = tls.get("ssl.key.password")
    if "ssl.keystore.key" in tls:
        key, chain = tls["ssl.keystore.key"], tls.get("ssl.keystore.certificate.chain", "")
        return _Identity((pem_text(key) + pem_text(chain)).encode(), key_password)
    if not tls.get("ssl.keystore.location"):
        return None
    store_password = tls.get("ssl.keystore.password")
    content = read_store("ssl.keystore.location", tls["ssl.keystore.location"])
    if is_pem(content):
        return _Identity(content, key_password or store_password)
    return _Identity(identity(content, store_password, key_password), None)


def _trusted(tls: Mapping[str, str]) -> str | None:
    """The trusted certificates in PEM; None for the system's."""
    if tls.get("ssl.truststore.certificates"):
        return pem_text(tls["ssl.truststore.certificates"])
    if not tls.get("ssl.truststore.location"):
        return None
    content = read_store("ssl.truststore.location", tls["ssl.truststore.location"])
    if is_pem(content):
        return pem_text(content.decode(errors="replace"))
    return certificates(content, tls.get("ssl.truststore.password"))


def _load_trusted(context: ssl.SSLContext, trusted: str) -> None:
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:  # ValueError: empty
        raise ConfigError(f"The ssl.truststore settings do not contain certificates in PEM: {error}") from None


def _load_identity(context: ssl.SSLContext, own: _Identity) -> None:
    try:
        with memory_file(own.pem) as file:  # OpenSSL reads keys only from files
            context.load_cert_chain(file, password=own.password or "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"The ssl.keystore settings do not contain a certificate with its private key: {error}") from None


def _restrict(context: ssl.SSLContext, tls: Mapping[str, str]) -> None:
    """Sets protocol versions and ciphers, if configured. Raises ConfigError for values that OpenSSL does not
    support.
    """
    refuse_https(tls)
    names = [name.strip() for name in tls.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")]
    versions = sorted(_VERSIONS[name] for name in names if name in _VERSIONS)
    if not versions:
        raise ConfigError(f"Invalid value {', '.join(names)} for configuration ssl.enabled.protocols: must be one or "
                          f"more of {', '.join(_VERSIONS)}")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    suites = [name.strip() for name in tls.get("ssl.cipher.suites", "").split(",") if name.strip()]
    if not suites:
        return
    newest, older = _TLS_1_3_SUITES & {*suites}, [_openssl_name(name) for name in suites if name not in _TLS_1_3_SUITES]
    bad = f"Invalid value {', '.join(suites)} for configuration ssl.cipher.suites"
    if newest and newest != _TLS_1_3_SUITES:  # Python's ssl module enables all of them or none
        raise ConfigError(f"{bad}: name either all suites of TLSv1.3 ({', '.join(sorted(_TLS_1_3_SUITES))}) or none")
    if not older:
        versions = [v for v in versions if v is ssl.TLSVersion.TLSv1_3]
    if not newest:
        versions = [v for v in versions if v is not ssl.TLSVersion.TLSv1_3]
    if not versions:
        raise ConfigError(f"{bad}: none of them belongs to a version in ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    try:
        context.set_ciphers(":".join(older) or "DEFAULT")
    except ssl.SSLError as error:
        raise ConfigError(f"{bad}: {error}") from None


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite such as `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`; OpenSSL's own names are kept."""
    if "_WITH_" not in suite:
        return suite
    name = re.sub(r"AES_(\d+)", r"AES\1", suite.removeprefix("TLS_").removeprefix("RSA_WITH_"))
    return name.replace("_WITH_", "_").replace("POLY1305_SHA256", "POLY1305").replace("_CBC", "").replace("_", "-")
