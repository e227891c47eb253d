"""The bodies of responses, built by plain functions: GET /connectors?expand=… builds hundreds of them per request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from flask import Response, request

from actors.errors import NotFoundError
from actors.messages.requests import ConnectorInfo, ConnectorStateInfo, Created, TaskInfo
from rest.forwarding import Remote
from rest.json_text import dumps, plain
from rest.wire.worker_view import ShownLevel, ShownPlugin, WorkerView
from spark_tasks.config.auto_tasks import as_put
from storage.ids import ConnectorName, ConnectorTaskId
from storage.status.state import Status

# As in Kafka Connect's addresses. It also leaves `;` and `/`, which then do not lead back to the connector.
_PLAIN_IN_PATHS = ":,=&+'()@!*$~"
UNDEFINED_VERSION = "undefined"  # Kafka Connect writes this for a plugin without a version, and does not show it


def json_response(value: Any, status: int = 200) -> Response:
    """A response with a JSON body."""
    return Response(dumps(value), status, mimetype="application/json")


def no_body(status: int) -> Response:
    """A response without a body."""
    response = Response(status=status)
    del response.headers["Content-Type"]
    return response


def created_response(view: WorkerView, outcome: Created | Remote) -> Response:
    """201 with the new connector's address, or 200 if it existed already; also for another worker's response."""
    body = changed_info(view, outcome)
    if not (outcome.status == 201 if isinstance(outcome, Remote) else outcome.created):
        return json_response(body)
    response = json_response(body, 201)
    response.headers["Location"] = f"{request.host_url}connectors/{quote(str(body['name']), safe=_PLAIN_IN_PATHS)}"
    return response


def changed_info(view: WorkerView, outcome: Created | Remote) -> dict[str, Any]:
    """A connector that was created or changed; also from another worker, which may be Java's."""
    if not isinstance(outcome, Remote):
        return connector_info(view, outcome.info)
    body: dict[str, Any] = outcome.body
    return {**body, "config": as_put(body["config"])} if "config" in body else body


def connector_info(view: WorkerView, info: ConnectorInfo) -> dict[str, Any]:
    """A connector with its config."""
    kind = view.connector_type(info.config)
    return {"name": info.name, "config": as_put(info.config), "tasks": _task_ids(info.tasks), "type": kind}


def task_info(info: TaskInfo) -> dict[str, Any]:
    """A task with its config."""
    return {"id": {"connector": info.id.connector, "task": info.id.task}, "config": info.config}


def state_info(view: WorkerView, info: ConnectorStateInfo) -> dict[str, Any]:
    """The response to a restart request: a connector's status with its tasks'."""
    tasks = {status.id.task: status for status in info.tasks if isinstance(status.id, ConnectorTaskId)}
    kind = view.connector_type(view.config.connector_configs.get(info.name))
    return _states(info.name, info.connector, tasks, kind)


def status_of(view: WorkerView, name: ConnectorName) -> dict[str, Any]:
    """A connector's status from the status topic. Raises NotFoundError."""
    statuses = view.statuses
    status = statuses.connectors.get(name)
    if status is None:
        raise NotFoundError(f"No status found for connector {name}")
    kind = view.connector_type(view.config.connector_configs.get(name))
    tasks = statuses.tasks.get(name, {})
    shown = _states(name, status, tasks, kind)
    shown |= _extensions(status)  # clients such as AKHQ's read "connector" as a map of strings
    for task in shown["tasks"]:
        task.update(_extensions(tasks[task["id"]]))
    return shown


def task_status_of(view: WorkerView, task: ConnectorTaskId) -> dict[str, Any]:
    """A task's status. Raises NotFoundError."""
    status = view.statuses.tasks.get(task.connector, {}).get(task.task)
    if status is None:
        raise NotFoundError(f"No status found for task {task}")
    return {"id": task.task, **_state(status), **_extensions(status)}


def info_of(view: WorkerView, name: ConnectorName) -> dict[str, Any]:
    """A connector from the config topic. Raises NotFoundError."""
    snapshot = view.config
    config = snapshot.connector_configs.get(name)
    if config is None:
        raise NotFoundError(f"Connector {name} not found")
    kind = view.connector_type(config)
    return {"name": name, "config": as_put(config), "tasks": _task_ids(snapshot.tasks(name)), "type": kind}


def plugin_info(plugin: ShownPlugin) -> dict[str, Any]:
    """An installed plugin. `runtime` and `passed_over` are extensions, if both heeler and Java have this class."""
    shown: dict[str, Any] = {"class": plugin.class_name, "type": plugin.kind, **_version(plugin.version)}
    if plugin.passed_over:
        shown["runtime"] = plugin.runtime
        shown["passed_over"] = [{"runtime": one.runtime, **_version(one.version), "location": one.location}
                                for one in plugin.passed_over]
    return shown


def _version(version: str | None) -> dict[str, str]:
    return {} if version is None or version == UNDEFINED_VERSION else {"version": version}


def logger_level(level: ShownLevel) -> dict[str, Any]:
    """A logger's level."""
    return {"level": level.level, "last_modified": level.last_modified_ms}


def offsets(pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> dict[str, Any]:
    """Offsets by partition (KIP-875)."""
    return {"offsets": [{"partition": plain(partition), "offset": plain(offset)} for partition, offset in pairs]}


def _task_ids(tasks: Iterable[ConnectorTaskId]) -> list[dict[str, Any]]:
    return [{"connector": task.connector, "task": task.task} for task in tasks]


def _states(name: str, connector: Status, tasks: Mapping[int, Status], kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "connector": _state(connector),
        "tasks": [{"id": number, **_state(tasks[number])} for number in sorted(tasks)],
        "type": kind,
    }


def _extensions(status: Status) -> dict[str, Any]:
    """The fields `restarts` and `stalled`, if there were automatic restarts or it has stalled. The response to a
    restart request does not contain them: a Java worker that forwards it refuses unknown fields.
    """
    shown: dict[str, Any] = {}
    if (restarts := status.restarts) is not None:
        shown["restarts"] = {"count": restarts.count, "cause": restarts.cause}
        if restarts.permanent:
            shown["restarts"]["permanent"] = True
        if restarts.next_ms is not None:
            shown["restarts"]["next_attempt"] = instant(restarts.next_ms)
    if (stalled := status.stalled) is not None:
        shown["stalled"] = {"since": instant(stalled.since_ms), "what": stalled.what}
    return shown


def instant(ms: int) -> str:
    """A time (ms since 1970) in ISO 8601 and UTC; milliseconds only if they are not 0."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{ms % 1000:03d}Z" if ms % 1000 else f"{moment}Z"


def _state(status: Status) -> dict[str, Any]:
    shown: dict[str, Any] = {"state": status.state.value, "worker_id": status.worker_id}
    if status.version != UNDEFINED_VERSION:
        shown["version"] = status.version
    if status.trace:
        shown["trace"] = status.trace
    return shown
