"""Keys of a Java worker's file that heeler accepts, so that the file can be used unchanged, and has no use for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_JVM: Final = "it is about Java's own TLS or login classes, which heeler has not; leave it out"
_METRICS: Final = "heeler measures in its own way; leave it out"
_ONE_VERSION: Final = "one version of a plugin is installed; choose it with pip"
_BUFFERS: Final = "the system sizes TCP buffers; set the limits there (net.ipv4.tcp_rmem and tcp_wmem)"
_RECOVERY: Final = "the Python client has its own rule for the loss of all known brokers; leave it out"

IGNORED: Final[Mapping[str, str]] = {
    "rest.extension.classes": "heeler runs no Java REST extensions; put a proxy that does their work, such as "
                              "authentication, before the REST API",
    "offset.flush.timeout.ms": "source offsets are written after each batch, and a task waits for that up to 30 s; "
                               "leave it out",
    "plugin.discovery": "plugins are found by their entry points and in plugin.path; leave it out",
    **dict.fromkeys((f"{kind}.converter.plugin.version" for kind in ("key", "value", "header")), _ONE_VERSION),
    **dict.fromkeys(("metrics.sample.window.ms", "metrics.num.samples", "metrics.recording.level", "metric.reporters"),
                    _METRICS),
    **dict.fromkeys(("metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms"), _RECOVERY),
    **dict.fromkeys(("send.buffer.bytes", "receive.buffer.bytes"), _BUFFERS),
    "retry.backoff.max.ms": "pauses between retries do not grow; retry.backoff.ms sets them",
    "ssl.protocol": "the newest version that both sides allow is used; ssl.enabled.protocols bounds the REST API's",
    **dict.fromkeys(("ssl.provider", "ssl.engine.factory.class", "ssl.keymanager.algorithm",
                     "ssl.trustmanager.algorithm", "ssl.secure.random.implementation",
                     "sasl.client.callback.handler.class"), _JVM),
}
"""Key to why, and what to do instead."""

IGNORED_PREFIXES: Final[Mapping[str, str]] = {
    "sasl.login.": _JVM,
    "sasl.kerberos.": "there is no Kerberos here; use sasl.mechanism PLAIN or SCRAM",
    "sasl.oauthbearer.": "there is no OAuth here; use sasl.mechanism PLAIN or SCRAM",
    "metrics.context.": _METRICS,
}


def why_ignored(key: str) -> str | None:
    """Why heeler has no use for a key and what to do instead; None for a key that it uses."""
    return IGNORED.get(key) or next((why for p, why in IGNORED_PREFIXES.items() if key.startswith(p)), None)


def warning(settings: Mapping[str, str]) -> str | None:
    """One line about everything that was set for nothing; None where there is nothing to say."""
    told = [f"{key} ({why})" for key in sorted(settings) if settings[key].strip() and (why := why_ignored(key))]
    return f"heeler ignores these settings: {'; '.join(told)}" if told else None
