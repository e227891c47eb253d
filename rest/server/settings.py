"""The settings of the REST server, parsed from a worker's properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rest.server.keys import MAX_BODY_BYTES, HeaderRule, Listener, header_rules, listener, origins
from spark_tasks.errors import ConfigError

REQUEST_TIMEOUT_S = 90.0  # fixed in Kafka Connect too
HEALTH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Cors:
    """Cross-origin requests that are allowed: `origins` are patterns; None allows all."""

    origins: tuple[re.Pattern[str], ...] | None
    methods: str = "HEAD,POST,GET"

    def allows(self, origin: str) -> bool:
        """Whether pages of an origin may read responses."""
        return self.origins is None or any(pattern.fullmatch(origin) for pattern in self.origins)


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The part of the worker's configuration that the REST server uses."""

    listeners: tuple[Listener, ...] = (Listener("http", "", 8083),)
    admin_listeners: tuple[Listener, ...] | None = None  # None: the main listeners; empty: none
    advertised_host: str | None = None
    advertised_port: int | None = None
    advertised_listener: str | None = None
    cors: Cors | None = None
    response_headers: tuple[HeaderRule, ...] = ()
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    tls: Mapping[str, str] = field(default_factory=dict)  # ssl.* keys for listeners and for requests to other workers
    admin_tls: Mapping[str, str] = field(default_factory=dict)
    max_body_bytes: int = MAX_BODY_BYTES
    rebalance_wait_s: float = 0.0  # 0: conflicts are reported at once
    request_timeout_s: float = REQUEST_TIMEOUT_S
    health_timeout_s: float = HEALTH_TIMEOUT_S

    @classmethod
    def of(cls, values: Mapping[str, Any], given: Mapping[str, str]) -> RestSettings:
        """`values`: those of REST_KEYS in a worker's properties, parsed. `given`: the properties, for the keys of TLS.
        Raises ConfigError.
        """
        admin, advertised = values["admin.listeners"], values["rest.advertised.listener"]
        settings = cls(
            listeners=tuple(map(listener, values["listeners"])),
            admin_listeners=None if admin is None else tuple(map(listener, admin)),
            advertised_host=values["rest.advertised.host.name"] or None,
            advertised_port=values["rest.advertised.port"],
            advertised_listener=advertised and advertised.lower(),
            cors=_cors(values["access.control.allow.origin"], values["access.control.allow.methods"]),
            response_headers=header_rules(values["response.http.headers.config"]),
            topic_tracking=values["topic.tracking.enable"],
            topic_tracking_reset=values["topic.tracking.allow.reset"],
            rebalance_wait_s=values["rest.rebalance.wait.ms"] / 1000,
            max_body_bytes=values["heeler.rest.max.body.bytes"],
            tls=_tls(given, "listeners.https."),
            admin_tls=_tls(given, "admin.listeners.https."),
        )
        protocol = settings.advertised_listener
        protocols = {listener.protocol for listener in settings.listeners}
        if protocol and settings.advertised_port is None and protocol not in protocols:
            raise ConfigError(f"rest.advertised.listener: none of the listeners uses {protocol}; set another one, or "
                              "set rest.advertised.port (and rest.advertised.host.name) for a proxy in front of the "
                              "worker")
        return settings

    @property
    def advertised_protocol(self) -> str:
        """The scheme that other workers use: https if all listeners do and nothing else is set, otherwise http."""
        if self.advertised_listener is not None:
            return self.advertised_listener
        return "https" if all(listener.protocol == "https" for listener in self.listeners) else "http"

    @property
    def admin_on_main(self) -> bool:
        """Whether the main listeners serve /admin too."""
        return self.admin_listeners is None or self.admin_listeners == self.listeners


def _cors(origin: str, methods: str) -> Cors | None:
    if not origin.strip():
        return None
    methods = ",".join(item.strip() for item in methods.split(",") if item.strip())
    return Cors(origins(origin), methods) if methods else Cors(origins(origin))


def _tls(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """All keys with the prefix or, if there are none, the plain ones: never a mixture."""
    prefixed = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix + "ssl.")}
    return prefixed or {key: value for key, value in props.items() if key.startswith("ssl.")}
