"""Keys and values of the config topic, byte for byte as Kafka Connect's KafkaConfigBackingStore writes them."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from storage.config.state import RestartRequest, SessionKey
from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState
from storage.log.java_json import dumps
from storage.log.record import KeyValue

TARGET_STATE = "target-state-"
CONNECTOR = "connector-"
TASK = "task-"
COMMIT = "commit-"
RESTART = "restart-connector-"
TASK_COUNT = "tasks-fencing-"
SESSION_KEY = "session-key"
LOGGER = "logger-cluster-"

_INT_DIGITS = 10  # of the largest int; longer texts need not be parsed


def connector_config(connector: ConnectorName, config: Mapping[str, str] | None) -> KeyValue:
    """A connector's configuration; None deletes it."""
    return (CONNECTOR + connector).encode(), None if config is None else dumps({"properties": config})


def task_config(task: ConnectorTaskId, config: Config) -> KeyValue:
    """A task's configuration; it becomes valid with the connector's next commit record."""
    return f"{TASK}{task}".encode(), dumps({"properties": config})


def commit(connector: ConnectorName, tasks: int) -> KeyValue:
    """The commit record, which makes the preceding task configurations valid."""
    return (COMMIT + connector).encode(), dumps({"tasks": tasks})


def target_state(connector: ConnectorName, state: TargetState | None) -> KeyValue:
    """A connector's target state; None deletes it. Workers before KIP-875 read STOPPED as PAUSED."""
    if state is None:
        return (TARGET_STATE + connector).encode(), None
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return (TARGET_STATE + connector).encode(), dumps({"state": old.value, "state.v2": state.value})


def restart(request: RestartRequest) -> KeyValue:
    """A request to restart a connector and, optionally, its tasks (KIP-745)."""
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return (RESTART + request.connector).encode(), dumps(value)


def task_count(connector: ConnectorName, count: int) -> KeyValue:
    """The number of task producers that a later round of fencing has to fence (KIP-618)."""
    return (TASK_COUNT + connector).encode(), dumps({"task-count": count})


def session_key(key: SessionKey) -> KeyValue:
    """The key that signs requests between workers (KIP-507)."""
    text = base64.b64encode(key.key).decode()
    value = {"key": text, "algorithm": key.algorithm, "creation-timestamp": key.created_ms}
    return SESSION_KEY.encode(), dumps(value)


def logger_level(namespace: str, level: str) -> KeyValue:
    """A logger's level on all workers (KIP-976)."""
    return (LOGGER + namespace).encode(), dumps({"level": level})


def parse_task_id(text: str) -> ConnectorTaskId | None:
    """Parses `name-0`: the number follows the last dash; None if it has none."""
    connector, dash, number = text.rpartition("-")
    task = parse_int(number)
    return ConnectorTaskId(ConnectorName(connector), task) if dash and task is not None else None


def parse_int(text: str) -> int | None:
    """Parses a number like Java's Integer.parseInt: digits with at most one sign; None where that would throw."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not digits.isdecimal() or len(significant := digits.lstrip("0") or "0") > _INT_DIGITS:
        return None
    number = int(sign + significant)
    return number if -(2**31) <= number < 2**31 else None
