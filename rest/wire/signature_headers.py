"""The two headers of a signed request between workers (KIP-507). The herder checks the signature."""

from __future__ import annotations

import base64
import binascii
import re

from werkzeug.datastructures import Headers

from actors.messages.requests import SIGNATURE_DIGESTS, Signature
from rest.errors import HttpError

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"
KNOWN_ALGORITHMS = frozenset(name.lower() for name in SIGNATURE_DIGESTS)

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


def signature_of(request_headers: Headers, body: bytes) -> Signature | None:
    """The signature of a request; None if a header is missing. Raises HttpError (400)."""
    algorithm = request_headers.get(ALGORITHM_HEADER)
    encoded = request_headers.get(SIGNATURE_HEADER)
    if algorithm is None or encoded is None:
        return None
    if algorithm.lower() not in KNOWN_ALGORITHMS:
        raise HttpError(400, f"Algorithm {algorithm} not available")
    return Signature(body, _decode(encoded), algorithm)


def _decode(encoded: str) -> bytes:
    wrong = _NOT_BASE64.search(encoded)
    if wrong is not None:
        raise HttpError(400, f"Illegal base64 character {ord(wrong.group()):x}")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise HttpError(400, f"Illegal base64: {error}") from None
