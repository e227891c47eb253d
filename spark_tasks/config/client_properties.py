"""The properties of a connector's Kafka clients: those of the worker, overridden by those of the connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from spark_tasks.config.override_policy import OverridePolicy
from spark_tasks.errors import ConfigError

Kind = Literal["producer", "consumer", "admin"]

CONNECTION_NUMBERS: Final = (
    "request.timeout.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
    "connections.max.idle.ms", "metadata.max.age.ms", "socket.connection.setup.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
)  # fmt: skip
"""The keys of connections that are numbers of milliseconds."""
_OF_THE_WORKER: Final = frozenset({"bootstrap.servers", "client.dns.lookup", *CONNECTION_NUMBERS})
_SECURITY: Final = ("security.", "ssl.", "sasl.")
_PREFIXES: Final = ("producer.", "consumer.", "admin.")


@dataclass(frozen=True, slots=True)
class WorkerClients:
    """The worker's settings for the clients of its connectors. `properties`: in Kafka's names. `policy`: what a
    connector may override.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    policy: OverridePolicy = field(default_factory=OverridePolicy)

    @classmethod
    def of(cls, worker: Mapping[str, str]) -> Self:
        """Parses the worker's properties. Raises ConfigError."""
        own = {k: v for k, v in worker.items() if k in _OF_THE_WORKER or k.startswith((*_SECURITY, *_PREFIXES))}
        return cls(own, OverridePolicy.of(worker))


def client_properties(worker: WorkerClients, connector: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Returns the properties of one kind of client.

    The worker's connection and security settings come first; then `<kind>.*` of the worker, then `<kind>.override.*` of
    the connector (KIP-458) override them. (Java inherits only the bootstrap servers, so that a secured cluster needs
    every setting several times.) If one of these prefixes sets `bootstrap.servers`, it means another cluster, and
    nothing is inherited. Raises ConfigError for an override that is null, as in config records of other programs, and
    for one that the worker's policy does not allow: the policy may be newer than the connector.
    """
    _check_allowed(worker.policy, connector, f"{kind}.override.")
    base = {k: v for k, v in worker.properties.items() if k in _OF_THE_WORKER or k.startswith(_SECURITY)}
    for settings, prefix in ((worker.properties, f"{kind}."), (connector, f"{kind}.override.")):
        own = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
        for key, value in own.items():
            if value is None:
                raise ConfigError(f"Invalid value null for configuration {prefix}{key}: must not be null")
        base = own if "bootstrap.servers" in own else {**base, **own}
    return base


def consumer_group(connector_name: str, properties: Mapping[str, str]) -> str:
    """Returns the group of a sink's tasks. `properties`: those of their consumers, see client_properties."""
    return properties.get("group.id") or f"connect-{connector_name}"


def _check_allowed(policy: OverridePolicy, connector: Mapping[str, str], prefix: str) -> None:
    overridden = sorted(key.removeprefix(prefix) for key in connector if key.startswith(prefix) and key != prefix)
    if wrong := [why for key in overridden if (why := policy.refusal(key))]:
        raise ConfigError(f"Client Config Overrides not allowed ({prefix}*): {' '.join(wrong)}")


def same_brokers(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Returns whether both properties name a common bootstrap server, and so the same cluster."""
    first, second = ({server.strip().lower() for server in properties.get("bootstrap.servers", "").split(",")}
                     for properties in (one, other))
    return bool(first & second)
