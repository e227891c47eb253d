"""The state of the config topic as a pure fold over its records; only this file creates ClusterConfigStates.

    fold(state, deferred, records, started) -> (state, deferred, changes)

The rules are those of Kafka Connect's KafkaConfigBackingStore. From the same records, all workers of a group, Java's
too, must get the same state and above all the same offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from storage.config import values
from storage.config.records import (
    COMMIT,
    CONNECTOR,
    LOGGER,
    RESTART,
    SESSION_KEY,
    TARGET_STATE,
    TASK,
    TASK_COUNT,
    parse_task_id,
)
from storage.config.state import (
    ClusterConfigState,
    ConfigChange,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TasksUpdated,
)
from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState
from storage.log.java_json import TooDeepError, loads
from storage.log.record import LogRecord, shown

_logger = logging.getLogger(__name__)

Deferred = Mapping[ConnectorName, Mapping[int, Config]]
"""Task configurations whose commit record has not been read yet."""

_MAPPINGS = (
    "connector_configs", "target_states", "task_counts", "task_configs", "task_count_records",
    "task_config_generations", "applied_configs",
)


@dataclass(slots=True)
class _Draft:
    """The state while a batch is applied: each mapping is copied once per batch, when it is first written to."""

    base: ClusterConfigState
    deferred: dict[ConnectorName, Mapping[int, Config]]
    started: bool
    own: set[ConnectorName] = field(default_factory=set)  # connectors whose deferred tasks have been copied
    changes: list[ConfigChange] = field(default_factory=list)
    changed: dict[str, Any] = field(default_factory=dict)

    def read(self, name: str) -> Any:
        return self.changed[name] if name in self.changed else getattr(self.base, name)

    def write(self, name: str) -> Any:
        if name not in self.changed:
            mapping = getattr(self.base, name)
            self.changed[name] = dict(mapping) if name in _MAPPINGS else set(mapping)
        return self.changed[name]

    def drop(self, name: str, key: Any) -> None:
        if key in self.read(name):
            mapping = self.write(name)
            mapping.discard(key) if isinstance(mapping, set) else mapping.pop(key)

    def report(self, change: ConfigChange) -> None:
        if self.started:
            self.changes.append(change)

    def finish(self) -> ClusterConfigState:
        made: dict[str, Any] = {k: frozenset(v) if isinstance(v, set) else v for k, v in self.changed.items()}
        return replace(self.base, **made)

    def defer(self, task: ConnectorTaskId, config: Config) -> None:
        if task.connector not in self.own:
            self.own.add(task.connector)
            self.deferred[task.connector] = dict(self.deferred.get(task.connector, {}))
        cast("dict[int, Config]", self.deferred[task.connector])[task.task] = config


def fold(
    state: ClusterConfigState, deferred: Deferred, records: Iterable[LogRecord], *, started: bool
) -> tuple[ClusterConfigState, Deferred, tuple[ConfigChange, ...]]:
    """Applies records to the state.

    Until the worker has `started`, that is, has read the topic to its end once, no changes are reported, and restarts
    and logger levels are ignored.
    """
    draft = _Draft(state, dict(deferred), started)
    for record in records:
        _apply(draft, record)
    return draft.finish(), draft.deferred, tuple(draft.changes)


def _apply(draft: _Draft, record: LogRecord) -> None:
    try:
        value = None if record.value is None else loads(record.value)
    except TooDeepError as error:  # Java can read it, so it counts for the position
        draft.changed["offset"] = record.offset + 1
        _logger.warning("Skipping a config %s: %s", record, error)
    except Exception as error:  # noqa: BLE001 - no record may stop the reader
        # The record does not count for the position: Java skips it before it updates the offset.
        _logger.warning("Skipping a config %s: could not read its value: %s", record, shown(error))
    else:
        draft.changed["offset"] = record.offset + 1
        try:
            _fold_value(draft, record, value)
        except Exception as error:  # noqa: BLE001
            _logger.warning("Skipping a config %s: %s: %s", record, type(error).__name__, shown(error))


def _fold_value(draft: _Draft, record: LogRecord, value: Any) -> None:
    key = "" if record.key is None else record.key.decode(errors="replace")
    for prefix, apply in _PREFIXES:
        if key.startswith(prefix):
            apply(draft, key[len(prefix) :], value)
            return
    if key == SESSION_KEY:
        _session_key(draft, value)
    elif key.startswith(LOGGER):
        _logger_level(draft, key[len(LOGGER) :], value)
    else:
        _logger.warning("Skipping a config %s: unknown kind of key", record)


def _target_state(draft: _Draft, rest: str, value: Any) -> None:
    connector = ConnectorName(rest)
    known = connector in draft.read("connector_configs")
    if value is None:
        # Not reported, because a connector's config is always removed together with its target state. If the config is
        # still there, the connector has the default state again.
        if known:
            draft.write("target_states")[connector] = TargetState.STARTED
        else:
            draft.drop("target_states", connector)
        return
    state = values.target_state(connector, value)
    if state is None:
        return
    before = draft.read("target_states").get(connector)
    if before is not state:
        draft.write("target_states")[connector] = state
        if known:
            draft.report(TargetStateChanged(connector))


def _connector(draft: _Draft, rest: str, value: Any) -> None:
    connector = ConnectorName(rest)
    if value is None:
        _forget(draft, connector)
        draft.report(ConnectorRemoved(connector))
        return
    config = values.properties(f"configuration for connector {shown(connector)}", value)
    if config is None:
        return
    draft.write("connector_configs")[connector] = config
    if connector not in draft.read("target_states"):
        draft.write("target_states")[connector] = TargetState.STARTED
    draft.report(ConnectorUpdated(connector))


def _forget(draft: _Draft, connector: ConnectorName) -> None:
    draft.drop("connector_configs", connector)
    draft.drop("task_counts", connector)
    draft.deferred.pop(connector, None)
    draft.own.discard(connector)
    if connector in draft.read("applied_configs"):  # otherwise it has no task configs
        draft.drop("applied_configs", connector)
        for task in [task for task in draft.read("task_configs") if task.connector == connector]:
            draft.drop("task_configs", task)


def _task(draft: _Draft, rest: str, value: Any) -> None:
    task = parse_task_id(rest)
    if task is None:
        _logger.error("Ignoring task configuration because %s is not a task config key", shown(TASK + rest))
        return
    config = values.properties(f"configuration for task {shown(task)}", value)
    if config is not None:
        draft.defer(task, config)


def _commit(draft: _Draft, rest: str, value: Any) -> None:
    connector = ConnectorName(rest)
    config = draft.read("connector_configs").get(connector)
    if config is None:
        # The connector was deleted, and compaction has removed its config and perhaps the tombstone too.
        _forget(draft, connector)
        return
    count = values.count(f"tasks commit for connector {shown(connector)}", value, "tasks")
    if count is None:
        return
    waiting = draft.deferred.get(connector)
    updated: tuple[ConnectorTaskId, ...] = ()
    if all(number in (waiting or {}) for number in range(count)):
        if waiting is not None:
            updated = tuple(ConnectorTaskId(connector, number) for number in sorted(waiting))
            draft.write("task_configs").update((task, waiting[task.task]) for task in updated)
            generations = draft.write("task_config_generations")
            generations[connector] = generations.get(connector, -1) + 1
        draft.drop("inconsistent", connector)
        draft.write("applied_configs")[connector] = config
    else:
        # Compaction has removed some of this commit's task configs; a later commit makes them consistent again.
        draft.write("inconsistent").add(connector)
    if waiting is not None:
        draft.deferred[connector] = {}
    draft.write("task_counts")[connector] = count
    draft.write("pending_fencing").add(connector)
    draft.report(TasksUpdated(connector, updated))


def _restart(draft: _Draft, rest: str, value: Any) -> None:
    request = values.restart_request(ConnectorName(rest), value)
    if request is not None:
        draft.report(RestartRequested(request))


def _task_count(draft: _Draft, rest: str, value: Any) -> None:
    connector = ConnectorName(rest)
    count = values.count(f"task count record for connector {shown(connector)}", value, "task-count")
    if count is not None:
        draft.write("task_count_records")[connector] = count
        draft.drop("pending_fencing", connector)


def _session_key(draft: _Draft, value: Any) -> None:
    key = values.session_key(value)
    if key is not None:
        draft.changed["session_key"] = key
        draft.report(SessionKeyChanged(key))


def _logger_level(draft: _Draft, namespace: str, value: Any) -> None:
    level = values.field(f"logging level for namespace {shown(namespace)}", value, "level", str)
    if level is not None:
        draft.report(LoggerLevelChanged(namespace, level))


# No prefix begins with another one, so connectors may have any name.
_PREFIXES: tuple[tuple[str, Callable[[_Draft, str, Any], None]], ...] = (
    (TARGET_STATE, _target_state),
    (CONNECTOR, _connector),
    (TASK, _task),
    (COMMIT, _commit),
    (RESTART, _restart),
    (TASK_COUNT, _task_count),
)
