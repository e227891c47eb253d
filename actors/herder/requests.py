"""Requests: which worker may serve them, in which order, and what each one does.

A request runs when the worker's group is stable, in the order of due time and then of arrival; those that have to wait
for a postponed rebalance let others pass. The next request waits until the write of the previous one has been read
back: so a second POST of a name finds the first one's connector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from actors.errors import (
    AlreadyExistsError,
    BadRequestError,
    NotFoundError,
    NotLeaderError,
    RebalanceNeededError,
)
from actors.herder import dead_letters, limits, request_signatures, restarts, task_configs, zombie_fencing
from actors.herder.continuations import AnswerWith, OffsetsRead, WriteNext
from actors.herder.effects import Delegate, Validate
from actors.herder.events import RequestReceived, TimerFired, Validated
from actors.herder.fencing_state import RecordFencing
from actors.herder.own_requests import OwnRequest, Publish, Reconfigure, Restart
from actors.herder.patch_state import Patched
from actors.herder.standing import Phase
from actors.herder.state import Queued
from actors.herder.turn import Turn
from actors.messages.commands import (
    ConfigWrite,
    PutConnectorConfig,
    PutRestartRequest,
    PutTargetState,
    PutTaskConfigSet,
    ReadConfigToEnd,
    RemoveConnectorConfig,
    WriteConfig,
)
from actors.messages.correlation_ids import RequestId
from actors.messages.requests import (
    AlterOffsets,
    ConnectorInfo,
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
    ReplayDeadLetters,
    Request,
    RestartConnectorAndTasks,
    RestartConnectorOnly,
    RestartTask,
    SetTargetState,
    StopConnectorRequest,
    TaskInfo,
    ValidateConfig,
    VerifyTaskStart,
)
from spark_tasks.config.auto_tasks import as_put, stored
from spark_tasks.errors import ConnectError
from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState

READS = (GetConnector, GetTaskConfigs, HealthCheck)
READ_LIMIT_MS = 120_000  # longer than REST's timeout; writes are still carried out after it, as in Kafka Connect
LEADER_ONLY = "Only the leader can set connector configs."
ALTERS_OFFSETS = "Only the leader can process offset modification requests."


def on_request(turn: Turn, event: RequestReceived) -> None:
    """A request has arrived; a defect while it is handled becomes its error."""
    wait_ms = READ_LIMIT_MS if event.wait_ms is None and isinstance(event.request, READS) else event.wait_ms
    until_ms = None if wait_ms is None else turn.now + wait_ms
    defect = turn.attempt(lambda: on_received(turn, event.request_id, event.request, until_ms))
    if defect is not None:
        turn.reply(event.request_id, error=defect)


def follows_rebalance(request: Request | Patched | OwnRequest) -> bool:
    """Whether a request waits for a rebalance that is postponed (config_changes.py): until then, tasks with former
    configs may run.
    """
    match request:
        case AlterOffsets() | RestartTask():
            return True
        case Restart(item):
            return isinstance(item, ConnectorTaskId)
        case _:
            return False


def on_queue_due(turn: Turn, _: TimerFired) -> None:
    """The next request in the queue may be due now."""
    turn.set_queue_timer()


def on_received(turn: Turn, request_id: RequestId, request: Request, until_ms: int | None) -> None:
    """Queues a request, or starts it at once if it need not wait for others. `until_ms`: see Queued."""
    match request:
        case ValidateConfig() | GetOffsets():
            turn.emit(Delegate(request_id, request))
        case PutConnector(name, config):
            if not _refused(turn, request_id, limits.name_refusal(name)):
                _validate(turn, request_id, request, config, until_ms)
        case VerifyTaskStart():
            zombie_fencing.verify(turn, request_id, request)
        case SetTargetState(connector, state):
            _set_target_state(turn, request_id, connector, state)
        case _:
            turn.enqueue(request_id, request, until_ms=until_ms)


def _validate(turn: Turn, request_id: RequestId, request: PutConnector | Patched, config: Config,
              until_ms: int | None) -> None:
    # Plugin code may take long or hang, so the queue does not wait for it.
    queued = Queued(turn.now, turn.next_number(), request_id, request, until_ms)
    turn.state = replace(turn.state, validating={**turn.state.validating, request_id: queued})
    turn.emit(Validate(request_id, config))


def on_validated(turn: Turn, event: Validated) -> None:
    """Queues a PutConnector or a merged patch that is valid, or refuses it."""
    request_id = event.request_id
    queued = turn.state.validating.get(request_id)
    if queued is None:
        return
    validating = {k: v for k, v in turn.state.validating.items() if k != request_id}
    turn.state = replace(turn.state, validating=validating)
    if event.error is not None and not _is_outdated(turn, queued.request):
        turn.reply(request_id, error=event.error)
    else:
        turn.enqueue(request_id, queued.request, until_ms=queued.until_ms)


def _is_outdated(turn: Turn, request: Request | Patched | OwnRequest) -> bool:
    """Whether a patch was merged into a config that has been changed or removed since."""
    if not isinstance(request, Patched):
        return False
    return turn.state.config.connector_configs.get(request.request.connector) != request.base


def run(turn: Turn, queued: Queued) -> None:
    """Serves the next request of the queue."""
    request_id = queued.request_id
    if isinstance(queued.request, Reconfigure):
        task_configs.reconfigure(turn, queued.request)
    elif isinstance(queued.request, Publish):
        task_configs.publish(turn, queued.request)
    elif isinstance(queued.request, Restart):
        restarts.restart_automatically(turn, queued.request)
    elif isinstance(queued.request, RecordFencing):
        zombie_fencing.check(turn, queued.request)
    elif isinstance(queued.request, PatchConnector) and request_id is not None:
        _patch(turn, request_id, queued.request, queued.until_ms)
    elif isinstance(queued.request, Patched) and request_id is not None:
        _put_patched(turn, request_id, queued.request, queued.until_ms)
    elif request_id is not None:
        _HANDLERS[type(queued.request)](turn, request_id, queued.request)


def _begin_write(turn: Turn, write: ConfigWrite, then: AnswerWith | WriteNext, stage: str) -> None:
    op = turn.op(then)
    turn.state = replace(turn.state, busy=op)
    turn.stage(stage)
    turn.emit(WriteConfig(op, write))


def on_written(turn: Turn, then: AnswerWith | WriteNext, error: Exception | None) -> None:
    """A write was read back, or it failed."""
    turn.stage_done()
    if error is not None:
        turn.reply(then.request_id, error=error)
        return
    match then:
        case AnswerWith(request_id, value):
            turn.reply(request_id, value)
        case WriteNext(request_id, write, value):
            _begin_write(turn, write, AnswerWith(request_id, value), "writing to the config topic")


def _refused(turn: Turn, request_id: RequestId, error: Exception | None) -> bool:
    if error is not None:
        turn.reply(request_id, error=error)
    return error is not None


def _not_leader(turn: Turn, message: str = LEADER_ONLY) -> Exception | None:
    return None if turn.state.is_leader else NotLeaderError(message, turn.state.leader_url)


def _not_found(turn: Turn, connector: ConnectorName, text: str) -> Exception | None:
    return None if turn.state.config.contains(connector) else NotFoundError(text.format(connector))


def _info(turn: Turn, connector: ConnectorName, config: Config) -> ConnectorInfo:
    return ConnectorInfo(connector, config, tuple(turn.state.config.tasks(connector)))


def _get(turn: Turn, request_id: RequestId, request: GetConnector) -> None:
    name = request.connector
    if not _refused(turn, request_id, _not_found(turn, name, "Connector {} not found")):
        turn.reply(request_id, _info(turn, name, turn.state.config.connector_configs[name]))


def _get_tasks(turn: Turn, request_id: RequestId, request: GetTaskConfigs) -> None:
    name, config = request.connector, turn.state.config
    if not _refused(turn, request_id, _not_found(turn, name, "Connector {} not found")):
        turn.reply(request_id, [TaskInfo(t, config.task_configs[t]) for t in config.tasks(name)])


def _put(turn: Turn, request_id: RequestId, request: PutConnector) -> None:
    name = request.connector
    exists = turn.state.config.contains(name)
    if _refused(turn, request_id, _not_leader(turn)):
        return
    if exists and not request.replace:
        turn.reply(request_id, error=AlreadyExistsError(f"Connector {name} already exists"))
        return
    if not exists and _refused(turn, request_id, limits.room_refusal(turn.state, name, 1)):
        return
    answer = Created(not exists, _info(turn, name, request.config))
    state = request.initial_state if not exists else None
    _begin_write(turn, PutConnectorConfig(name, request.config, state), AnswerWith(request_id, answer),
                 f"writing a config for connector {name} to the config topic")


def _patch(turn: Turn, request_id: RequestId, request: PatchConnector, until_ms: int | None) -> None:
    name = request.connector
    refusal = _not_leader(turn) or _not_found(turn, name, "Connector {} not found") or limits.name_refusal(name)
    if _refused(turn, request_id, refusal):
        return
    base = turn.state.config.connector_configs[name]
    merged = {**as_put(base), **request.patch}
    config = stored({k: v for k, v in merged.items() if v is not None})
    _validate(turn, request_id, Patched(request, base, config), config, until_ms)


def _put_patched(turn: Turn, request_id: RequestId, patched: Patched, until_ms: int | None) -> None:
    if _is_outdated(turn, patched):  # changed or removed during the validation, which this patch must not undo
        _patch(turn, request_id, patched.request, until_ms)
    else:
        _put(turn, request_id, PutConnector(patched.request.connector, patched.config, replace=True))


def _delete(turn: Turn, request_id: RequestId, request: DeleteConnector) -> None:
    name = request.connector
    refusal = _not_leader(turn) or _not_found(turn, name, "Connector {} not found")
    if not _refused(turn, request_id, refusal):
        _begin_write(turn, RemoveConnectorConfig(name), AnswerWith(request_id),
                     f"removing the config for connector {name} from the config topic")


def _set_target_state(turn: Turn, request_id: RequestId, name: ConnectorName, state: TargetState) -> None:
    # Not a privileged write: any worker may do it, even during a rebalance.
    if not turn.state.store.contains(name):
        turn.reply(request_id, error=NotFoundError(f"Unknown connector {name}"))
        return
    turn.emit(WriteConfig(turn.op(AnswerWith(request_id)), PutTargetState(name, state)))


def _stop(turn: Turn, request_id: RequestId, request: StopConnectorRequest) -> None:
    name = request.connector
    refusal = _not_found(turn, name, "Unknown connector {}") or _not_leader(
        turn, "Only the leader can transition connectors to the STOPPED state.")
    if not _refused(turn, request_id, refusal):
        # The empty task set first: once the connector is STOPPED none of its tasks may be left (KIP-875).
        then = WriteNext(request_id, PutTargetState(name, TargetState.STOPPED))
        _begin_write(turn, PutTaskConfigSet(name, ()), then,
                     f"writing an empty set of task configs for connector {name} to the config topic")


def _restart_connector(turn: Turn, request_id: RequestId, request: RestartConnectorOnly) -> None:
    if not _refused(turn, request_id, _not_found(turn, request.connector, "Unknown connector: {}")):
        restarts.restart_item(turn, request_id, request.connector)


def _restart_task(turn: Turn, request_id: RequestId, request: RestartTask) -> None:
    task = request.task
    if _refused(turn, request_id, _not_found(turn, task.connector, "Unknown connector: {}")):
        return
    if task not in turn.state.config.task_configs:  # also has the tasks of a stopped connector, as in Kafka Connect
        turn.reply(request_id, error=NotFoundError(f"Unknown task: {task}"))
    elif zombie_fencing.reads_first(turn.state, task):
        zombie_fencing.restart(turn, request_id, request)
    else:
        restarts.restart_item(turn, request_id, task)


def _restart_all(turn: Turn, request_id: RequestId, request: RestartConnectorAndTasks) -> None:
    name = request.request.connector
    refusal = _not_found(turn, name, "Unknown connector: {}") or _not_leader(
        turn, "Only the leader can process restart requests."
    )
    planned = restarts.plan(request.request, turn.statuses)  # once it is written, the restart may be over at any moment
    if refusal is None and planned is None:
        refusal = NotFoundError(f"Status for connector {name} not found")
    if not _refused(turn, request_id, refusal) and planned is not None:
        _begin_write(turn, PutRestartRequest(request.request),
                     AnswerWith(request_id, restarts.state_info(planned)),
                     f"writing restart request for connector {name} to the config topic")


def _put_tasks(turn: Turn, request_id: RequestId, request: PutTaskConfigs) -> None:
    name = request.connector
    refusal = request_signatures.refusal(turn.state, request.signature) or _not_leader(
        turn, "Only the leader may write task configurations."
    ) or _not_found(turn, name, "Connector {} not found")
    if refusal is None and request.configs and turn.state.config.target_state(name) is TargetState.STOPPED:
        refusal = BadRequestError("Cannot submit non-empty set of task configs for stopped connector " + name)
    if refusal is None:
        refusal = limits.room_refusal(turn.state, name, len(request.configs) - turn.state.config.task_count(name))
    if not _refused(turn, request_id, refusal):
        _begin_write(turn, PutTaskConfigSet(name, request.configs), AnswerWith(request_id),
                     f"writing task configs for connector {name} to the config topic")


def _alter_offsets(turn: Turn, request_id: RequestId, request: AlterOffsets) -> None:
    # Read first: another worker may have resumed the connector.
    if not _refused(turn, request_id, _not_leader(turn, ALTERS_OFFSETS)):
        op = turn.op(OffsetsRead(request_id, request))
        turn.state = replace(turn.state, busy=op)
        turn.stage("reading to the end of the config topic")
        turn.emit(ReadConfigToEnd(op, turn.state.settings.sync_timeout_ms))


def on_offsets_read(turn: Turn, then: OffsetsRead, error: Exception | None) -> None:
    """The config topic was read: has the offsets altered if the connector is STOPPED and none of its tasks is left."""
    turn.stage_done()
    name, state = then.request.connector, turn.state
    refusal = _not_leader(turn, ALTERS_OFFSETS)
    if error is not None:
        refusal = ConnectError(f"Failed to read to end of config topic before modifying connector offsets: {error}")
    elif refusal is None and (state.expects_rebalance or state.phase is not Phase.RESOLVED):  # due to what was read
        refusal = RebalanceNeededError("Request cannot be completed because a rebalance is expected")
    elif refusal is None and not state.store.contains(name):
        refusal = NotFoundError(f"Connector {name} not found")
    elif refusal is None and (state.store.target_state(name) is not TargetState.STOPPED
                              or state.store.task_count(name)):
        refusal = BadRequestError(
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
            "specified connector by issuing a 'PUT' request to the '/connectors/" + name + "/stop' endpoint"
        )
    if not _refused(turn, then.request_id, refusal):
        turn.emit(Delegate(then.request_id, then.request))


_HANDLERS: Mapping[type, Callable[[Turn, RequestId, Any], None]] = {
    GetConnector: _get,
    GetTaskConfigs: _get_tasks,
    PutConnector: _put,
    DeleteConnector: _delete,
    StopConnectorRequest: _stop,
    RestartConnectorOnly: _restart_connector,
    RestartTask: _restart_task,
    RestartConnectorAndTasks: _restart_all,
    PutTaskConfigs: _put_tasks,
    FenceZombies: zombie_fencing.run,
    AlterOffsets: _alter_offsets,
    ReplayDeadLetters: dead_letters.replay,
    HealthCheck: lambda turn, request_id, _: turn.reply(request_id),
}
