"""Signatures of requests between workers (KIP-507): how they are made, and which requests are accepted."""

from __future__ import annotations

import hmac

from actors.assignment.protocol import Protocol
from actors.errors import ConflictError, RequestRefusedError
from actors.herder.state import HerderState
from actors.messages.requests import SIGNATURE_DIGESTS, Signature
from storage.config.state import SessionKey


def sign(key: SessionKey, algorithm: str, body: bytes) -> Signature:
    """Signs the exact bytes of a request's body (empty if there is none)."""
    return Signature(body, hmac.new(key.key, body, SIGNATURE_DIGESTS[algorithm]).digest(), algorithm)


def refusal(state: HerderState, signature: Signature | None) -> Exception | None:
    """Why the request is refused; None if its signature is valid, or if the group's protocol requires none.

    Checked before anything else, so that an unsigned request does not reveal whether a connector exists.
    """
    if state.membership is None:
        return ConflictError("Cannot complete request momentarily due to no known leader URL, likely because a "
                             "rebalance was underway.")
    if state.membership.protocol is not Protocol.SESSIONED:
        return None
    if signature is None:
        return RequestRefusedError("Internal request missing required signature", 400)
    if signature.algorithm not in state.settings.verification_algorithms:
        return RequestRefusedError(
            f"This worker does not support the '{signature.algorithm}' key signing algorithm used by other workers. "
            "This worker is currently configured to use: "
            f"[{', '.join(state.settings.verification_algorithms)}]. Check that all workers' configuration files "
            "permit the same set of signature algorithms, and correct any misconfigured worker and restart it.", 400)
    key = state.store.session_key
    if key is None:
        return RequestRefusedError("This worker is still starting up and has not been able to read a session key from "
                                   "the config topic yet", 503)
    expected = sign(key, signature.algorithm, signature.body)
    if not hmac.compare_digest(expected.signature, signature.signature):
        return RequestRefusedError("Internal request contained invalid signature.", 403)
    return None
