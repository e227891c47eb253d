"""Settings of Kafka's clients that heeler does not support. It rejects those that matter for security, and ignores the
others.

Every key of a client is either used or in one of the two tables. They apply to a worker's own clients, to `producer.`,
`consumer.` and `admin.` in its properties, and to a connector's overrides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_tasks.errors import ConfigError

_OPENSSL: Final = "heeler uses OpenSSL for TLS: configure OpenSSL itself (openssl.cnf, for example its FIPS provider)"
_LOGIN: Final = "heeler uses no Java classes: set sasl.jaas.config with a user and a password, for PLAIN or SCRAM"
_MONITORS: Final = "io.confluent.monitoring.clients.interceptor."


@dataclass(frozen=True, slots=True)
class Security:
    """A security setting of Java's clients that heeler's clients do not have.

    `instead`: what to do instead. `part`: the part of `security.protocol` to which the setting belongs, SSL or SASL;
    empty for all connections. `harmless`: returns whether heeler's behavior meets a value, such as Java's default.
    """

    instead: str
    part: str
    harmless: Callable[[str], bool] = lambda _: False


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value.upper() in values


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


SECURITY: Final[Mapping[str, Security]] = {
    "ssl.provider": Security(_OPENSSL, "SSL", _one_of("SUNJSSE")),  # Java's own
    "ssl.engine.factory.class": Security(f"heeler uses no Java classes; {_OPENSSL}, and name files in "
                                         "ssl.truststore.location and ssl.keystore.location", "SSL"),
    "ssl.keymanager.algorithm": Security(_OPENSSL, "SSL", _one_of("SUNX509", "NEWSUNX509", "PKIX", "IBMX509")),
    "ssl.trustmanager.algorithm": Security(_OPENSSL, "SSL", _one_of("SUNX509", "PKIX", "IBMX509", "IBMPKIX")),
    "ssl.cipher.suites": Security(
        "the Python client uses OpenSSL's cipher suites: set CipherString and Ciphersuites in openssl.cnf, or "
        "ssl.cipher.suites at the brokers. For REST alone use listeners.https.ssl.cipher.suites (all other ssl.* of "
        "the listeners then need that prefix as well)", "SSL"),
    "ssl.enabled.protocols": Security(
        "the Python client uses TLSv1.2 and TLSv1.3: set MinProtocol in openssl.cnf, or ssl.enabled.protocols at the "
        "brokers. For REST alone use listeners.https.ssl.enabled.protocols (all other ssl.* of the listeners then need "
        "that prefix as well)", "SSL", lambda value: "TLSv1.2" in _names(value)),
    "security.providers": Security(_OPENSSL, "S"),
    "sasl.client.callback.handler.class": Security(_LOGIN, "SASL"),
    "sasl.login.callback.handler.class": Security(_LOGIN, "SASL"),
    "sasl.login.class": Security(_LOGIN, "SASL"),
    "sasl.mechanism": Security("heeler supports neither Kerberos nor OAuth: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
                               "SASL", _one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    "interceptor.classes": Security(
        "records do not pass through Java interceptors, which may encrypt or mask them: use a transform", "",
        lambda value: all(name.startswith(_MONITORS) for name in _names(value))),
}
"""The rejected settings by key."""
UNREAD_BY_REGISTRY_CLIENTS: Final = ("ssl.enabled.protocols", "ssl.cipher.suites", "ssl.engine.factory.class")
"""The `ssl.*` settings of Kafka's clients that Confluent's client of a schema registry does not read."""
_OF_HTTPS: Final = ("ssl.provider", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm")

_JVM: Final = "it applies to Java's TLS or login classes, which heeler does not use; remove it"
_METRICS: Final = "heeler has its own metrics; remove it"
_RECOVERY: Final = "the Python client recovers in its own way when all known brokers are lost; remove it"
_BUFFERS: Final = "the system sizes TCP buffers; set the limits there (net.ipv4.tcp_rmem and tcp_wmem)"
_BATCHES: Final = "heeler determines the size of batches itself; remove it"
_CONNECT: Final = "Kafka Connect sets it itself; remove it"
_CODECS: Final = "heeler compresses with the codec's default level"
_ROUTES: Final = "heeler always uses Kafka's default partitioner"

IGNORED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("metrics.sample.window.ms", "metrics.num.samples", "metrics.recording.level", "metric.reporters",
                     "enable.metrics.push"), _METRICS),
    **dict.fromkeys(("metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms", "metadata.max.idle.ms"),
                    _RECOVERY),
    **dict.fromkeys(("send.buffer.bytes", "receive.buffer.bytes"), _BUFFERS),
    "retry.backoff.max.ms": "heeler's pauses between retries do not grow; set retry.backoff.ms",
    "ssl.protocol": "heeler uses the newest version that both sides allow; ssl.enabled.protocols limits the REST API's",
    **dict.fromkeys(("ssl.provider", "ssl.engine.factory.class", "ssl.keymanager.algorithm",
                     "ssl.trustmanager.algorithm", "ssl.secure.random.implementation", "security.providers",
                     "sasl.client.callback.handler.class"), _JVM),
    **dict.fromkeys(("buffer.memory", "linger.ms", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes",
                     "max.partition.fetch.bytes"), _BATCHES),
    **dict.fromkeys(("key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
                     "enable.auto.commit", "auto.commit.interval.ms", "transaction.two.phase.commit.enable",
                     "internal.throw.on.fetch.stable.offset.unsupported", "share.acknowledgement.mode",
                     "share.acquire.mode", "bootstrap.controllers"), _CONNECT),
    **dict.fromkeys(("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"), _CODECS),
    **dict.fromkeys(("partitioner.class", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable",
                     "partitioner.availability.timeout.ms"), _ROUTES),
    **dict.fromkeys(("group.protocol", "group.remote.assignor"), "sinks' groups use the classic protocol"),
    "client.rack": "heeler reads records from the leaders of their partitions",
    "check.crcs": "heeler always checks checksums",
    "interceptor.classes": "heeler does not use Java interceptors; remove it",
}
"""The ignored settings by key: why, and what to do instead."""

IGNORED_PREFIXES: Final[Mapping[str, str]] = {
    "sasl.login.": _JVM,
    "sasl.kerberos.": "heeler does not support Kerberos; use sasl.mechanism PLAIN or SCRAM",
    "sasl.oauthbearer.": "heeler does not support OAuth; use sasl.mechanism PLAIN or SCRAM",
}


def why_ignored(key: str) -> str | None:
    """Returns why a client setting has no effect and what to do instead, or None if it has an effect."""
    return IGNORED.get(key) or next((why for p, why in IGNORED_PREFIXES.items() if key.startswith(p)), None)


def refused(properties: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """Returns for each rejected setting of a client an error that says why heeler cannot provide the requested
    security. Settings that have no effect with the client's `security.protocol`, as in Java, are not rejected.
    `prefix`: that of the keys, which those of `properties` lack.
    """
    protocol = properties.get("security.protocol", "").strip().upper() or "PLAINTEXT"
    return {
        key: f"Invalid value {value} for configuration {prefix}{key}: heeler cannot honor it; {one.instead}"
        for key, one in SECURITY.items()
        if (value := properties.get(key, "").strip()) and one.part in protocol.replace("PLAINTEXT", "")
        and not one.harmless(value)
    }


def refuse(properties: Mapping[str, str], prefix: str = "") -> None:
    """Raises ConfigError if any setting of a client is rejected. `prefix`: as for `refused`."""
    if wrong := refused(properties, prefix):
        raise ConfigError("\n".join(wrong.values()))


def refuse_https(tls: Mapping[str, str], prefix: str = "") -> None:
    """Raises ConfigError if any `ssl.*` setting (without prefix) of the REST API, or of a schema registry's client, is
    rejected. Unlike Kafka's clients, the REST API supports TLS versions and cipher suites; Confluent's client of the
    registry ignores them. `prefix`: as for `refused`.
    """
    refuse({"security.protocol": "SSL", **{key: tls[key] for key in _OF_HTTPS if key in tls}}, prefix)
