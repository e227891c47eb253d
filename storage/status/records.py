"""Keys and values of the status topic, byte for byte as Kafka Connect's KafkaStatusBackingStore writes them.

A status may have two additional fields, `heeler_restarts` and `heeler_stalled`, which Java's reader ignores.
"""

from __future__ import annotations

from typing import Any

from spark_tasks.errors import json_kind
from storage.config.records import parse_task_id
from storage.ids import ConnectorName, ConnectorTaskId, ItemId, State, TopicName, WorkerId
from storage.log.java_json import dumps, loads
from storage.log.record import KeyValue, shown
from storage.status.state import Restarts, Stall, Status, TopicStatus

CONNECTOR = "status-connector-"
TASK = "status-task-"
TOPIC = "status-topic-"
RESTARTS = "heeler_restarts"
STALLED = "heeler_stalled"
TOPIC_SEPARATOR = ":connector-"

TopicKey = tuple[TopicName, ConnectorName]


def status_key(item: ItemId) -> bytes:
    """The key of a connector's or a task's status."""
    return f"{TASK if isinstance(item, ConnectorTaskId) else CONNECTOR}{item}".encode()


def status_record(status: Status) -> KeyValue:
    """The record of a status; DESTROYED is a tombstone."""
    if status.state is State.DESTROYED:
        return status_key(status.id), None
    value: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    if status.restarts is not None:
        restarts = status.restarts
        value[RESTARTS] = {"count": restarts.count, "cause": restarts.cause, "next": restarts.next_ms,
                           "permanent": restarts.permanent}
    if status.stalled is not None:
        value[STALLED] = {"since": status.stalled.since_ms, "what": status.stalled.what}
    return status_key(status.id), dumps(value)


def topic_record(status: TopicStatus) -> KeyValue:
    """The record of a topic that a connector uses (KIP-558)."""
    value = {
        "topic": {
            "name": status.topic,
            "connector": status.connector,
            "task": status.task,
            "discoverTimestamp": status.discovered_ms,
        }
    }
    return topic_key(status.topic, status.connector), dumps(value)


def topic_key(topic: TopicName, connector: ConnectorName) -> bytes:
    """The key of a topic status; its tombstone means that the topic is no longer recorded for the connector."""
    return f"{TOPIC}{topic}{TOPIC_SEPARATOR}{connector}".encode()


def parse_connector_key(key: str) -> ConnectorName | None:
    """The connector of a `status-connector-…` key."""
    return ConnectorName(key[len(CONNECTOR) :]) or None


def parse_task_key(key: str) -> ConnectorTaskId | None:
    """The task of a `status-task-…` key."""
    return parse_task_id(key[len(TASK) :])


def parse_topic_key(key: str) -> TopicKey | None:
    """Topic and connector of a `status-topic-…` key. A topic's name cannot contain a colon; a connector's may."""
    topic, colon, rest = key[len(TOPIC) :].partition(":")
    connector = rest[len(TOPIC_SEPARATOR) - 1 :]
    return (TopicName(topic), ConnectorName(connector)) if colon and topic and connector else None


def parse_status(item: ItemId, data: bytes) -> Status:
    """Parses a status. Raises ValueError if Kafka Connect could not use it either."""
    value = _object(loads(data))
    state = value.get("state")
    if not isinstance(state, str) or state not in State.__members__:
        raise ValueError(f"unknown state {shown(state)}")
    return Status(
        id=item,
        state=State[state],
        worker_id=WorkerId(_text(value, "worker_id") or ""),
        generation=_integer(value, "generation"),
        trace=_text(value, "trace"),
        version=_text(value, "version"),
        restarts=_restarts(value.get(RESTARTS)),
        stalled=_stalled(value.get(STALLED)),
    )


def _restarts(value: Any) -> Restarts | None:
    """Parses the restarts; None if they are invalid, which must not invalidate the status."""
    if not isinstance(value, dict):
        return None
    try:
        next_ms = None if value.get("next") is None else _moment(value, "next")
        return Restarts(_integer(value, "count"), _text(value, "cause") or "", next_ms, value.get("permanent") is True)
    except ValueError:
        return None


def _stalled(value: Any) -> Stall | None:
    """Parses the stall; None if it is invalid, which must not invalidate the status."""
    if not isinstance(value, dict):
        return None
    try:
        return Stall(_moment(value, "since"), _text(value, "what") or "")
    except ValueError:
        return None


def parse_topic_status(data: bytes) -> TopicStatus:
    """Parses a topic status. Raises ValueError if Kafka Connect could not use it either."""
    value = _object(_object(loads(data)).get("topic"))
    topic, connector = _text(value, "name"), _text(value, "connector")
    if topic is None or connector is None:
        raise ValueError("name or connector is missing")
    return TopicStatus(
        TopicName(topic), ConnectorName(connector), _integer(value, "task"), _integer(value, "discoverTimestamp", 64)
    )


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, not {json_kind(value)}")  # noqa: TRY004  (one error type for all)
    return value


def _text(value: dict[str, Any], name: str) -> str | None:
    text = value.get(name)
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{name} is not a string")
    return text


def _integer(value: dict[str, Any], name: str, bits: int = 32) -> int:
    number = value.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{name} is not a {bits}-bit integer")
    return number


def _moment(value: dict[str, Any], name: str) -> int:
    """Milliseconds since 1970 that a date can express: less than 4460 years."""
    number = _integer(value, name, 48)
    if number < 0:
        raise ValueError(f"{name} is negative")
    return number
