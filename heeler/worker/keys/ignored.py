"""What a Java worker's file may say that heeler does not do: harmless things are ignored with a warning, so that the
file can be used unchanged; where security hangs on it, the worker does not start.

What is about Kafka's clients is in spark_tasks/config/unsupported.py, what is about https in rest/server/tls.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from heeler.worker.keys.worker import WORKER_KEYS
from spark_tasks.config import unsupported
from spark_tasks.kafka.client_properties import Kind, client_properties

_METRICS: Final = "heeler measures in its own way; leave it out"
_PROXY: Final = ("Have the listeners on an address that only a proxy reaches (such as http://127.0.0.1:8083), put a "
                 "proxy before them that does this work, and leave the key out")
_CLIENTS: Final[tuple[Kind, ...]] = ("producer", "consumer", "admin")

_CLIENT_AUTH: Final = "the key is ssl.client.auth, with required, requested or none"

REFUSED: Final[Mapping[str, str]] = {
    "rest.extension.classes": f"heeler runs no Java REST extensions; they may keep strangers out. {_PROXY}",
    "rest.servlet.initializor.classes": f"heeler runs no Java servlets; they may keep strangers out. {_PROXY}",
    "authentication.method": f"heeler's REST API does not authenticate. {_PROXY}",
    "authorizer.class.name": f"heeler's REST API does not authorize. {_PROXY}",
    "ssl.client.authentication": _CLIENT_AUTH,
    "listeners.https.ssl.client.authentication": _CLIENT_AUTH,
}
"""Keys on which the security of REST hangs, to what to do instead; the last five are those of Java's other servers."""
_OFF: Final = ("", "NONE")

IGNORED: Final[Mapping[str, str]] = {
    "offset.flush.timeout.ms": "source offsets are written after each batch, and a task waits for that up to 30 s; "
                               "leave it out",
    "plugin.discovery": "plugins are found by their entry points and in plugin.path; leave it out",
}
"""Key to why, and what to do instead."""


def why_ignored(key: str) -> str | None:
    """Why heeler has no use for a key and what to do instead; None for a key that it uses, refuses or does not know."""
    kind, dot, rest = key.partition(".")
    if key.startswith("metrics.context."):
        return _METRICS
    if kind in _CLIENTS and dot:
        return unsupported.why_ignored(rest)
    return IGNORED.get(key) or (unsupported.why_ignored(key) if key in WORKER_KEYS else None)


def refusals(settings: Mapping[str, str]) -> list[str]:
    """A line about everything that asks for security which this worker would not have."""
    found = {key: f"Invalid value {value} for configuration {key}: heeler cannot honour it: {why}"
             for key, why in REFUSED.items() if (value := settings.get(key, "").strip()).upper() not in _OFF}
    found |= unsupported.refused(settings)
    for kind in _CLIENTS:
        for key, why in unsupported.refused(client_properties(settings, {}, kind)).items():
            own = f"{kind}.{key}"
            if own in settings:
                found[own] = why.replace(f"configuration {key}:", f"configuration {own}:")
            else:
                found[key] = why
    return list(found.values())


def warning(settings: Mapping[str, str]) -> str | None:
    """One line about everything that was set for nothing; None where there is nothing to say."""
    told = [f"{key} ({why})" for key in sorted(settings) if settings[key].strip() and (why := why_ignored(key))]
    return f"heeler ignores these settings: {'; '.join(told)}" if told else None
