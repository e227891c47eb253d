"""The configuration keys of the REST server, and the parsers of their structured values."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_tasks.config.definition import (
    ConfigDef,
    ConfigKey,
    Importance,
    OneOf,
    Rule,
    Type,
    Validator,
    ValidList,
    at_least,
    between,
)
from spark_tasks.errors import ConfigError

MAX_REBALANCE_WAIT_MS = 60_000  # a request is answered within 90 s
MAX_BODY_BYTES = 16 << 20  # task configurations of a connector with thousands of tasks are forwarded in one body
_LISTENER = re.compile(r"(https?)://\[?([0-9a-z\-%._:]*)\]?:([0-9]{1,5})", re.IGNORECASE)
_LISTENER_SYNTAX = "http://HOST:PORT or https://HOST:PORT (HOST may be empty for all interfaces, PORT at most 65535)"
_HEADER_RULE = re.compile(
    r"(set|add|setDate|addDate)\s+([!#$%&'*+\-.^_`|~0-9a-z]+)\s*:\s*([\t\x20-\x7e\xa0-\xff]*)", re.IGNORECASE
)
_DATE = re.compile(r"[+-]?[0-9]{1,13}")
_ACTIONS = {action.lower(): action for action in ("set", "add", "setDate", "addDate")}
_HEADER_SYNTAX = (
    "header rules separated by commas, each `set|add|setDate|addDate NAME:VALUE`, in double quotes if it contains a "
    "comma, in ISO 8859-1; a date is a number of milliseconds from now, with at most 13 digits"
)


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on; an empty host means all interfaces, port 0 any free port."""

    protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One rule of `response.http.headers.config`; a date's value is milliseconds from now."""

    action: str
    name: str
    value: str


def listener(text: str) -> Listener:
    """Parses one listener. Raises ConfigError."""
    match = _LISTENER.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"{text!r} must be {_LISTENER_SYNTAX}")
    return Listener(match[1].lower(), match[2], int(match[3]))


def header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Parses header rules; a comma inside double quotes is not a separator. Raises ConfigError."""
    try:
        rules = next(csv.reader([text], skipinitialspace=True)) if text.strip() else []
    except csv.Error as error:
        raise ConfigError(f"{text!r} must be {_HEADER_SYNTAX}") from error
    return tuple(_header_rule(rule.strip()) for rule in rules)


def _header_rule(text: str) -> HeaderRule:
    match = _HEADER_RULE.fullmatch(text)
    rule = None if match is None else HeaderRule(_ACTIONS[match[1].lower()], match[2], match[3])
    if rule is None or (rule.action.endswith("Date") and _DATE.fullmatch(rule.value) is None):
        raise ConfigError(f"{text!r} must be {_HEADER_SYNTAX}")
    return rule


def origins(text: str) -> tuple[re.Pattern[str], ...] | None:
    """The patterns of access.control.allow.origin; None if every origin is allowed. Raises ConfigError."""
    items = [item.strip() for item in text.split(",")]
    try:
        return None if "*" in items else tuple(re.compile(item) for item in items)
    except re.error as error:
        raise ConfigError(f"{text!r} is not a valid list of patterns: {error}") from None


def _accepted_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ConfigError:
            return False
        return True

    return accepts


_is_listener = _accepted_by(listener)
_LISTENERS = Rule(f"one or more of {_LISTENER_SYNTAX}, separated by commas",
                  lambda v: bool(v) and all(map(_is_listener, v)))
_ADMIN_LISTENERS = Rule(f"unset (the main listeners), empty (none) or {_LISTENER_SYNTAX}, separated by commas",
                        lambda v: v is None or all(map(_is_listener, v)))
_PORT = Rule("a port from 1 to 65535", lambda v: v is None or 0 < v <= 65535)
_HOST = Rule("a host name or address of at most 255 characters, without spaces",
             lambda v: v is None or (len(v) <= 255 and v.isprintable() and not any(c.isspace() for c in v)))
_PROTOCOL = Rule("http or https", lambda v: v is None or v.lower() in ("http", "https"))
_ORIGINS = Rule("*, or origins or patterns of origins, separated by commas", _accepted_by(origins))


def _key(name: str, kind: Type, default: Any, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default=default, validator=validator, importance=Importance.LOW, doc=doc)


REST_KEYS = ConfigDef(
    _key("listeners", Type.LIST, ["http://:8083"], "The addresses of the REST API.", _LISTENERS),
    _key("admin.listeners", Type.LIST, None, "The addresses of /admin; unset: the main listeners, empty: none.",
         _ADMIN_LISTENERS),
    _key("rest.advertised.host.name", Type.STRING, None, "The host name at which other workers reach this one.",
         _HOST),
    _key("rest.advertised.port", Type.INT, None, "The port at which other workers reach this one.", _PORT),
    _key("rest.advertised.listener", Type.STRING, None, "The protocol of the listener that other workers use.",
         _PROTOCOL),
    _key("rest.extension.classes", Type.LIST, [], "REST extensions (KIP-285): not supported.", ValidList()),
    _key("access.control.allow.origin", Type.STRING, "", "Access-Control-Allow-Origin of responses.", _ORIGINS),
    _key("access.control.allow.methods", Type.STRING, "", "Access-Control-Allow-Methods of responses."),
    _key("response.http.headers.config", Type.STRING, "", "Headers that are added to every response.",
         Rule(_HEADER_SYNTAX, _accepted_by(header_rules))),
    _key("ssl.client.auth", Type.STRING, "none", "Whether HTTPS clients must present a certificate.",
         OneOf("required", "requested", "none")),
    _key("heeler.rest.max.body.bytes", Type.INT, MAX_BODY_BYTES,
         "The maximum size of a request's body, in bytes; larger ones are rejected with 413.", at_least(1024)),
    _key("rest.rebalance.wait.ms", Type.LONG, 0,
         "How long a request waits for a rebalance to end before it is refused with 409. 0: as in Kafka Connect, some "
         "are refused at once, others wait for up to 90 seconds and fail with 500.", between(0, MAX_REBALANCE_WAIT_MS)),
    _key("topic.tracking.enable", Type.BOOLEAN, True, "Whether topics that a connector uses are tracked (KIP-558)."),
    _key("topic.tracking.allow.reset", Type.BOOLEAN, True, "Whether the tracked topics may be reset."),
)
