"""Parses a worker's responses into shapes that the commands can rely on. A response may be anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heeler.cli.client.rest_client import ConnectClient, UnexpectedResponseError
from spark_tasks.errors import json_kind

_ADDRESS = re.compile(r"[\w.-]+:\d{1,5}|\[[\da-f:]+\]:\d{1,5}", re.IGNORECASE)


def as_object(value: Any, what: str) -> dict[str, Any]:
    """The value, which is a JSON object. Raises UnexpectedResponseError."""
    if not isinstance(value, dict):
        raise _unexpected(what, "an object", value)
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """The value, which is a JSON array. Raises UnexpectedResponseError."""
    if not isinstance(value, list):
        raise _unexpected(what, "a list", value)
    return value


def as_count(value: Any, what: str) -> int:
    """The value, which is a whole number; 0 for null. Raises UnexpectedResponseError."""
    if value is None:
        return 0
    if not isinstance(value, int):
        raise _unexpected(what, "a number", value)
    return value


def as_config(value: Any, what: str) -> dict[str, str]:
    """A connector's configuration: an object with strings as values. Keys with null, which older workers of Java
    accept, are left out. Raises UnexpectedResponseError.
    """
    config = {key: item for key, item in as_object(value, what).items() if item is not None}
    if not all(isinstance(item, str) for item in config.values()):
        raise _unexpected(what, "an object of strings", next(v for v in config.values() if not isinstance(v, str)))
    return config


def as_text(value: Any) -> str:
    """A string or number as text; empty for null; what it is for anything else."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else f"({json_kind(value)})"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """A connector (`task` is None) or one of its tasks."""

    task: int | None
    state: str
    worker: str
    trace: str
    restarts: str = ""  # automatic restarts (errors.restart.policy), as text; only from heeler's workers
    stalled: str = ""  # since when and why it makes no progress, then the stack trace; only from heeler's workers

    @property
    def problem(self) -> str:
        """Its failure or stall in one line; empty if there is none."""
        return self.trace.strip().partition("\n")[0] or self.stalled.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class ConnectorOverview:
    """The response of GET /connectors/{c}/status."""

    name: str
    kind: str
    connector: InstanceStatus
    tasks: tuple[InstanceStatus, ...]

    def __iter__(self) -> Iterator[InstanceStatus]:
        """The connector, then its tasks."""
        yield self.connector
        yield from self.tasks

    @property
    def failed(self) -> bool:
        """Whether the connector or a task has failed."""
        return any(part.state == "FAILED" for part in self)

    @property
    def stalled(self) -> bool:
        """Whether the connector or a task makes no progress."""
        return any(part.stalled for part in self)

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return sum(part.state == "RUNNING" for part in self.tasks)


def as_status(value: Any) -> ConnectorOverview:
    """Parses a status. Raises UnexpectedResponseError."""
    what = "a connector's status"
    fields = as_object(value, what)
    connector = _part(as_object(fields.get("connector"), what), None, fields)
    tasks = [as_object(task, what) for task in as_list(fields.get("tasks"), what)]
    if not all(isinstance(task.get("id"), int) for task in tasks):
        raise UnexpectedResponseError(f"The response for {what} has a task whose id is not a number.")
    parts = tuple(_part(task, task["id"], task) for task in tasks)
    return ConnectorOverview(as_text(fields.get("name")), as_text(fields.get("type")), connector, parts)


def workers(client: ConnectClient, statuses: Iterable[ConnectorOverview]) -> list[str]:
    """The URLs of the client's workers, and of the workers that the statuses name."""
    scheme = client.url.partition("://")[0]
    named = {part.worker for status in statuses for part in status if _ADDRESS.fullmatch(part.worker)}
    return list(dict.fromkeys([*client.urls, *(f"{scheme}://{worker}" for worker in sorted(named))]))


def expanded(value: Any) -> Mapping[str, Mapping[str, Any]]:
    """The response of GET /connectors?expand=…: objects by connector name. Raises UnexpectedResponseError."""
    what = "the list of connectors"
    return {name: as_object(parts, what) for name, parts in sorted(as_object(value, what).items())}


def _part(fields: Mapping[str, Any], task: int | None, extended: Mapping[str, Any]) -> InstanceStatus:
    """`extended`: the object that has heeler's own fields."""
    state, worker, trace = (as_text(fields.get(name)) for name in ("state", "worker_id", "trace"))
    restarts, stalled = _restarts(extended.get("restarts")), _stalled(extended.get("stalled"))
    return InstanceStatus(task, state, worker, trace, restarts, stalled)


def _restarts(fields: Any) -> str:
    """The number of automatic restarts, the time of the next one, and the reason."""
    if not isinstance(fields, dict):
        return ""
    words = as_text(fields.get("count"))
    if fields.get("permanent") is True:
        words += ", no more: a restart cannot fix this"
    elif fields.get("next_attempt") is not None:
        words += f", next at {as_text(fields['next_attempt'])}"
    return f"{words}; {as_text(fields.get('cause'))}"


def _stalled(fields: Any) -> str:
    """Since when it makes no progress, what it is doing, and the stack trace of where it hangs."""
    if not isinstance(fields, dict):
        return ""
    return f"stalled since {as_text(fields.get('since'))}: {as_text(fields.get('what'))}".strip()


def _unexpected(what: str, expected: str, value: Any) -> UnexpectedResponseError:
    return UnexpectedResponseError(f"The response for {what} is not {expected} but {json_kind(value)}. Is that a "
                                   "Kafka Connect worker?")
