"""The REST part of a worker's properties, parsed."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_tasks.errors import ConfigError

REQUEST_TIMEOUT_S = 90.0  # fixed in Kafka Connect too
HEALTH_TIMEOUT_S = 10.0

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_ACTIONS = ("set", "add", "setDate", "addDate")


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen; an empty host means all interfaces, port 0 any free one."""

    protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One rule of `response.http.headers.config`; a date's value is milliseconds from now."""

    action: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Cors:
    """Who may call from a browser: `origins` are patterns, None allows all."""

    origins: tuple[re.Pattern[str], ...] | None
    methods: str = "HEAD,POST,GET"

    def allows(self, origin: str) -> bool:
        """Whether pages of an origin may read answers."""
        return self.origins is None or any(pattern.fullmatch(origin) for pattern in self.origins)


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Everything that REST needs to know of the worker's configuration."""

    listeners: tuple[Listener, ...] = (Listener("http", "", 8083),)
    admin_listeners: tuple[Listener, ...] | None = None  # None: on the main listeners; empty: nowhere
    advertised_host: str | None = None
    advertised_port: int | None = None
    advertised_listener: str | None = None
    cors: Cors | None = None
    response_headers: tuple[HeaderRule, ...] = ()
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    tls: Mapping[str, str] = field(default_factory=dict)  # ssl.* keys for listeners and for calls to other workers
    admin_tls: Mapping[str, str] = field(default_factory=dict)
    request_timeout_s: float = REQUEST_TIMEOUT_S
    health_timeout_s: float = HEALTH_TIMEOUT_S

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> RestSettings:
        """From a worker's raw properties. Raises ConfigError."""
        admin = props.get("admin.listeners")
        port = props.get("rest.advertised.port")
        settings = cls(
            listeners=_listeners("listeners", props.get("listeners", "http://:8083")),
            admin_listeners=None if admin is None else _listeners("admin.listeners", admin) if admin.strip() else (),
            advertised_host=props.get("rest.advertised.host.name") or None,
            advertised_port=None if port is None else _integer("rest.advertised.port", port),
            advertised_listener=_protocol(props.get("rest.advertised.listener")),
            cors=_cors(props.get("access.control.allow.origin", ""), props.get("access.control.allow.methods", "")),
            response_headers=_header_rules(props.get("response.http.headers.config", "")),
            topic_tracking=_boolean("topic.tracking.enable", props),
            topic_tracking_reset=_boolean("topic.tracking.allow.reset", props),
            tls=_tls(props, "listeners.https."),
            admin_tls=_tls(props, "admin.listeners.https."),
        )
        protocol = settings.advertised_listener
        if protocol and port is None and protocol not in {listener.protocol for listener in settings.listeners}:
            raise ConfigError(f"rest.advertised.listener: none of the listeners is {protocol}; name another, or set "
                              "rest.advertised.port (and rest.advertised.host.name) for a proxy before the worker")
        return settings

    @property
    def advertised_protocol(self) -> str:
        """The scheme, http or https, that other workers shall use; plain http where there is a choice."""
        if self.advertised_listener is not None:
            return self.advertised_listener
        return "https" if all(listener.protocol == "https" for listener in self.listeners) else "http"

    @property
    def admin_on_main(self) -> bool:
        """Whether the main listeners serve /admin too."""
        return self.admin_listeners is None or self.admin_listeners == self.listeners


def _listeners(key: str, text: str) -> tuple[Listener, ...]:
    found = tuple(_listener(key, item.strip()) for item in text.split(","))
    if not found:
        raise ConfigError(f"{key}: at least one URL is expected, such as http://localhost:8083")
    return found


def _listener(key: str, text: str) -> Listener:
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ConfigError(f"{key}: {text!r} doesn't have the right format (protocol://hostname:port).")
    protocol = match[1].lower()
    if protocol not in {"http", "https"}:
        raise ConfigError(f'{key}: {text!r}: the protocol must be either "http" or "https".')
    return Listener(protocol, match[2], int(match[3]))


def _protocol(text: str | None) -> str | None:
    if not text:
        return None
    if text.lower() not in {"http", "https"}:
        raise ConfigError(f"rest.advertised.listener: {text!r} must be either http or https.")
    return text.lower()


def _integer(key: str, text: str) -> int:
    if re.fullmatch(r"\s*[+-]?\d+\s*", text) is None:
        raise ConfigError(f"Invalid value {text} for configuration {key}: Not a number of type INT")
    return int(text)


def _boolean(key: str, props: Mapping[str, str]) -> bool:
    text = str(props.get(key, "true")).strip().lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"Invalid value {text} for configuration {key}: Expected value to be either true or false")
    return text == "true"


def _cors(origin: str, methods: str) -> Cors | None:
    if not origin.strip():
        return None
    items = [item.strip() for item in origin.split(",")]
    try:
        origins = None if "*" in items else tuple(re.compile(item) for item in items)
    except re.error as error:
        raise ConfigError(f"access.control.allow.origin: {origin!r} is not a list of patterns: {error}") from None
    methods = ",".join(item.strip() for item in methods.split(",") if item.strip())
    return Cors(origins, methods) if methods else Cors(origins)


def _header_rules(text: str) -> tuple[HeaderRule, ...]:
    if not text.strip():
        return ()
    return tuple(_header_rule(rule.strip()) for rule in next(csv.reader([text], skipinitialspace=True)))


def _header_rule(text: str) -> HeaderRule:
    action, _, header = text.partition(" ")
    name, colon, value = (part.strip() for part in header.partition(":"))
    if action not in _ACTIONS or not colon or re.fullmatch(r"[^\s:]+", name) is None:
        raise ConfigError(f"response.http.headers.config: {text!r} is not '[action] [header name]:[header value]' with "
                          f"one of the actions {', '.join(_ACTIONS)}")
    if action.endswith("Date"):
        _integer("response.http.headers.config", value)
    return HeaderRule(action, name, value)


def _tls(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """All keys with the prefix, or where there is none the plain ones: never a mixture."""
    prefixed = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix + "ssl.")}
    return prefixed or {key: value for key, value in props.items() if key.startswith("ssl.")}
