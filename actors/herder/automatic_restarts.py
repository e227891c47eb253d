"""Automatic restarts (errors.restart.*): connectors and tasks that failed or stalled are restarted after a delay that
doubles, a limited number of times in a period. A failure that a restart cannot fix is left to an operator.

This module decides; the restart goes through the queue like a request (restarts.restart_automatically), so it happens
only while the group is stable.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from actors.herder.instance import RestartCause
from actors.herder.own_requests import Restart
from actors.herder.standing import Phase
from actors.herder.state import AutomaticRestarts, connector_of
from actors.herder.turn import Turn
from actors.messages.events import InstanceRecovered, InstanceStalled
from spark_tasks.config.restart_policy import RestartPolicy
from storage.ids import ConnectorName, ConnectorTaskId, ItemId, State
from storage.status.state import Stall

MAX_CAUSE = 300  # characters
MAX_STALL = 20_000  # characters: the stacks of a few processes


def policy_of(turn: Turn, item: ItemId) -> RestartPolicy:
    """The restart policy from the connector's configuration and the worker's."""
    state = turn.state
    return state.settings.restart_policy(state.config.connector_configs.get(connector_of(item), {}))


def on_failed(turn: Turn, item: ItemId) -> None:
    """An instance has failed. Called before its status is written, because the status includes the planned restart."""
    policy, instance = policy_of(turn, item), turn.state.instances[item]
    if not policy.failed or turn.state.phase in (Phase.HALTING, Phase.HALTED):
        _forget(turn, item)
        return
    cause = f"failed: {_line(instance.trace or '')}"
    if instance.permanent:
        before = turn.state.automatic_restarts.get(item, AutomaticRestarts(instance.epoch))
        _remember(turn, item, replace(before, epoch=instance.epoch, cause=cause, outlook="permanent"))
        turn.log("ERROR", f"A restart cannot fix this, so it stays FAILED: {cause}", item)
    else:
        _plan(turn, item, policy, Restart(item, instance.epoch, RestartCause.AFTER_FAILURE), cause)


def on_stalled(turn: Turn, event: InstanceStalled) -> None:
    """A connector or task makes no progress: reports it, and restarts it if its policy says so."""
    instance = turn.state.instances.get(event.item)
    failed = instance is not None and instance.state is State.FAILED
    over = failed and isinstance(event.item, ConnectorTaskId)  # a connector that has failed may hang in a later stop()
    if instance is None or instance.epoch != event.epoch or instance.stopping or over:
        return
    turn.log("WARNING", f"No progress: {event.what}", event.item)
    turn.set_instance(event.item, replace(instance, stalled=Stall(turn.now - event.for_ms, event.what[:MAX_STALL])))
    policy = policy_of(turn, event.item)
    restart = Restart(event.item, event.epoch, RestartCause.AFTER_STALL)
    planned = restart in turn.state.own_requests()
    if policy.stalled and event.hangs and not (planned or failed):
        line = f"stalled: {_line(event.what)}"
        _plan(turn, event.item, policy, restart, line)
    if instance.state is not None and turn.exists(event.item):
        turn.status(event.item, instance.state, instance.trace, instance.version)


def on_recovered(turn: Turn, event: InstanceRecovered) -> None:
    """What was stalled makes progress again: cancels its restart."""
    instance, known = turn.state.instances.get(event.item), turn.state.automatic_restarts.get(event.item)
    if instance is None or instance.epoch != event.epoch or instance.stopping or instance.stalled is None:
        return
    turn.log("INFO", "Makes progress again after a stall", event.item)
    turn.set_instance(event.item, replace(instance, stalled=None))
    planned = known is not None and known.epoch == event.epoch and known.next_ms is not None
    if known is not None and planned and instance.state is not State.FAILED:
        _remember(turn, event.item, replace(known, outlook=None))
    if instance.state is not None and turn.exists(event.item):
        turn.status(event.item, instance.state, instance.trace, instance.version)


def _plan(turn: Turn, item: ItemId, policy: RestartPolicy, request: Restart, cause: str) -> None:
    before = turn.state.automatic_restarts.get(item, AutomaticRestarts(request.epoch))
    recent = policy.counted_restarts(before.recent, turn.now)
    next_ms = policy.next_ms(recent, turn.now)
    _remember(turn, item, AutomaticRestarts(request.epoch, cause, next_ms, recent, before.count))
    turn.enqueue(None, request, next_ms - turn.now)
    # The restart comes first and the cause last, because the story truncates long lines.
    turn.log("WARNING", f"Restarting in {(next_ms - turn.now) / 1000:g} s, after {len(recent)} of at most "
                        f"{policy.limit} restarts in {policy.period_ms / 1000:g} s (errors.restart.*): {cause}", item)


def begin(turn: Turn, request: Restart) -> bool:
    """A planned restart is due: counts it, unless what it was planned for is over. Returns whether to restart."""
    state, item = turn.state, request.item
    instance, known = state.instances.get(item), state.automatic_restarts.get(item)
    if instance is None or known is None or instance.stopping:
        return False
    if not instance.epoch == known.epoch == request.epoch:
        return False
    if request.cause is RestartCause.AFTER_STALL and known.next_ms is None:  # the task has made progress meanwhile
        return False
    recent = (*policy_of(turn, item).counted_restarts(known.recent, turn.now), turn.now)
    _remember(turn, item, replace(known, outlook=None, recent=recent, count=known.count + 1))
    if turn.exists(item):
        # The instance may take long to stop; meanwhile its status must not show a next attempt that is in the past.
        turn.status(item, State.RESTARTING, None, instance.version)
    return True


def on_stopping(turn: Turn, item: ItemId, *, disowned: bool) -> None:
    """An instance is being stopped for another reason than its planned restart, which is cancelled: stopping may take
    long, and meanwhile the status must not show a next attempt that is in the past.
    """
    instance, known = turn.state.instances[item], turn.state.automatic_restarts.get(item)
    if known is None or known.next_ms is None or known.epoch != instance.epoch:
        return
    _remember(turn, item, replace(known, outlook=None))
    if instance.state is not None and not disowned and turn.exists(item):
        turn.status(item, instance.state, instance.trace, instance.version)


def on_started(turn: Turn, item: ItemId) -> None:
    """A new instance starts, for whatever reason: cancels the restart that was planned for the former one."""
    known = turn.state.automatic_restarts.get(item)
    if known is not None:
        _remember(turn, item, replace(known, outlook=None))


def on_new_configs(turn: Turn, connectors: Collection[ConnectorName]) -> None:
    """Configurations have changed: former failures no longer lengthen the next delay, and the policy may be new."""
    for item, known in turn.state.automatic_restarts.items():
        if connector_of(item) in connectors and policy_of(turn, item).failed:
            _remember(turn, item, replace(known, recent=()))
        elif connector_of(item) in connectors:
            _forget(turn, item)
    for item, instance in turn.state.instances.items():
        if connector_of(item) in connectors and instance.state is State.FAILED and not instance.stopping:
            planned = turn.state.automatic_restarts.get(item)
            if planned is None or planned.epoch != instance.epoch:
                on_failed(turn, item)
            turn.status(item, State.FAILED, instance.trace, instance.version)


def on_new_assignment(turn: Turn) -> None:
    """Forgets planned restarts of instances that other workers run now."""
    allocated = frozenset(turn.state.allocated())
    if not turn.state.automatic_restarts.keys() <= allocated:
        kept = {item: known for item, known in turn.state.automatic_restarts.items() if item in allocated}
        turn.state = replace(turn.state, automatic_restarts=kept)


def _remember(turn: Turn, item: ItemId, known: AutomaticRestarts) -> None:
    turn.state = replace(turn.state, automatic_restarts={**turn.state.automatic_restarts, item: known})


def _forget(turn: Turn, item: ItemId) -> None:
    if item in turn.state.automatic_restarts:
        others = {one: known for one, known in turn.state.automatic_restarts.items() if one != item}
        turn.state = replace(turn.state, automatic_restarts=others)


def _line(text: str) -> str:
    """The first line of a text, at most MAX_CAUSE characters."""
    line = text.strip().partition("\n")[0].strip()
    return line if len(line) <= MAX_CAUSE else line[: MAX_CAUSE - 1] + "…"
