"""Keys of a Java worker's file that heeler does not support. Harmless ones are ignored with a warning, so that the
file can be used unchanged; keys that affect security keep the worker from starting.

Keys of Kafka's clients are in spark_tasks/config/unsupported.py, those of https in rest/server/tls.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from heeler.worker.keys.worker import WORKER_KEYS
from spark_tasks.config import unsupported
from spark_tasks.config.client_properties import Kind, WorkerClients, client_properties

_METRICS: Final = "heeler has its own metrics (GET /metrics); remove it"
_PROXY: Final = ("Set listeners to an address that only a proxy can reach (such as http://127.0.0.1:8083), let the "
                 "proxy do this work, and remove the key")
_CLIENTS: Final[tuple[Kind, ...]] = ("producer", "consumer", "admin")

_CLIENT_AUTH: Final = "the key is ssl.client.auth, with required, requested or none"

REFUSED: Final[Mapping[str, str]] = {
    "rest.extension.classes": f"heeler does not support Java REST extensions, which may control access. {_PROXY}",
    "rest.servlet.initializor.classes": f"heeler does not support Java servlets, which may control access. {_PROXY}",
    "authentication.method": f"heeler's REST API does not authenticate. {_PROXY}",
    "authorizer.class.name": f"heeler's REST API does not authorize. {_PROXY}",
    "ssl.client.authentication": _CLIENT_AUTH,
    "listeners.https.ssl.client.authentication": _CLIENT_AUTH,
}
"""Keys that affect the security of REST, with advice; the last five belong to other Java servers."""
_OFF: Final = ("", "NONE")

IGNORED: Final[Mapping[str, str]] = {
    "offset.flush.timeout.ms": "source offsets are written after each batch, and a task waits for that up to 30 s; "
                               "remove it",
}
"""Keys with the reason, and what to do instead."""


def why_ignored(key: str) -> str | None:
    """Why heeler ignores a key, and what to do instead; None for a key that it uses, refuses or does not know."""
    kind, dot, rest = key.partition(".")
    if key.startswith("metrics.context."):
        return _METRICS
    if kind in _CLIENTS and dot:
        return unsupported.why_ignored(rest)
    return IGNORED.get(key) or (unsupported.why_ignored(key) if key in WORKER_KEYS else None)


def refusals(settings: Mapping[str, str]) -> list[str]:
    """An error for each key that requires security that this worker does not provide."""
    error_by_key = {key: f"Invalid value {value} for configuration {key}: heeler cannot honor it: {why}"
             for key, why in REFUSED.items() if (value := settings.get(key, "").strip()).upper() not in _OFF}
    error_by_key |= unsupported.refused(settings)
    for kind in _CLIENTS:
        for key, why in unsupported.refused(client_properties(WorkerClients(settings), {}, kind)).items():
            own = f"{kind}.{key}"
            if own in settings:
                error_by_key[own] = why.replace(f"configuration {key}:", f"configuration {own}:")
            else:
                error_by_key[key] = why
    return list(error_by_key.values())


def warning(settings: Mapping[str, str]) -> str | None:
    """One line about all ignored keys; None if there are none."""
    ignored = [f"{key} ({why})" for key in sorted(settings) if settings[key].strip() and (why := why_ignored(key))]
    return f"heeler ignores these settings: {'; '.join(ignored)}" if ignored else None
