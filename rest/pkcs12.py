"""PKCS12 key and trust stores, as Java's keytool makes them, turned into PEM."""

from __future__ import annotations

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12

from spark_tasks.errors import ConfigError


def identity(content: bytes, password: str | None) -> bytes:
    """The private key, encrypted with the store's password, and its certificate chain. Raises ConfigError."""
    store = _load("ssl.keystore.location", content, password)
    if store.key is None or store.cert is None:
        raise ConfigError("ssl.keystore.location: there is no private key with its certificate in the store")
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    parts = [store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)]
    parts += [c.certificate.public_bytes(Encoding.PEM) for c in (store.cert, *store.additional_certs)]
    return b"".join(parts)


def certificates(content: bytes, password: str | None) -> str:
    """All certificates of a trust store. Raises ConfigError."""
    store = _load("ssl.truststore.location", content, password)
    found = [c for c in (store.cert, *store.additional_certs) if c is not None]
    if not found:
        raise ConfigError("ssl.truststore.location: there is no certificate in the store")
    return "".join(c.certificate.public_bytes(Encoding.PEM).decode() for c in found)


def _load(key: str, content: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        return load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
