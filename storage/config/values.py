"""Parses the values of config records as leniently as Kafka Connect: unusable values are logged and ignored."""

from __future__ import annotations

import base64
import logging
from typing import Any, TypeVar

from spark_tasks.errors import json_kind
from spark_tasks.limits import MAX_TASKS
from storage.config.state import RestartRequest, SessionKey
from storage.ids import Config, ConnectorName, TargetState
from storage.log.java_json import dumps
from storage.log.record import shown

_logger = logging.getLogger(__name__)

T = TypeVar("T")


def field(what: str, value: Any, name: str, kind: type[T]) -> T | None:
    """One field of a value that must be an object; None, after logging it, if it is missing or has another type."""
    if not isinstance(value, dict):
        _logger.error("Ignoring %s because it is %s instead of an object", what, json_kind(value))
        return None
    content = value.get(name)
    if not isinstance(content, kind) or (kind is int and isinstance(content, bool)):
        _logger.error("Ignoring %s because its '%s' field is %s", what, name, json_kind(content))
        return None
    return content


def count(what: str, value: Any, name: str) -> int | None:
    """A number of tasks."""
    number = field(what, value, name, int)
    if number is not None and not 0 <= number <= MAX_TASKS:
        _logger.error("Ignoring %s because its '%s' field is not between 0 and %d", what, name, MAX_TASKS)
        return None
    return number


def properties(what: str, value: Any) -> Config | None:
    """The configuration in a value; values that are not strings are converted to their JSON text."""
    properties = field(what, value, "properties", dict)
    if properties is None:
        return None
    # A null is kept, as Java's schema allows it, although no worker writes one.
    return {k: v if v is None or isinstance(v, str) else dumps(v).decode() for k, v in properties.items()}  # type: ignore[misc]


def target_state(connector: ConnectorName, value: Any) -> TargetState | None:
    """A target state: `state.v2` if it is a string, else `state` (from workers before KIP-875)."""
    what = f"target state for connector {shown(connector)}"
    if not isinstance(value, dict):
        _logger.error("Ignoring %s because it is %s instead of an object", what, json_kind(value))
        return None
    name = value.get("state.v2")
    if not isinstance(name, str):
        name = field(what, value, "state", str)
    if name is not None and name not in TargetState.__members__:
        _logger.error("Ignoring %s because its state is unknown: %s", what, shown(name))
        return None
    return None if name is None else TargetState[name]


def restart_request(connector: ConnectorName, value: Any) -> RestartRequest | None:
    """A restart request; fields that are missing or not boolean count as false."""
    if not isinstance(value, dict):
        name = shown(connector)
        _logger.error("Ignoring restart request for %s because it is %s instead of an object", name, json_kind(value))
        return None
    return RestartRequest(
        connector, only_failed=value.get("only-failed") is True, include_tasks=value.get("include-tasks") is True
    )


def session_key(value: Any) -> SessionKey | None:
    """A session key; its timestamp must be a JSON integer."""
    key = field("session key", value, "key", str)
    algorithm = None if key is None else field("session key", value, "algorithm", str)
    created = None if algorithm is None else field("session key", value, "creation-timestamp", int)
    if created is not None and not 0 <= created < 2**53:
        _logger.error("Ignoring session key because its 'creation-timestamp' field is not a timestamp")
        return None
    if key is None or algorithm is None or created is None:
        return None
    try:
        return SessionKey(base64.b64decode(key, validate=True), algorithm, created)
    except ValueError as error:
        _logger.error("Ignoring session key because it is not base64: %s", error)  # noqa: TRY400
        return None
