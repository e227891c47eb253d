"""Exactly-once sources (KIP-618): before a task starts, the producers of all former tasks of its connector are fenced
and a task count record is written; after the task has initialized its producer, it checks for newer task configs.

A task count record must never follow task configs that it does not belong to. So it is written only by a leader that
has read the config topic to its end, while none of its other writes is in progress (`busy`), and under the same claim
as before that reading: a worker that was leader in between would have fenced the claim.
"""

from __future__ import annotations

from dataclasses import replace

from actors.errors import BadRequestError, ConflictError, NotFoundError, NotLeaderError, RebalanceNeededError
from actors.herder import request_signatures, work
from actors.herder.effects import FenceProducers
from actors.herder.fencing_state import (
    Fenced,
    Fencing,
    FencingChecked,
    FencingRead,
    FencingRecorded,
    RecordFencing,
    RestartRead,
    StartVerified,
)
from actors.herder.instance import RestartCause
from actors.herder.standing import Phase
from actors.herder.state import HerderState
from actors.herder.turn import Turn
from actors.messages.commands import PutTaskCountRecord, ReadConfigToEnd, WriteConfig
from actors.messages.correlation_ids import RequestId
from actors.messages.requests import FenceZombies, RestartTask, VerifyTaskStart
from spark_tasks.errors import ConnectError
from storage.errors import PrivilegedWriteError
from storage.ids import ConnectorName, ConnectorTaskId

CHECK_TIMEOUT_MS = 60_000
NOT_LEADER = "Only the leader may perform zombie fencing."


def transactional_id(group_id: str, connector: ConnectorName, task: int) -> str:
    """The transactional id of a source task's producer, the same as in Kafka Connect."""
    return f"{group_id}-{connector}-{task}"


def run(turn: Turn, request_id: RequestId, request: FenceZombies) -> None:
    """Begins a round of fencing, or joins one: a task of this worker or of another one is about to start."""
    name, state = request.connector, turn.state
    refusal = (None if request.local else request_signatures.refusal(state, request.signature)) or _refusal(state, name)
    if refusal is not None:
        turn.reply(request_id, error=refusal)
    elif name in state.fencings:
        fencing = state.fencings[name]
        turn.state = replace(turn.state, fencings={**state.fencings, name: fencing.joined_by(request_id)})
    else:
        op = turn.op(FencingRead(request_id, name, state.claim))
        turn.state = replace(turn.state, busy=op)
        turn.stage("reading to the end of the config topic")
        turn.emit(ReadConfigToEnd(op, state.settings.sync_timeout_ms))


def _refusal(state: HerderState, name: ConnectorName) -> Exception | None:
    if not state.is_leader:
        return NotLeaderError(NOT_LEADER, state.leader_url)
    config = state.config.connector_configs.get(name)
    if config is None:
        return NotFoundError(f"Connector {name} not found")
    if state.settings.connector_type(config) == "sink":
        return BadRequestError(f"Connector {name} is not a source connector")
    if state.claim is None:
        return ConflictError("The leader does not have the right to write the config topic yet")
    return None


def on_read(turn: Turn, then: FencingRead, error: Exception | None) -> None:
    """The config topic was read: decides which producers to fence."""
    turn.stage_done()
    name, store = then.connector, turn.state.store
    if error is not None:
        why = "Failed to read to end of config topic before performing zombie fencing"
        turn.reply(then.request_id, error=_repeatable(error, why))
        return
    refusal = _lost(turn.state, then.claim) or _refusal(turn.state, name)
    if refusal is not None or name not in store.pending_fencing:
        turn.reply(then.request_id, error=refusal)
        return
    count, former = store.task_count(name), store.task_count_records.get(name)
    fencing = Fencing(store.task_config_generations.get(name, -1), count, then.claim, (then.request_id,))
    if former is None or (former == 1 and count == 1):
        _record(turn, name, fencing)  # no producer to fence, or only the one that the starting task fences itself
        return
    turn.log("DEBUG", f"Fencing the producers of {former} former tasks", name)
    turn.state = replace(turn.state, fencings={**turn.state.fencings, name: fencing})
    ids = tuple(transactional_id(turn.state.settings.group_id, name, n) for n in range(former))
    turn.emit(FenceProducers(turn.op(Fenced(name)), name, turn.state.config.connector_configs[name], ids))


def on_fenced(turn: Turn, then: Fenced, error: Exception | None) -> None:
    """The former producers are fenced, or fencing failed. The record is written via the queue, after other writes."""
    if error is None:
        turn.enqueue(None, RecordFencing(then.connector))
        return
    fencing = _take(turn, then.connector)
    why = ConnectError(f"Failed to fence the producers of former tasks of connector {then.connector}: {error}")
    _reply(turn, fencing, why)


def check(turn: Turn, request: RecordFencing) -> None:
    """Begins to check whether the round of fencing was for the newest task configs."""
    fencing = turn.state.fencings.get(request.connector)
    if fencing is None:
        return
    refusal = _lost(turn.state, fencing.claim) or _refusal(turn.state, request.connector)
    if refusal is not None:
        _take(turn, request.connector)
        _reply(turn, fencing, refusal)
        return
    op = turn.op(FencingChecked(request.connector))
    turn.state = replace(turn.state, busy=op)
    turn.stage("reading to the end of the config topic")
    turn.emit(ReadConfigToEnd(op, CHECK_TIMEOUT_MS))


def on_checked(turn: Turn, then: FencingChecked, error: Exception | None) -> None:
    """The config topic was read again: writes the record, unless there are newer task configs."""
    turn.stage_done()
    name, store = then.connector, turn.state.store
    fencing = _take(turn, name)
    if fencing is None:
        return
    same = fencing.generation == store.task_config_generations.get(name, -1) and fencing.count == store.task_count(name)
    refusal = _lost(turn.state, fencing.claim)
    if error is not None:
        refusal = _repeatable(error, "Failed to read to end of config topic after performing zombie fencing")
    if refusal is None and not (store.contains(name) and same):
        refusal = ConflictError(f"Fencing failed because new task configurations were generated for connector {name}")
    if refusal is not None or name not in store.pending_fencing:
        _reply(turn, fencing, refusal)
    else:
        _record(turn, name, fencing)


def _lost(state: HerderState, claim: int | None) -> Exception | None:
    if state.claim is not None and state.claim == claim:
        return None
    if not state.is_leader:
        return NotLeaderError(NOT_LEADER, state.leader_url)
    return ConflictError("The leader has lost the right to write the config topic in the meantime")


def _record(turn: Turn, name: ConnectorName, fencing: Fencing) -> None:
    op = turn.op(FencingRecorded(fencing.waiting))
    turn.state = replace(turn.state, busy=op)
    turn.stage(f"writing a task count record for connector {name} to the config topic")
    turn.emit(WriteConfig(op, PutTaskCountRecord(name, fencing.count)))


def on_recorded(turn: Turn, then: FencingRecorded, error: Exception | None) -> None:
    """The record is read back: tasks may start."""
    turn.stage_done()
    if error is not None:
        error = _repeatable(error, "Failed to write a task count record")
    for request_id in then.waiting:
        turn.reply(request_id, error=error)


def _repeatable(error: Exception, what: str) -> Exception:
    """The error for tasks that wait for the fencing. It is a ConflictError, after which they ask again, if another
    attempt may succeed, for example because brokers restart or the right to write is being claimed again.
    """
    transient = isinstance(error, (TimeoutError, PrivilegedWriteError))
    return (ConflictError if transient else ConnectError)(f"{what}: {error}")


def _take(turn: Turn, name: ConnectorName) -> Fencing | None:
    fencing = turn.state.fencings.get(name)
    turn.state = replace(turn.state, fencings={k: v for k, v in turn.state.fencings.items() if k != name})
    return fencing


def _reply(turn: Turn, fencing: Fencing | None, error: Exception | None) -> None:
    for request_id in fencing.waiting if fencing is not None else ():
        turn.reply(request_id, error=error)


# ---------------------------------------------------------------- the task's own check, and restarts
def verify(turn: Turn, request_id: RequestId, request: VerifyTaskStart) -> None:
    """A task of this worker has initialized its producer. Served at once in any phase, as a round may wait for it."""
    then = StartVerified(request_id, request.task, request.generation)
    turn.emit(ReadConfigToEnd(turn.op(then), turn.state.settings.sync_timeout_ms))


def on_verified(turn: Turn, then: StartVerified, error: Exception | None) -> None:
    """The config topic was read: answers whether the task may start."""
    state, name = turn.state, then.task.connector
    instance = state.instances.get(then.task)
    if error is None and state.store.task_config_generations.get(name, 0) != then.generation:
        error = ConnectError(f"Cannot start source task {then.task} with exactly-once support as the connector has "
                             "already generated a new set of task configs")
    elif error is None and (instance is None or instance.stopping or then.task not in state.allocation):
        error = ConnectError(f"Cannot start source task {then.task} as it has already been revoked from this worker")
    elif error is None and name in state.store.pending_fencing:
        error = ConnectError(f"Cannot start source task {then.task} with exactly-once support as there is no task "
                             f"count record after the latest task configs of connector {name}")
    turn.reply(then.request_id, error=error)


def reads_first(state: HerderState, task: ConnectorTaskId) -> bool:
    """Whether the restart of a local task begins with reading the config topic."""
    config = state.config.connector_configs.get(task.connector, {})
    here = task in state.allocation
    return state.settings.exactly_once and here and state.settings.connector_type(config) != "sink"


def restart(turn: Turn, request_id: RequestId, request: RestartTask) -> None:
    """Begins the restart of a source task by reading the config topic to its end."""
    op = turn.op(RestartRead(request_id, request.task))
    turn.state = replace(turn.state, busy=op)
    turn.stage("reading to the end of the config topic")
    turn.emit(ReadConfigToEnd(op, turn.state.settings.sync_timeout_ms))


def on_restart_read(turn: Turn, then: RestartRead, error: Exception | None) -> None:
    """Restarts the task, unless the config topic says otherwise: 404 if it is gone, 409 if a rebalance is expected."""
    turn.stage_done()
    task, state = then.task, turn.state
    if error is not None:
        error = ConnectError(f"Request timed out. The worker could not read to the end of the config topic: {error}")
    elif task not in state.store.tasks(task.connector):
        error = NotFoundError(f"Unknown task: {task}")
    elif state.expects_rebalance or state.phase is not Phase.RESOLVED:  # due to what was read
        error = RebalanceNeededError("Request cannot be completed because a rebalance is expected")
    elif task not in state.allocation:
        error = ConflictError(f"Cannot restart task {task} since it is no longer assigned to this member")
    if error is not None:
        turn.reply(then.request_id, error=error)
    else:
        work.stop(turn, task, (then.request_id,), restart=RestartCause.REQUESTED)


def refuse_waiting(turn: Turn, error: Exception) -> None:
    """The worker shuts down: answers all waiting requests with an error."""
    for fencing in turn.state.fencings.values():
        _reply(turn, fencing, error)
    ops = dict(turn.state.ops)
    for op, then in turn.state.ops.items():
        match then:
            case FencingRead(request_id) | StartVerified(request_id) | RestartRead(request_id):
                turn.reply(request_id, error=error)
            case FencingRecorded(waiting):
                for request_id in waiting:
                    turn.reply(request_id, error=error)
            case _:
                continue
        del ops[op]
    turn.state = replace(turn.state, fencings={}, ops=ops)
