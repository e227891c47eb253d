"""The worker's certificate for executor processes that connect with TLS."""

from __future__ import annotations

import datetime as dt
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from spark_tasks.process.private_files import memory_file

_VALID = dt.timedelta(days=3650)  # longer than a worker runs; nothing else trusts it


def own_certificate() -> tuple[str, ssl.SSLContext]:
    """A new certificate as PEM, and an SSL context with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "heeler executors")])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - _VALID).not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )  # fmt: skip
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # they would arrive on the leash, where any byte kills the process
    with memory_file(private + pem) as file:  # Python loads keys from files only
        context.load_cert_chain(file)
    return pem.decode(), context
