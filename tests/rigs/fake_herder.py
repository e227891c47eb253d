"""A worker in memory that keeps the contract of actors/messages: enough to test REST without a cluster.

It does at once what a herder does in its turn. If something belongs to another worker, `redirect` names that worker.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pykka

from actors.errors import (
    AlreadyExistsError,
    BadRequestError,
    NotFoundError,
    RequestRefusedError,
)
from actors.messages.requests import (
    AlterOffsets,
    ConnectorInfo,
    ConnectorStateInfo,
    Created,
    DeleteConnector,
    FenceZombies,
    GetConnector,
    GetOffsets,
    GetStory,
    GetTaskConfigs,
    HealthCheck,
    PatchConnector,
    PutConnector,
    PutTaskConfigs,
    ReplayDeadLetters,
    Request,
    RequestStage,
    ResetTopics,
    RestartConnectorAndTasks,
    RestartConnectorOnly,
    RestartTask,
    SetClusterLoggerLevel,
    SetTargetState,
    Signature,
    StopConnectorRequest,
    StoreRequest,
    StoryEntry,
    TaskInfo,
    ValidateConfig,
)
from heeler.worker.loggers import LoggerLevel
from rest.wire.worker_view import ConnectorType
from spark_tasks.config.auto_tasks import as_put, stored
from spark_tasks.errors import ConnectError
from spark_tasks.plugins import PluginInfo
from storage.config.state import ClusterConfigState, SessionKey
from storage.ids import Config, ConnectorName, ConnectorTaskId, State, TargetState, TopicName, WorkerId
from storage.status.state import Status, StatusState, TopicStatus
from tests.rigs.fake_plugins import CLASSES, FILE, check_config, check_sink_offset, kind_of, validation_key

WORKER = WorkerId("worker:8083")
VERSION = "4.3.1"
KEY = SessionKey(b"0123456789abcdef0123456789abcdef", "HmacSHA256", 0)
STATES = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}


class FakeLoggers:
    """Loggers in memory; the clock advances with each change."""

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


@dataclass(frozen=True)
class Validated:
    """The result of ValidateConfig."""

    body: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return self.body


@dataclass
class FakeWorker:
    """Both interfaces of a worker that REST uses: `ask` and the WorkerView."""

    config: ClusterConfigState = field(default_factory=lambda: ClusterConfigState(session_key=KEY))
    statuses: StatusState = field(default_factory=StatusState)
    stage: RequestStage | None = field(
        default_factory=lambda: RequestStage("polling the group coordinator", 1_800_000_000_123)
    )
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
    waits: list[int | None] = field(default_factory=list)
    redirect: Exception | None = None
    silent: bool = False
    unanswered: list[pykka.Future[Any]] = field(default_factory=list)  # while it does not respond
    troubles: list[str] = field(default_factory=list)
    patient: list[str] = field(default_factory=list)

    # ---- WorkerView
    def degraded(self) -> Sequence[str]:
        return self.troubles

    def waiting(self) -> Sequence[str]:
        return self.patient

    def metrics(self, names: Collection[str]) -> str:
        return "".join(f"{name} 1\n" for name in names)

    def logs(self, connector: str) -> Sequence[str]:
        return [f"{connector} {n}" for n in range(3)]

    def connector_type(self, config: Config | None) -> ConnectorType:
        found = CLASSES.get((config or {}).get("connector.class", ""))
        return found[1] if found else "unknown"  # type: ignore[return-value]

    def plugins(self) -> Sequence[PluginInfo]:
        return self.installed

    def trial(self, config: Config, records: Sequence[Any] | None, limit: int) -> Mapping[str, Any]:
        return {"stages": [{"stage": "read", "records": [config, records, limit]}]}

    def plugin_config(self, name: str, version: str | None) -> Sequence[Mapping[str, Any]]:
        known = CLASSES.get(name, (name, ""))[0]
        if known not in self.key_definitions:
            raise NotFoundError(f"Unknown plugin {name}.")
        if version not in {None, VERSION}:
            raise BadRequestError(f"Plugin {known} not found that matches the version range [{version},{version}], "
                                  f"available versions: [{VERSION}, {VERSION}]")
        return self.key_definitions[known]

    # ---- the herder
    def ask(self, request: Request | StoreRequest, wait_ms: int | None = None) -> pykka.Future[Any]:
        self.asked.append(request)
        self.waits.append(wait_ms)
        future: pykka.Future[Any] = pykka.ThreadingFuture()
        if self.silent:
            self.unanswered.append(future)
            return future
        if self.redirect is not None:
            future.set_exception((type(self.redirect), self.redirect, None))
            return future
        try:
            future.set(self._serve(request))
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker gets it
            future.set_exception((type(error), error, error.__traceback__))
        return future

    def _serve(self, request: Request | StoreRequest) -> Any:  # noqa: PLR0911 - one for each kind of request
        match request:
            case HealthCheck():
                return None
            case ValidateConfig(config):
                kind_of(config)
                return Validated(self.validations[validation_key(config)])
            case PutConnector():
                return self._put(request)
            case PatchConnector(name, patch):
                self._known(name)
                merged = {**as_put(self.config.connector_configs[name]), **patch}
                config = stored({key: value for key, value in merged.items() if value is not None})
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
            case GetStory():
                return (StoryEntry(1_800_000_000_123, "Validated#2", "RequestReceived#1", "two\nlines", ("Log",)),)
            case GetTaskConfigs():
                return [TaskInfo(task, self.config.task_configs[task]) for task in self.config.tasks(name)]
            case DeleteConnector():
                self._remove(name)
                return None
            case GetOffsets():
                return [pair for pair in self.offsets.get(name, {}).values() if pair[1] is not None]
            case ReplayDeadLetters():
                return {"connector": name, "queue": "q", "dry_run": False, "state": "RUNNING", "scanned": 0,
                        "replayed": 0, "would_replay": 0, "refused_again": 0, "left": 0, "not_replayable": 0}
            case AlterOffsets(offsets=offsets):
                return self._alter(name, offsets)
        raise AssertionError(request)

    def _known(self, name: str, text: str = "Connector {} not found") -> None:
        if not self.config.contains(ConnectorName(name)):
            raise NotFoundError(text.format(name))

    def _info(self, name: ConnectorName) -> ConnectorInfo:
        config = self.config.connector_configs[name]
        return ConnectorInfo(name, config, tuple(self.config.tasks(name)))

    def _put(self, request: PutConnector) -> Created:
        check_config(request.config)
        name, exists = request.connector, self.config.contains(request.connector)
        if exists and not request.replace:
            raise AlreadyExistsError(f"Connector {name} already exists")
        before = self._info(name).tasks if exists else ()
        state = request.initial_state or self.config.target_states.get(name, TargetState.STARTED)
        self._set(name, request.config, state)
        info = ConnectorInfo(name, request.config, before)
        return Created(not exists, info)

    def _set(self, name: ConnectorName, config: Config, target: TargetState) -> None:
        if None in config.values():  # Java's worker accepts such a config and cannot start it
            target = TargetState.STOPPED
        tasks = {TargetState.STARTED: 1, TargetState.STOPPED: 0}.get(target, self.config.task_count(name))
        self.put(name, config, target, tasks)

    def put(self, name: ConnectorName, config: Config, target: TargetState, count: int) -> None:
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
            if request.task not in self.config.task_configs:
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
        return ConnectorStateInfo(name, connector, tuple(tasks))

    def _verify(self, signature: Signature | None) -> None:
        if signature is None:
            raise RequestRefusedError("Internal request missing required signature", 400)
        if signature.algorithm != KEY.algorithm:
            raise RequestRefusedError(
                f"This worker does not support the '{signature.algorithm}' key signing algorithm used by other "
                "workers. This worker is currently configured to use: [HmacSHA256]. Check that all workers' "
                "configuration files permit the same set of signature algorithms, and correct any misconfigured "
                "worker and restart it.", 400)
        if hmac.new(KEY.key, signature.body, hashlib.sha256).digest() != signature.signature:
            raise RequestRefusedError("Internal request contained invalid signature.", 403)

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
                check_sink_offset(partition, offset)
            elif offset is not None and not isinstance(offset.get("position"), int):
                raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
            self.offsets.setdefault(name, {})[repr(partition)] = (partition, offset)
        return "The offsets for this connector have been altered successfully"
