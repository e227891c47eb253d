"""Task configs on their way from a connector to the config topic: they are requested from the connector, compared,
written by the leader or sent to it, and retried with backoff until that succeeds, so that none is ever lost.
"""

from __future__ import annotations

from dataclasses import replace

from actors.herder.continuations import GeneratedTasks, PublishedTasks
from actors.herder.effects import AskTaskConfigs, SendTaskConfigs
from actors.herder.limits import room_refusal
from actors.herder.own_requests import Publish, Reconfigure
from actors.herder.turn import Turn
from actors.messages.commands import PutTaskConfigSet, WriteConfig
from actors.messages.events import TaskConfigsGenerated, TaskReconfigurationRequested
from spark_tasks.backoff import doubled
from storage.ids import Config, ConnectorName, State, TargetState

CHECK_AFTER_MS = 2000
BACKOFF_FIRST_MS, BACKOFF_LAST_MS = 250, 60_000
KEY_ROTATION_MS = 60_000


def on_requested(turn: Turn, event: TaskReconfigurationRequested) -> None:
    """A connector reports that its task configs are out of date. This replaces the connector's
    waiting requests: each one that fails is repeated until it succeeds, so they would accumulate.
    """
    instance = turn.state.instances.get(event.connector)
    if instance is not None and instance.epoch == event.epoch:
        turn.state = replace(turn.state, queue=tuple(
            queued for queued in turn.state.queue
            if not (isinstance(queued.request, Reconfigure) and queued.request.connector == event.connector)))
        turn.enqueue(None, Reconfigure(event.connector, 0, turn.now))


def reconfigure(turn: Turn, request: Reconfigure) -> None:
    """Asks the connector for its task configs, if it still runs here."""
    instance = turn.state.instances.get(request.connector)
    target = turn.state.config.target_state(request.connector)
    runs = target is TargetState.STARTED and instance is not None and instance.state is State.RUNNING
    if instance is None or instance.stopping or not runs:
        turn.log("DEBUG", "Not reconfigured: the connector does not run on this worker", request.connector)
        return
    asked = (then for then in turn.state.ops.values() if isinstance(then, GeneratedTasks))
    if sum(then.reconfigure.connector == request.connector for then in asked) > 1:
        turn.log("DEBUG", "Not asked for task configs: it has not yet begun to answer an earlier request",
                 request.connector)
        return
    op = turn.op(GeneratedTasks(request))
    turn.emit(AskTaskConfigs(request.connector, instance.epoch, op))


def on_generated(turn: Turn, event: TaskConfigsGenerated) -> None:
    """Publishes the configs if they, or the connector config that they were generated from, are new."""
    then = turn.take_op(event.op)
    instance = turn.state.instances.get(event.connector)
    if not isinstance(then, GeneratedTasks) or instance is None or instance.epoch != event.epoch:
        return
    if event.error is not None:
        retry(turn, then.reconfigure, event.error)
        return
    turn.set_instance(event.connector, replace(instance, generated=event.configs))
    if not changed(turn, event.connector, event.configs):
        turn.log("DEBUG", "Task configs are unchanged", event.connector)
        return
    if turn.state.is_leader:
        # Queued like any request: if it ran between the two writes of a stop, the tasks would come back.
        turn.enqueue(None, Publish(then.reconfigure, event.configs))
    elif turn.state.leader_url is not None:
        key = turn.state.store.session_key if turn.state.settings.sessioned else None
        op = turn.op(PublishedTasks(then.reconfigure))
        turn.emit(SendTaskConfigs(op, turn.state.leader_url, event.connector, event.configs, key))
    else:
        retry(turn, then.reconfigure, ConnectionError("no leader is known"))


def check_later(turn: Turn, connector: ConnectorName) -> None:
    """The config topic has other task configs than the local connector generated last: asks it again after a while.

    They belong to the first half of a stop, or they are late: written by a worker that ran the connector before, or by
    a slow request.
    """
    instance = turn.state.instances.get(connector)
    if instance is None or instance.generated is None:
        return
    if list(instance.generated) != turn.state.store.raw_task_configs(connector):
        turn.enqueue(None, Reconfigure(connector, 0, turn.now), CHECK_AFTER_MS)


def publish(turn: Turn, request: Publish) -> None:
    """Leader: writes task configs, unless they have become obsolete since they were generated."""
    connector = request.reconfigure.connector
    if not turn.state.is_leader:
        turn.enqueue(None, request.reconfigure)
    elif _may_be_written(turn, connector, request.configs) and changed(turn, connector, request.configs):
        refusal = room_refusal(turn.state, connector, len(request.configs) - turn.state.config.task_count(connector))
        if refusal is not None:
            retry(turn, request.reconfigure, refusal)
            return
        op = turn.op(PublishedTasks(request.reconfigure))
        turn.state = replace(turn.state, busy=op)
        turn.stage(f"writing task configs for connector {connector} to the config topic")
        turn.emit(WriteConfig(op, PutTaskConfigSet(connector, request.configs)))


def _may_be_written(turn: Turn, connector: ConnectorName, configs: tuple[Config, ...]) -> bool:
    target = turn.state.config.target_state(connector)
    return target is TargetState.STARTED or (target is TargetState.STOPPED and not configs)


def changed(turn: Turn, connector: ConnectorName, configs: tuple[Config, ...]) -> bool:
    """Whether the task configs have to be written: their number or content differs from the topic's, or the connector
    config that they were generated from has not been applied yet.
    """
    config = turn.state.store
    if len(configs) != config.task_count(connector) or connector in config.inconsistent:
        return True
    if list(configs) != config.raw_task_configs(connector):
        return True
    return config.applied_configs.get(connector) != config.connector_configs.get(connector)


def on_published(turn: Turn, then: PublishedTasks, error: Exception | None) -> None:
    """The leader has the task configs, or publishing them failed and is retried."""
    turn.stage_done()
    if error is not None:
        retry(turn, then.reconfigure, error)


def retry(turn: Turn, request: Reconfigure, error: Exception) -> None:
    """Asks the connector again after a delay that doubles with each failure."""
    delay = doubled(BACKOFF_FIRST_MS, request.attempt, BACKOFF_LAST_MS)
    rotating = getattr(error, "status", None) == 403 and turn.now - request.first_ms < KEY_ROTATION_MS
    text = f"Failed to reconfigure the tasks, trying again in {delay} ms: {error}"
    turn.log("DEBUG" if rotating else "ERROR", text, request.connector)
    turn.enqueue(None, replace(request, attempt=request.attempt + 1), delay)
