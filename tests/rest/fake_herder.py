"""A worker in memory that keeps the contract of actors/messages.py: enough for REST to be tested without a cluster.

It does at once what a herder does in its turn. Where it should belong to another worker, `redirect` says so.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pykka

from actors.errors import (
    AlreadyExistsError,
    BadRequestError,
    NotFoundError,
    RequestRefusedError,
)
from actors.messages import (
    AlterOffsets,
    ConnectorInfo,
    ConnectorStateInfo,
    Created,
    DeleteConnector,
    FenceZombies,
    GetConnector,
    GetOffsets,
    GetTaskConfigs,
    HealthCheck,
    PatchConnector,
    PutConnector,
    PutTaskConfigs,
    Request,
    ResetTopics,
    RestartConnectorAndTasks,
    RestartConnectorOnly,
    RestartTask,
    SetClusterLoggerLevel,
    SetTargetState,
    Signature,
    Stage,
    StopConnectorRequest,
    StoreRequest,
    TaskInfo,
    ValidateConfig,
)
from rest.view import ConnectorType, LoggerLevel, PluginInfo
from spark_tasks.errors import ConnectError
from storage.config_state import ClusterConfigState, SessionKey
from storage.ids import Config, ConnectorName, ConnectorTaskId, State, TargetState, TopicName, WorkerId
from storage.status import Status, StatusState, TopicStatus

WORKER = WorkerId("worker:8083")
VERSION = "4.3.1"
KEY = SessionKey(b"0123456789abcdef0123456789abcdef", "HmacSHA256", 0)
FILE = "org.apache.kafka.connect.file."
CLASSES = {
    name: (FILE + f"FileStream{kind}Connector", kind.lower())
    for kind in ("Source", "Sink")
    for name in (f"FileStream{kind}", f"FileStream{kind}Connector", FILE + f"FileStream{kind}Connector")
}
STATES = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}


class FakeLoggers:
    """Loggers in memory; the clock ticks with each change."""

    def __init__(self) -> None:
        self._levels: dict[str, LoggerLevel] = {}
        self._now = 1_800_000_000_000

    def levels(self) -> Mapping[str, LoggerLevel]:
        return self._levels

    def level(self, name: str) -> LoggerLevel | None:
        return self._levels.get(name)

    def set_level(self, namespace: str, level: str) -> Sequence[str]:
        self._now += 1
        names = {namespace, *(name for name in self._levels if name.startswith(namespace + "."))}
        changed = sorted(n for n in names if n not in self._levels or self._levels[n].level != level)
        self._levels.update({name: LoggerLevel(level, self._now) for name in changed})
        return changed


def validation_key(config: Mapping[str, Any]) -> str:
    """A config as a key."""
    return repr(sorted(config.items(), key=lambda item: item[0]))


@dataclass
class FakeWorker:
    """Both sides that REST sees of a worker: `ask` and the WorkerView."""

    config: ClusterConfigState = field(default_factory=lambda: ClusterConfigState(session_key=KEY))
    statuses: StatusState = field(default_factory=StatusState)
    stage: Stage | None = field(default_factory=lambda: Stage("polling the group coordinator", 1_800_000_000_123))
    started: bool = True
    kafka_cluster_id: str | None = "JId2V5dhQHe2u3B2X0FV4g"
    version: str = VERSION
    commit: str = "26b251a451ce941d"
    loggers: FakeLoggers = field(default_factory=FakeLoggers)
    installed: tuple[PluginInfo, ...] = ()
    key_definitions: dict[str, Any] = field(default_factory=dict)
    validations: dict[str, Any] = field(default_factory=dict)
    offsets: dict[ConnectorName, dict[str, tuple[Any, Any]]] = field(default_factory=dict)
    asked: list[Request | StoreRequest] = field(default_factory=list)
    redirect: Exception | None = None
    silent: bool = False

    # ---- WorkerView
    def connector_type(self, config: Config | None) -> ConnectorType:
        found = CLASSES.get((config or {}).get("connector.class", ""))
        return found[1] if found else "unknown"  # type: ignore[return-value]

    def plugins(self) -> Sequence[PluginInfo]:
        return self.installed

    def plugin_config(self, name: str, version: str | None) -> Sequence[Mapping[str, Any]]:
        known = CLASSES.get(name, (name, ""))[0]
        if known not in self.key_definitions:
            raise NotFoundError(f"Unknown plugin {name}.")
        if version not in {None, VERSION}:
            raise BadRequestError(f"Plugin {known} not found that matches the version range [{version},{version}], "
                                  f"available versions: [{VERSION}, {VERSION}]")
        return self.key_definitions[known]

    # ---- the herder
    def ask(self, request: Request | StoreRequest) -> pykka.Future[Any]:
        self.asked.append(request)
        future: pykka.Future[Any] = pykka.ThreadingFuture()
        if self.silent:
            return future
        try:
            if self.redirect is not None:
                raise self.redirect
            future.set(self._serve(request))
        except Exception as error:
            future.set_exception((type(error), error, error.__traceback__))
        return future

    def _serve(self, request: Request | StoreRequest) -> Any:
        match request:
            case HealthCheck():
                return None
            case ValidateConfig(config):
                return self._validation(config)
            case PutConnector():
                return self._put(request)
            case PatchConnector(name, patch):
                self._known(name)
                merged = {**self.config.connector_configs[name], **patch}
                config = {key: value for key, value in merged.items() if value is not None}
                return self._put(PutConnector(name, config, replace=True))
            case SetClusterLoggerLevel(namespace, level):
                self.loggers.set_level(namespace, level)
                return None
            case ResetTopics(name):
                self._topics(name, {})
                return None
            case PutTaskConfigs(name, _, signature) | FenceZombies(name, signature):
                self._verify(signature)
                self._known(name)
                return None
            case SetTargetState(name) | StopConnectorRequest(name):
                self._known(name, "Unknown connector {}")
                state = request.state if isinstance(request, SetTargetState) else TargetState.STOPPED
                self._set(name, self.config.connector_configs[name], state)
                return None
            case RestartConnectorOnly() | RestartConnectorAndTasks() | RestartTask():
                return self._restart(request)
            case _:
                return self._serve_known(request)

    def _serve_known(self, request: Any) -> Any:
        name = request.connector
        self._known(name)
        match request:
            case GetConnector():
                return self._info(name)
            case GetTaskConfigs():
                return [TaskInfo(task, self.config.task_configs[task]) for task in self.config.tasks(name)]
            case DeleteConnector():
                self._remove(name)
                return None
            case GetOffsets():
                return [pair for pair in self.offsets.get(name, {}).values() if pair[1] is not None]
            case AlterOffsets(offsets=offsets):
                return self._alter(name, offsets)
        raise AssertionError(request)

    def _known(self, name: str, text: str = "Connector {} not found") -> None:
        if not self.config.contains(ConnectorName(name)):
            raise NotFoundError(text.format(name))

    def _info(self, name: ConnectorName) -> ConnectorInfo:
        config = self.config.connector_configs[name]
        return ConnectorInfo(name, config, tuple(self.config.tasks(name)), self.connector_type(config))

    def _put(self, request: PutConnector) -> Created:
        self._check(request.config)
        name, exists = request.connector, self.config.contains(request.connector)
        if exists and not request.replace:
            raise AlreadyExistsError(f"Connector {name} already exists")
        before = self._info(name).tasks if exists else ()
        state = request.initial_state or self.config.target_states.get(name, TargetState.STARTED)
        self._set(name, request.config, state)
        info = ConnectorInfo(name, request.config, before, self.connector_type(request.config))
        return Created(not exists, info)

    def _set(self, name: ConnectorName, config: Config, target: TargetState) -> None:
        if None in config.values():  # Java's worker takes such a config and cannot start it
            self._report(name, State.FAILED, 0)
            target = TargetState.STOPPED
        count = {TargetState.STARTED: 1, TargetState.STOPPED: 0}.get(target, self.config.task_count(name))
        tasks = [ConnectorTaskId(name, number) for number in range(count)]
        more = {"task.class": FILE + "FileStreamSourceTask"}
        self.config = replace(
            self.config,
            connector_configs={**self.config.connector_configs, name: config},
            target_states={**self.config.target_states, name: target},
            task_counts={**self.config.task_counts, name: count},
            task_configs={**self.config.task_configs, **{task: {**config, **more} for task in tasks}})
        self._report(name, STATES[target], count)

    def _report(self, name: ConnectorName, state: State, tasks: int) -> None:
        statuses = {n: Status(ConnectorTaskId(name, n), state, WORKER, 1, version=VERSION) for n in range(tasks)}
        self.statuses = replace(
            self.statuses,
            connectors={**self.statuses.connectors, name: Status(name, state, WORKER, 1, version=VERSION)},
            tasks={**self.statuses.tasks, name: statuses})

    def _remove(self, name: ConnectorName) -> None:
        def without(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
            return {key: value for key, value in mapping.items() if key != name}

        self.config = replace(
            self.config, connector_configs=without(self.config.connector_configs),
            target_states=without(self.config.target_states), task_counts=without(self.config.task_counts))
        self.statuses = replace(
            self.statuses, connectors=without(self.statuses.connectors), tasks=without(self.statuses.tasks))

    def _topics(self, name: ConnectorName, topics: Mapping[TopicName, TopicStatus]) -> None:
        self.statuses = replace(self.statuses, topics={**self.statuses.topics, name: topics})

    def _restart(self, request: Any) -> ConnectorStateInfo | None:
        if isinstance(request, RestartTask):
            self._known(request.task.connector, "Unknown connector: {}")
            if request.task not in self.config.tasks(request.task.connector):
                raise NotFoundError(f"Unknown task: {request.task}")
            return None
        name = request.connector if isinstance(request, RestartConnectorOnly) else request.request.connector
        self._known(name, "Unknown connector: {}")
        if isinstance(request, RestartConnectorOnly):
            return None
        connector, tasks = self.statuses.connectors[name], self.statuses.tasks[name].values()
        if not request.request.only_failed:
            connector = replace(connector, state=State.RESTARTING)
            if request.request.include_tasks:
                tasks = [replace(task, state=State.RESTARTING) for task in tasks]
        kind = self.connector_type(self.config.connector_configs[name])
        return ConnectorStateInfo(name, connector, tuple(tasks), kind)

    def _verify(self, signature: Signature | None) -> None:
        if signature is None:
            raise RequestRefusedError("Internal request missing required signature", 400)
        if signature.algorithm != KEY.algorithm:
            raise RequestRefusedError(
                f"This worker does not support the '{signature.algorithm}' key signing algorithm used by other workers. "
                "This worker is currently configured to use: [HmacSHA256]. Check that all workers' configuration files "
                "permit the same set of signature algorithms, and correct any misconfigured worker and restart it.", 400)
        if hmac.new(KEY.key, signature.body, hashlib.sha256).digest() != signature.signature:
            raise RequestRefusedError("Internal request contained invalid signature.", 403)

    # ---- what the file connectors' plugins would say
    def _validation(self, config: Config) -> Any:
        self._class(config)
        return self.validations[validation_key(config)]

    def _class(self, config: Config) -> str:
        if "connector.class" not in config:
            shown = ", ".join(f"{key}={'null' if value is None else value}" for key, value in sorted(
                config.items(), key=lambda item: item[0] != "name"))
            raise BadRequestError(f"Connector config {{{shown}}} contains no connector type")
        if config["connector.class"] not in CLASSES:
            raise BadRequestError("Failed to find any class that implements Connector and which name matches "
                                  f"{config['connector.class']}, available connectors are: …")
        return CLASSES[config["connector.class"]][1]

    def _check(self, config: Config) -> None:
        kind = self._class(config)
        errors = []
        name = config.get("name", "")
        if not name:
            errors.append(f"Invalid value {name} for configuration name: String may not be empty")
        if re.search(r"[\x00-\x1f]", name):
            errors.append(f"Invalid value {name} for configuration name: String may not contain control sequences but "
                          f"had the following ASCII chars: {', '.join(str(ord(c)) for c in name if ord(c) < 32)}")
        if config.get("tasks.max", "1") == "0":
            errors.append("Invalid value 0 for configuration tasks.max: Value must be at least 1")
        if kind == "source" and "topic" not in config:
            errors.append('Missing required configuration "topic" which has no default value.')
        if kind == "sink" and "topics" not in config:
            errors += ["Must configure one of topics or topics.regex"] * 2
        if not (config.get("batch.size") or "1").isdigit():
            errors.append(f"Invalid value {config['batch.size']} for configuration batch.size: Not a number of type INT")
        if errors:
            lines = "\n".join(errors)
            raise BadRequestError(
                f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{lines}\n"
                "You can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`")

    def _alter(self, name: ConnectorName, offsets: Any) -> str:
        if self.config.target_state(name) is not TargetState.STOPPED:
            raise BadRequestError(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint")
        if offsets is None:
            self.offsets.pop(name, None)
            return "The offsets for this connector have been reset successfully"
        for partition, offset in offsets:
            if self.connector_type(self.config.connector_configs[name]) == "sink":
                _check_sink_offset(partition, offset)
            elif offset is not None and not isinstance(offset.get("position"), int):
                raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
            self.offsets.setdefault(name, {})[repr(partition)] = (partition, offset)
        return "The offsets for this connector have been altered successfully"


def _check_sink_offset(partition: Any, offset: Any) -> None:
    if partition is None:
        raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
    if not {"kafka_topic", "kafka_partition"} <= partition.keys():
        raise BadRequestError("The partition for a sink connector offset must contain the keys 'kafka_topic' and "
                              "'kafka_partition'")
    if partition["kafka_topic"] is None:
        raise BadRequestError("Kafka topic names must be valid strings and may not be null")
    if not str(partition["kafka_partition"]).isdigit():
        raise BadRequestError("Failed to parse the following Kafka partition value in the provided offsets: "
                              f"'{partition['kafka_partition']}'. Partition values for sink connectors need to be "
                              "integers.")
    if offset is not None and "kafka_offset" not in offset:
        raise BadRequestError("The offset for a sink connector should either be null or contain the key "
                              "'kafka_offset'")
    if offset is not None and not str(offset["kafka_offset"]).isdigit():
        raise BadRequestError("Failed to parse the following Kafka offset value in the provided offsets: "
                              f"'{offset['kafka_offset']}'. Offset values for sink connectors need to be integers.")
