"""From a connector's task configs to the config topic: asked for, compared, written by the leader or sent to it, and
repeated with back-off until it worked, so that no reconfiguration is ever lost.
"""

from __future__ import annotations

from dataclasses import replace

from actors.herder.effects import AskTaskConfigs, SendTaskConfigs
from actors.herder.state import GeneratedTasks, PublishedTasks, Reconfigure
from actors.herder.turn import Turn
from actors.messages import PutTaskConfigSet, TaskConfigsGenerated, TaskReconfigurationRequested, WriteConfig
from storage.ids import Config, ConnectorName, State, TargetState

BACKOFF_FIRST_MS, BACKOFF_LAST_MS = 250, 60_000
KEY_ROTATION_MS = 60_000


def on_requested(turn: Turn, event: TaskReconfigurationRequested) -> None:
    """A connector noticed that its task configs are out of date."""
    slot = turn.state.slots.get(event.connector)
    if slot is not None and slot.epoch == event.epoch:
        turn.enqueue(None, Reconfigure(event.connector, 0, turn.now))


def reconfigure(turn: Turn, request: Reconfigure) -> None:
    """Ask the connector, if it still runs here."""
    slot = turn.state.slots.get(request.connector)
    target = turn.state.config.target_state(request.connector)
    if slot is None or slot.stopping or slot.state is not State.RUNNING or target is not TargetState.STARTED:
        turn.log("DEBUG", f"{request.connector}: no reconfiguration, the connector does not run here")
        return
    op = turn.op(GeneratedTasks(request))
    turn.emit(AskTaskConfigs(request.connector, slot.epoch, op))


def on_generated(turn: Turn, event: TaskConfigsGenerated) -> None:
    """Publish the configs if they, or the connector config that they were made from, are new."""
    then = turn.take_op(event.op)
    slot = turn.state.slots.get(event.connector)
    if not isinstance(then, GeneratedTasks) or slot is None or slot.epoch != event.epoch:
        return
    if event.error is not None:
        _retry(turn, then.reconfigure, event.error)
        return
    if not changed(turn, event.connector, event.configs):
        turn.log("DEBUG", f"{event.connector}: task configs are unchanged")
        return
    op = turn.op(PublishedTasks(then.reconfigure))
    if turn.state.is_leader:
        turn.stage(f"writing task configs for connector {event.connector} to the config topic")
        turn.emit(WriteConfig(op, PutTaskConfigSet(event.connector, event.configs)))
    elif turn.state.leader_url is not None:
        turn.emit(SendTaskConfigs(op, turn.state.leader_url, event.connector, event.configs,
                                  turn.state.store.session_key if turn.state.settings.sessioned else None))
    else:
        turn.take_op(op)
        _retry(turn, then.reconfigure, ConnectionError("no leader is known"))


def changed(turn: Turn, connector: ConnectorName, configs: tuple[Config, ...]) -> bool:
    """Whether the tasks have to be written: another number, other configs, or a connector config not applied yet."""
    config = turn.state.store
    if len(configs) != config.task_count(connector) or connector in config.inconsistent:
        return True
    if list(configs) != config.raw_task_configs(connector):
        return True
    return config.applied_configs.get(connector) != config.connector_configs.get(connector)


def on_published(turn: Turn, then: PublishedTasks, error: Exception | None) -> None:
    """The leader has them, or it is tried again."""
    turn.stage_done()
    if error is not None:
        _retry(turn, then.reconfigure, error)


def _retry(turn: Turn, request: Reconfigure, error: Exception) -> None:
    delay = min(BACKOFF_FIRST_MS * 2**request.attempt, BACKOFF_LAST_MS)
    rotating = getattr(error, "status", None) == 403 and turn.now - request.first_ms < KEY_ROTATION_MS
    turn.log("DEBUG" if rotating else "ERROR",
             f"{request.connector}: failed to reconfigure the tasks, trying again in {delay} ms: {error}")
    turn.enqueue(None, replace(request, attempt=request.attempt + 1), delay)
