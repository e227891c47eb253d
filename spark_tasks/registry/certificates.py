"""Recognizes rejected certificates among the failures of connections: no retry makes them valid."""

from __future__ import annotations

import ssl

_OWN = "it does not accept the converter's certificate: {}; see schema.registry.ssl.keystore.* of the converter"
_THEIRS = ("its certificate is not accepted: {}; see schema.registry.ssl.truststore.* and "
           "schema.registry.ssl.endpoint.identification.algorithm of the converter")


def rejection(error: BaseException) -> str | None:
    """Returns what to do if a certificate was rejected, by either side, and that caused the error; otherwise None."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _THEIRS.format(cause.verify_message)
        reason = cause.reason if isinstance(cause, ssl.SSLError) else None
        if reason and "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
            return _OWN.format(reason)
        cause = cause.__cause__ or cause.__context__
    return None
