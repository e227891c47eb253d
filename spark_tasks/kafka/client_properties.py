"""The properties of a connector's Kafka clients: the worker's, overridden by the connector's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Kind = Literal["producer", "consumer", "admin"]

_OF_THE_WORKER: Final = (
    "bootstrap.servers", "client.dns.lookup", "metadata.max.age.ms", "request.timeout.ms", "reconnect.backoff.ms",
    "reconnect.backoff.max.ms", "retry.backoff.ms", "connections.max.idle.ms",
)  # fmt: skip
_SECURITY: Final = ("security.", "ssl.", "sasl.")
_PREFIXES: Final = ("producer.", "consumer.", "admin.")


def of_worker(worker: Mapping[str, str]) -> dict[str, str]:
    """The worker's properties that apply to the clients of its connectors."""
    return {k: v for k, v in worker.items() if k in _OF_THE_WORKER or k.startswith((*_SECURITY, *_PREFIXES))}


def client_properties(worker: Mapping[str, str], connector: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Kafka client properties in Kafka's names.

    The worker's connection and security settings, then `<kind>.*` of the worker, then `<kind>.override.*` of the
    connector (KIP-458). (Java starts from the bootstrap servers alone, so that a secured cluster needs every setting
    several times.) A prefix with `bootstrap.servers` of its own means another cluster and inherits nothing.
    """
    base = {k: v for k, v in worker.items() if k in _OF_THE_WORKER or k.startswith(_SECURITY)}
    for settings, prefix in ((worker, f"{kind}."), (connector, f"{kind}.override.")):
        own = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
        base = own if "bootstrap.servers" in own else {**base, **own}
    return base


def same_brokers(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether both lists have a broker in common, which means the same cluster judging by the names."""
    first, second = ({server.strip().lower() for server in properties.get("bootstrap.servers", "").split(",")}
                     for properties in (one, other))
    return bool(first & second)
