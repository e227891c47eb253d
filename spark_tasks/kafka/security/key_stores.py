"""Converts Java's key and trust stores to PEM. The content decides the format, not ssl.*.type: since Java 9 keytool
writes PKCS12 by default, and Java reads it even if the type is JKS (the default). A store that really is JKS is
converted to PKCS12 first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_tasks.errors import ConfigError
from spark_tasks.kafka.security.jks import is_jks, to_pkcs12
from spark_tasks.process.bounded_read import read_settings_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_BLOCK: Final = re.compile(r"(-----BEGIN ([^-\r\n]+)-----)((?:[^-]++|-(?!----))*+)(-----END \2-----)")
_LINE: Final = 64  # characters; OpenSSL reads no line of more than 254


def read_store(key: str, location: str) -> bytes:
    """Returns a store's content. `key`: the setting that has its location, for the message. Raises ConfigError."""
    try:
        return read_settings_file(Path(location))
    except OSError as error:
        raise ConfigError(f"{key}: {location} cannot be read: {error.strerror or error}") from None


def is_pem(content: bytes) -> bool:
    """Returns whether a store is PEM text."""
    return b"-----BEGIN" in content


def pem_text(text: str) -> str:
    """Returns the keys and certificates of a PEM text in the form that OpenSSL reads, without what is between them. The
    lines of a value that continues (with a backslash) over several lines of a properties file have become one, which
    Java reads. Empty if there are none.
    """
    return "".join(f"{begin}\n{_lines(body)}\n{end}\n"
                   for begin, _, body, end in _BLOCK.findall(text.replace("\\n", "\n")))


def _lines(body: str) -> str:
    if ":" in body:  # the headers of a key that OpenSSL itself has encrypted
        return body.strip()
    text = "".join(body.split())
    return "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))


def identity(content: bytes, password: str | None, key_password: str | None) -> bytes:
    """Returns the private key, unencrypted, and its certificate chain as PEM. Only in JKS can a key have a password of
    its own. Raises ConfigError.
    """
    # Imported in functions, because this library would add 100 ms to every start.
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    store = _load("ssl.keystore.location", content, password, key_password)
    if store.key is None or store.cert is None:
        raise ConfigError("ssl.keystore.location: the store has no private key with a certificate")
    parts = [store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    parts += [c.certificate.public_bytes(Encoding.PEM) for c in (store.cert, *store.additional_certs)]
    return b"".join(parts)


def certificates(content: bytes, password: str | None) -> str:
    """Returns all certificates of a trust store as PEM. Raises ConfigError."""
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    store = _load("ssl.truststore.location", content, password)
    found = [c for c in (store.cert, *store.additional_certs) if c is not None]
    if not found:
        raise ConfigError("ssl.truststore.location: the store has no certificate")
    return "".join(c.certificate.public_bytes(Encoding.PEM).decode() for c in found)


def _load(
    key: str, content: bytes, password: str | None, key_password: str | None = None
) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12  # noqa: PLC0415

    if is_jks(content):
        try:
            content, password = to_pkcs12(content, password, key_password)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from None
    try:
        return load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"{key} is neither PEM nor JKS nor a PKCS12 store with this password: {error}") from None
