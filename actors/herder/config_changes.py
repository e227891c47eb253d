"""Reacts to new records in the config topic. Changes are collected as they arrive and applied in one batch, only while
the worker's group is stable.
"""

from __future__ import annotations

from dataclasses import replace

from actors.herder import automatic_restarts, config_log, leadership, rebalance, restarts, task_configs, work
from actors.herder.effects import SetLoggerLevel, Timer
from actors.herder.events import TimerFired
from actors.herder.instance import RestartCause
from actors.herder.state import connector_of
from actors.herder.turn import Turn
from actors.messages.events import ConfigChanged
from storage.config.state import (
    ConfigChange,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TasksUpdated,
)
from storage.ids import ConnectorName

ITEMS_PER_MS = 50  # connectors and tasks in a rebalance
MIN_PAUSE_MS = 50


def on_config_changed(turn: Turn, event: ConfigChanged) -> None:
    """Collects the changes. A new or removed connector and any new set of tasks need a rebalance."""
    before, turn.state = turn.state.store, replace(turn.state, store=event.snapshot)
    config_log.announce(turn, before, event.changes)
    for change in event.changes:
        _collect(turn, change)


def _collect(turn: Turn, change: ConfigChange) -> None:
    state = turn.state
    offset = state.store.offset
    match change:
        case ConnectorUpdated(connector):
            needs = state.needs_rebalance if state.config.contains(connector) else offset
            turn.state = replace(state, connector_updates=state.connector_updates | {connector}, needs_rebalance=needs)
        case ConnectorRemoved(connector):
            needs = offset if state.config.contains(connector) else state.needs_rebalance
            turn.state = replace(state, connector_updates=state.connector_updates | {connector}, needs_rebalance=needs)
        case TasksUpdated(connector, tasks):
            task_configs.check_later(turn, connector)
            # A connector that was deleted and created again has no task configs here, but its tasks may still run.
            # Tasks that no longer exist stop as well, before the others start with what these had.
            ended = state.config.tasks(connector)[len(tasks):] if tasks else []
            former = frozenset(t for t in (*tasks, *ended) if t in state.config.task_configs or t in state.instances)
            turn.state = replace(turn.state, task_updates=state.task_updates | former, needs_rebalance=offset)
        case TargetStateChanged(connector):
            turn.state = replace(state, target_changes=state.target_changes | {connector})
        case RestartRequested(request):
            restarts.collect(turn, request)
        case LoggerLevelChanged(namespace, level):
            turn.emit(SetLoggerLevel(namespace, level))
        case SessionKeyChanged():
            pass  # the snapshot holds it


def process(turn: Turn) -> None:
    """Applies the collected changes. If they need a rebalance, requests it last: everything that stops for it has to be
    listed as being released before the member asks whether it may join.
    """
    state = turn.state
    wants_rebalance = state.expects_rebalance
    pause = _pause_ms(turn)
    if wants_rebalance and pause:  # always: an earlier timer may have fired in vain, during another rebalance
        turn.timer((Timer.POSTPONED_REBALANCE, ""), turn.now + pause)
    collected = state.connector_updates or state.target_changes or state.restarts
    if not (collected or (wants_rebalance and (pause == 0 or state.config is not state.store))):
        return
    # Determined before the snapshot is applied: a connector that a rebalance is about to assign is not "updated".
    updates = [c for c in sorted(state.connector_updates) if c in state.instances]
    targets = sorted(state.target_changes)
    turn.state = replace(state, config=state.store, connector_updates=frozenset(), target_changes=frozenset())
    leadership.empty_stopped(turn)
    for connector in updates:
        remains = turn.state.config.contains(connector)
        turn.log("DEBUG", "Restarting it with its new configuration" if remains else "Stopping it", connector)
        work.stop(turn, connector, restart=RestartCause.REPLACEMENT if remains else RestartCause.NONE)
    automatic_restarts.on_new_configs(turn, state.connector_updates)
    for connector in targets:
        _apply_target_state(turn, connector)
    if wants_rebalance and pause == 0:
        former = sorted(t for t in state.task_updates if t in turn.state.instances)
        turn.state = replace(turn.state, needs_rebalance=None, task_updates=frozenset(),
                             reconfigured=turn.state.reconfigured | frozenset(former))
        work.release(turn, former)
        rebalance.rejoin(turn, config_log.difference(state.config, turn.state.config), level="DEBUG")
    elif not wants_rebalance:  # a task must not start with new configs while others run with the old ones
        restarts.process(turn)


def on_rebalance_due(_turn: Turn, _: TimerFired) -> None:
    """The pause is over. `process`, which follows each event, requests the rebalance if it is still needed."""


def _pause_ms(turn: Turn) -> int:
    """How long to postpone the next rebalance, in ms; 0 if it need not wait.

    In a rebalance, each member lists everything that it runs. With thousands of connectors that takes a while, so
    requests are served for the same time before the next rebalance, which then covers all of them.
    """
    config, since = turn.state.config, turn.now - turn.state.settled_ms
    pause = (len(config.connector_configs) + len(config.task_configs)) // ITEMS_PER_MS
    return max(0, pause - since) if pause >= MIN_PAUSE_MS and since >= 0 else 0


def _apply_target_state(turn: Turn, connector: ConnectorName) -> None:
    target = turn.state.config.target_state(connector)
    if target is None:
        turn.log("DEBUG", "Ignoring a target state: the connector does not exist", connector)
        return
    # A connector that resumes reports RUNNING, which leads to new task configs: so a configuration that arrived while
    # it was paused takes effect then.
    work.propagate_target_state(turn, [i for i in turn.state.instances if connector_of(i) == connector], target)
