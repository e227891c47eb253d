"""Instances on this worker: starting and stopping them, their reports, and the statuses that follow from these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from actors.assignment.protocol import Allocation
from actors.errors import ConflictError
from actors.herder import automatic_restarts
from actors.herder.config_log import sizes
from actors.herder.continuations import AnswerWith, GeneratedTasks, OffsetsRead, Released, WriteNext
from actors.herder.effects import AbandonInstance, CancelTimer, ChangeInstance, StartInstance, StopInstance, Timer
from actors.herder.events import TimerFired
from actors.herder.instance import Instance, RestartCause, Stopping
from actors.herder.own_requests import Reconfigure
from actors.herder.standing import FlushingStatuses, Gate, Joining, Phase, with_items
from actors.herder.state import connector_of, is_task
from actors.herder.turn import Turn
from actors.messages.commands import AllowJoin, FlushStatuses, StartConnector, StartTask
from actors.messages.correlation_ids import Epoch, RequestId
from actors.messages.events import ConnectorStateReported, TaskStateReported
from spark_tasks.errors import ConnectError
from storage.ids import ConnectorTaskId, ItemId, State, TargetState

_BECAME = {State.RUNNING: "resumed", State.PAUSED: "paused", State.STOPPED: "stopped"}


def start(turn: Turn, item: ItemId, waiting: tuple[RequestId, ...] = (),
          restarted: RestartCause = RestartCause.NONE) -> None:
    """Starts an instance of an allocated item; without a configuration it becomes FAILED at once. `restarted`: why it
    follows another instance.
    """
    config = turn.state.config
    name = connector_of(item)
    target = config.target_state(name)
    connector_config = config.connector_configs.get(name)
    task_config = config.task_configs.get(item) if isinstance(item, ConnectorTaskId) else None
    if target is None or connector_config is None or (is_task(item) and task_config is None):
        error = ConnectError(f"{item} has no configuration in the config topic; it cannot run until it is reconfigured")
        turn.status(item, State.FAILED, str(error), first=True)
        for request_id in waiting:
            turn.reply(request_id, error=error)
        return
    if is_task(item) and target is TargetState.STOPPED:
        for request_id in waiting:
            turn.reply(request_id)
        return
    epoch = Epoch(turn.next_number())
    turn.set_instance(item, Instance(epoch, waiting=waiting, restarted=restarted))
    automatic_restarts.on_started(turn, item)
    if restarted.is_announced:
        turn.status(item, State.RESTARTING)
    if isinstance(item, ConnectorTaskId):
        generation = config.task_config_generations.get(name, 0)
        command: StartConnector | StartTask = StartTask(item, connector_config, task_config or {}, target, generation)
    else:
        command = StartConnector(item, connector_config, target)
    turn.emit(StartInstance(item, epoch, command))


def stop(turn: Turn, item: ItemId, waiting: tuple[RequestId, ...] = (), *, restart: RestartCause = RestartCause.NONE,
         disowned: bool = False) -> None:
    """Stops an instance; with `restart`, another one starts once it has stopped. `disowned`: see Stopping."""
    instance = turn.state.instances.get(item)
    if instance is None:
        if restart is not RestartCause.NONE:
            start(turn, item, waiting, restart)
        return
    disowned = disowned or (instance.stopping is not None and instance.stopping.disowned)
    stopping = Stopping(restart, disowned)
    turn.set_instance(item, replace(instance, stopping=stopping, waiting=instance.waiting + waiting))
    if not instance.stopping:
        automatic_restarts.on_stopping(turn, item, disowned=disowned)
        turn.emit(StopInstance(item, instance.epoch))
        turn.timer((Timer.STOP, str(instance.epoch)), turn.now + turn.state.settings.graceful_stop_ms)


def release(turn: Turn, items: Iterable[ItemId], *, disowned: bool = False) -> None:
    """Stops instances that the group waits for: the next join, or the end of the rebalance, follows once they have
    stopped. `disowned`: see Stopping.
    """
    held = [item for item in items if item in turn.state.instances]
    turn.state = replace(turn.state, release=with_items(turn.state.release, turn.state.releasing | frozenset(held)))
    for item in held:
        stop(turn, item, disowned=disowned)


def start_missing(turn: Turn) -> None:
    """Starts what is allocated but does not run, connectors first."""
    for item in turn.state.allocated():
        if item not in turn.state.instances:
            is_replaced = item in turn.state.reconfigured
            start(turn, item, restarted=RestartCause.REPLACEMENT if is_replaced else RestartCause.NONE)


def drop_unknown(turn: Turn) -> None:
    """Drops what the leader assigned but the config topic does not have, or not any more: it cannot run, and claimed in
    the next join it would take the room of others. What runs here although it was deleted is kept until the leader
    revokes it.
    """
    config = turn.state.config
    unknown = [item for item in turn.state.allocated() if item not in turn.state.instances and (
        not config.contains(connector_of(item))
        or (isinstance(item, ConnectorTaskId) and item.task >= config.task_count(item.connector)))]
    if unknown:
        turn.state = replace(turn.state, allocation=turn.state.allocation.minus(Allocation.of(unknown)))
        turn.log("WARNING", f"Not started: {sizes(Allocation.of(unknown), names=True)} that the leader has assigned "
                            "but the config topic does not have")


def log_moved(turn: Turn) -> None:
    """A rebalance for new task configs is over: logs the tasks that stopped and did not start here again; this was not
    logged when they stopped.
    """
    for task in sorted(turn.state.reconfigured):
        if task not in turn.state.instances:
            turn.log("INFO", "Task stopped", task)
    turn.state = replace(turn.state, reconfigured=frozenset())


def repeat_statuses(turn: Turn, *, lost: bool = False) -> None:
    """Writes the statuses of everything that runs here again; `lost`: only those that the status topic lacks. A leader
    that removes the statuses of a deleted connector may remove those of a new connector of the same name with them.
    """
    known = turn.statuses
    for item, instance in turn.state.instances.items():
        if lost and (item.task in known.tasks.get(item.connector, {}) if isinstance(item, ConnectorTaskId)
                     else item in known.connectors):
            continue
        if instance.state is not None and not instance.stopping:
            turn.status(item, instance.state, instance.trace, instance.version)


def report_stopped(turn: Turn) -> None:
    """Writes UNASSIGNED for what is allocated but does not run: it stopped while this worker was not a member."""
    for item in turn.state.allocated():
        if item not in turn.state.instances and turn.exists(item):
            turn.status(item, State.UNASSIGNED)


def report_gone(turn: Turn) -> None:
    """Writes UNASSIGNED, as a worker outside the group, where a status says that this worker runs an item that it does
    not run.
    """
    statuses, me = turn.statuses, turn.state.settings.worker_id
    known = [*statuses.connectors.values(), *(s for some in statuses.tasks.values() for s in some.values())]
    for status in known:
        if status.worker_id == me and status.state is not State.UNASSIGNED and status.id not in turn.state.instances:
            turn.status(status.id, State.UNASSIGNED, disowned=True)


def propagate_target_state(turn: Turn, items: Iterable[ItemId], target: TargetState) -> None:
    """Sends the instances of these items, which run here, their new target state."""
    for item in items:
        instance = turn.state.instances[item]
        if not instance.stopping:
            turn.emit(ChangeInstance(item, instance.epoch, target))


def on_report(turn: Turn, report: ConnectorStateReported | TaskStateReported) -> None:
    """An instance reports its state; reports of an abandoned instance are ignored."""
    item: ItemId = report.task if isinstance(report, TaskStateReported) else report.connector
    instance = turn.state.instances.get(item)
    if instance is None or instance.epoch != report.epoch:
        turn.log("DEBUG", f"Ignored the state {report.state.value} of an earlier instance", item)
        return
    kind = "task" if is_task(item) else "connector"
    if report.stopped_for_good:
        if instance.state is not State.STOPPED:  # which was logged already
            # Then its start is logged, as a restart.
            continues = _continues(turn, item, instance.stopping or Stopping()) or item in turn.state.reconfigured
            turn.log("DEBUG" if continues else "INFO", f"{kind.capitalize()} stopped", item)
        _gone(turn, item)
        return
    if instance.stopping and report.state is not State.FAILED:
        return
    stalled = instance.stalled if report.state is not State.FAILED else None
    waiting = instance.waiting if instance.stopping else ()  # for the next one, or for its end
    turn.set_instance(item, replace(instance, state=report.state, trace=report.trace, version=report.version,
                                    waiting=waiting, permanent=report.permanent, stalled=stalled))
    if report.state is State.FAILED and not instance.stopping:
        automatic_restarts.on_failed(turn, item)
    first = instance.state is None and not instance.stopping
    turn.status(item, report.state, report.trace, report.version, first=first)
    # As in Kafka Connect, where only the creation of a task belongs to the request to restart it.
    failed = report.state is State.FAILED and not (isinstance(report, TaskStateReported) and report.created)
    for request_id in () if instance.stopping else instance.waiting:
        turn.reply(request_id, error=ConnectError(f"Failed to start {kind}: {item}") if failed else None)
    if became := _state_message(instance, report.state):
        turn.log("INFO", f"{kind.capitalize()} {became}", item)
    if report.state is State.RUNNING and not isinstance(item, ConnectorTaskId):
        turn.enqueue(None, Reconfigure(item, 0, turn.now))


def _state_message(instance: Instance, state: State) -> str | None:
    """The words of the log line about an instance's new state; None if there is none. That it has failed is logged by
    its actor.
    """
    if state is instance.state:
        return None
    if instance.state is not None:
        return _BECAME.get(state)
    if state is State.RUNNING:
        return instance.restarted.start_text
    if instance.restarted is not RestartCause.NONE:
        return f"{instance.restarted.start_text} ({state.value})"
    return f"assigned to this worker, and {_BECAME[state]}" if state in _BECAME else None


def on_stop_timeout(turn: Turn, event: TimerFired) -> None:
    """The graceful stop took too long: continues without the instance."""
    epoch = Epoch(int(event.key[1]))
    for item, instance in turn.state.instances.items():
        if instance.epoch == epoch and instance.stopping:
            turn.emit(AbandonInstance(item, epoch, turn.state.settings.graceful_stop_ms))
            _gone(turn, item)
            return


def _gone(turn: Turn, item: ItemId) -> None:
    instance = turn.drop_instance(item)
    stopping = instance.stopping or Stopping()
    turn.emit(CancelTimer((Timer.STOP, str(instance.epoch))))
    if not is_task(item):  # its outstanding requests will not be answered
        ops = {op: then for op, then in turn.state.ops.items()
               if not (isinstance(then, GeneratedTasks) and then.reconfigure.connector == item)}
        turn.state = replace(turn.state, ops=ops)
    if turn.exists(item):
        turn.status(item, State.UNASSIGNED, disowned=stopping.disowned)
    if _continues(turn, item, stopping):
        start(turn, item, instance.waiting, stopping.restart)
    else:
        for request_id in instance.waiting:
            turn.reply(request_id, error=ConflictError(f"{item} was stopped before it could be restarted"))
    if item in turn.state.releasing:
        turn.state = replace(turn.state, release=with_items(turn.state.release, turn.state.releasing - {item}))
        if not turn.state.releasing:
            flush(turn)


def _continues(turn: Turn, item: ItemId, stopping: Stopping) -> bool:
    """Whether another instance follows here."""
    wanted = stopping.restart is not RestartCause.NONE and item in turn.state.allocation
    return wanted and turn.state.phase not in (Phase.HALTING, Phase.HALTED)


def flush(turn: Turn) -> None:
    """Has the statuses of released work acknowledged before the rebalance continues.

    Otherwise a late UNASSIGNED could overwrite the new owner's RUNNING.
    """
    if isinstance(turn.state.release, FlushingStatuses):
        turn.take_op(turn.state.release.op)  # it does not cover the statuses of what has stopped since
    op = turn.op(Released())
    turn.state = replace(turn.state, release=FlushingStatuses(op))
    turn.stage("flushing updates to the status topic")
    turn.emit(FlushStatuses(op))


def allow_join_when_released(turn: Turn) -> bool:
    """Answers a waiting JoinPreparing if nothing is still being released. Returns whether it was answered."""
    state, standing = turn.state, turn.state.standing
    if isinstance(standing, Joining) and standing.gate is Gate.WAITING and state.released:
        turn.state = replace(state, standing=Joining(standing.member), announced=state.allocation)
        turn.emit(AllowJoin(turn.state.allocation))
        turn.stage("ensuring membership in the cluster")
        return True
    return False


def refuse_waiting(turn: Turn, error: Exception) -> None:
    """Answers all requests that still wait with an error."""
    for queued in (*turn.state.queue, *turn.state.validating.values()):
        turn.reply(queued.request_id, error=error)
    answered = (AnswerWith, WriteNext, OffsetsRead)
    for then in turn.state.ops.values():
        if isinstance(then, answered):
            turn.reply(then.request_id, error=error)
    for instance in turn.state.instances.values():
        for request_id in instance.waiting:
            turn.reply(request_id, error=error)
    ops = {op: then for op, then in turn.state.ops.items() if not isinstance(then, answered)}
    turn.update_instances(lambda _, instance: replace(
        instance, waiting=(), stopping=instance.stopping and replace(instance.stopping, restart=RestartCause.NONE)))
    turn.state = replace(turn.state, queue=(), validating={}, ops=ops, busy=None)
