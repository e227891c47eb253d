"""The purpose, parameters and responses of each endpoint. Paths and methods come from the application (document.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rest.openapi.schemas import ANY, NUMBER, TEXT, Schema, listed, mapped, ref

_FLAG: Final[Schema] = {"type": "boolean", "default": False}
_REBALANCE = "A rebalance is in progress or needed: try again soon"
_NO_CONNECTOR = "The connector does not exist"
_REFUSED = "The request is invalid; the message says why"


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter in the query."""

    name: str
    about: str
    schema: Schema = field(default_factory=lambda: TEXT)


@dataclass(frozen=True, slots=True)
class Response:
    """The meaning of a status; `schema` None: no body. `media`: the media type of the body."""

    about: str
    schema: Schema | None = None
    media: str = "application/json"


def _error(about: str) -> Response:
    return Response(about, ref("Error"))


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of a path. `body`: the schema of the request's body."""

    about: str
    responses: Mapping[int, Response]
    query: Sequence[Query] = ()
    body: Schema | None = None


_HTTP = {400: _error(_REFUSED), 413: _error("The body is larger than heeler.rest.max.body.bytes"),
         415: _error("The body is not application/json"), 503: _error("The worker is shutting down")}
_NOT_ACCEPTABLE = {406: _error("Accept does not allow application/json")}
_FAILED = {500: _error("The request failed or timed out; the message says why, or what the worker is doing")}
_STARTING = {404: _error("The worker has not connected to Kafka yet"), **_FAILED}
_OF_A_CONNECTOR = {404: _error(_NO_CONNECTOR), **_FAILED}
_CHANGE = {400: _error(_REFUSED), 404: _error(_NO_CONNECTOR), 409: _error(_REBALANCE), **_FAILED}


def _get(about: str, schema: Schema) -> Operation:
    return Operation(about, {200: Response(about, schema), **_OF_A_CONNECTOR})


OPERATIONS: Final[Mapping[str, Operation]] = {
    "root.server_info": Operation("Version and Kafka cluster.", {
        200: Response("The worker", ref("Worker")), **_STARTING}),
    "root.health": Operation("Whether the worker is ready for requests (KIP-1017).", {
        200: Response("It is ready", ref("Health")),
        503: Response("It is starting or shutting down", {"oneOf": [ref("Health"), ref("Error")]}),
        500: Response("The herder does not respond", ref("Health"))}),
    "metrics.metrics": Operation("Metrics for Prometheus.", {
        200: Response("Metrics in Prometheus' text format", TEXT, "text/plain"), 400: _error(_REFUSED), **_FAILED},
        (Query("names", "Metrics with Kafka Connect's names (java), heeler's, or both: java,heeler."),)),
    "openapi.document": Operation("This document.", {200: Response("OpenAPI 3.0", {"type": "object"})}),
    "openapi.page": Operation("This document as a page.", {200: Response("HTML", TEXT, "text/html")}),
    "connectors.list_connectors": Operation("Names of all connectors.", {
        200: Response("Names; with `expand`, an object with names as keys",
                    {"oneOf": [listed(TEXT), mapped(mapped(ANY))]}),
        **_STARTING},
        (Query("expand", "What to show for each connector; may be repeated.",
               listed({"type": "string", "enum": ["status", "info"]})),)),
    "connectors.create": Operation("Create a connector.", {
        201: Response("It was created", ref("Connector")), **_CHANGE,
        409: _error(f"It already exists. {_REBALANCE}")}, body=ref("NewConnector")),
    "connectors.describe": _get("A connector.", ref("Connector")),
    "connectors.delete": Operation("Delete a connector.", {204: Response("It was deleted"), **_CHANGE}),
    "connectors.get_config": _get("A connector's configuration.", ref("Config")),
    "connectors.put_config": Operation("Create a connector, or replace its configuration.", {
        200: Response("It was changed", ref("Connector")),
        201: Response("It was created", ref("Connector")), **_CHANGE},
        body=ref("Config")),
    "connectors.patch_config": Operation("Change some keys of a configuration (KIP-477).", {
        200: Response("It was changed", ref("Connector")), **_CHANGE}, body=ref("Config")),
    "connectors.status": _get("The states of a connector and its tasks.", ref("ConnectorStatus")),
    "connectors.tasks": _get("A connector's tasks with their configurations.", listed(ref("Task"))),
    "connectors.task_status": _get("A task's state.", ref("TaskStatus")),
    "lifecycle.pause": Operation("Pause a connector and its tasks.", {202: Response("It will be paused"), **_CHANGE}),
    "lifecycle.resume": Operation("Resume a paused or stopped connector.", {
        202: Response("It will resume"), **_CHANGE}),
    "lifecycle.stop": Operation("Stop a connector and remove its tasks until it is resumed (KIP-875).", {
        204: Response("It will stop"), **_CHANGE}),
    "lifecycle.restart": Operation("Restart a connector and, if requested, its tasks (KIP-745).", {
        202: Response("Restart accepted; affected connectors and tasks are RESTARTING", ref("ConnectorStatus")),
        204: Response("The connector's instance will restart, without its tasks"), **_CHANGE},
        (Query("includeTasks", "Restart its tasks too.", _FLAG),
         Query("onlyFailed", "Restart only the connector and tasks that have failed.", _FLAG))),
    "lifecycle.restart_task": Operation("Restart a task.", {204: Response("It will restart"), **_CHANGE}),
    "offsets.get_offsets": _get("A connector's offsets (KIP-875).", ref("Offsets")),
    "offsets.alter": Operation("Set offsets of a stopped connector; null deletes one.", {
        200: Response("They were set", ref("Message")), **_CHANGE}, body=ref("Offsets")),
    "offsets.reset": Operation("Delete all offsets of a stopped connector.", {
        200: Response("They were deleted", ref("Message")), **_CHANGE}),
    "dead_letters.replay": Operation("Replay the dead letter queue to the connector.", {
        202: Response("The replay has started; GET returns its progress", ref("ReplayProgress")), **_CHANGE,
        409: _error("A replay is already running, or the connector's first task is not running yet: try again later")},
        body=ref("Replay")),
    "dead_letters.progress": Operation("Progress of the last replay of dead letters.", {
        200: Response("Progress", ref("ReplayProgress")), **_CHANGE,
        404: _error("The connector does not exist, or its first task has replayed nothing since it started")}),
    "topics.topics": Operation("Topics that a connector has used (KIP-558).", {
        200: Response("Topics", ref("Topics")), 403: _error("topic.tracking.enable is false"), **_STARTING}),
    "topics.reset": Operation("Forget the topics that a connector has used.", {
        202: Response("The topics will be cleared"), 403: _error("topic.tracking.allow.reset is false"), **_STARTING}),
    "plugins.list_plugins": Operation("Installed plugins.", {
        200: Response("Plugins", listed(ref("Plugin"))), **_STARTING},
        (Query("connectorsOnly", "Leave out converters, transforms and predicates.",
               {"type": "boolean", "default": True}),)),
    "plugins.plugin_config": Operation("A plugin's configuration keys (KIP-769).", {
        200: Response("Keys", listed(ref("ConfigKey"))),
        400: _error(f"{_REFUSED}, for example that no installed version matches"),
        404: _error("The plugin does not exist"), **_FAILED}, (Query("version", "A version or a range (KIP-891)."),)),
    "plugins.validate": Operation("Check a configuration without creating anything.", {
        200: Response("Every key with its errors", ref("Validation")), 400: _error(_REFUSED), **_STARTING},
        body=ref("Config")),
    "trial.try_config": Operation("Run a few records through a connector's configuration; nothing is kept.", {
        200: Response("The records before and after each stage", ref("TrialResult")), 400: _error(_REFUSED),
        409: _error("Other trials are running on this worker; try again later"), **_STARTING}, body=ref("Trial")),
    "internal.put_task_configs": Operation("Internal, between workers: send task configurations to the leader.", {
        204: Response("They were written"), 403: _error("The signature is wrong"), **_CHANGE},
        (Query("forward", "Whether it may be forwarded again.", _FLAG),), listed(ref("Config"))),
    "internal.fence": Operation("Internal, between workers: fence the producers of former tasks (KIP-618).", {
        204: Response("They were fenced"), 403: _error("The signature is wrong"), **_CHANGE},
        (Query("forward", "Whether it may be forwarded again.", _FLAG),)),
    "loggers.list_loggers": Operation("Loggers whose level was set (KIP-495).", {
        200: Response("Levels by logger", mapped(ref("LoggerLevel"))), **_STARTING}),
    "loggers.get_logger": Operation("A logger's level.", {
        200: Response("The level", ref("LoggerLevel")), 404: _error("The logger does not exist"), **_FAILED}),
    "loggers.set_level": Operation("Set the level of a logger and those below it (KIP-976).", {
        200: Response("The loggers that changed", listed(TEXT)), 204: Response("The level will be set on all workers"),
        400: _error(_REFUSED), 404: _error("The level does not exist"), **_FAILED},
        (Query("scope", "Set it on this worker, or on all (cluster).",
               {"type": "string", "enum": ["worker", "cluster"]}),),
        ref("NewLevel")),
    "story.story": _get("What happened to a connector on this worker, and why.", ref("Story")),
    "logs.logs": Operation("The last lines of this worker's log about a connector.", {
        200: Response("Lines, oldest first", ref("Logs")), 400: _error(_REFUSED), **_OF_A_CONNECTOR},
        (Query("lines", "The number of lines, at most 200.", {**NUMBER, "minimum": 1}),)),
}


def responses_of(endpoint: str) -> Mapping[int, Response]:
    """The responses of an endpoint, with the errors of the HTTP server and its rules. KeyError for an unknown one."""
    own = OPERATIONS[endpoint].responses
    other_media = (any(response.media != "application/json" for response in own.values())
                   or endpoint == "openapi.document")
    return {**_HTTP, **({} if other_media else _NOT_ACCEPTABLE), **own}
