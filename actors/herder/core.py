"""The herder's core: `step(state, event) -> (state, effects)`. No IO, no clock, no randomness.

Read `advance` first: it says what a herder does next whenever something has happened. The handlers by subject are in
requests.py, rebalance.py, suspension.py, leading.py, config_changes.py, restarts.py, task_configs.py,
zombie_fencing.py, work.py and halting.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from actors.herder import (
    config_changes,
    halting,
    leading,
    rebalance,
    requests,
    suspension,
    task_configs,
    work,
    zombie_fencing,
)
from actors.herder.effects import Effect
from actors.herder.events import (
    Event,
    HaltRequested,
    Loaded,
    ProducersFenced,
    RequestReceived,
    Suspended,
    TaskConfigsPublished,
    TimerFired,
    Validated,
)
from actors.herder.fencing_state import (
    Fenced,
    FencingChecked,
    FencingRead,
    FencingRecorded,
    RecordFencing,
    RestartRead,
    StartVerified,
)
from actors.herder.standing import Joining, Phase
from actors.herder.state import (
    AnswerWith,
    AnswerWithPlan,
    GeneratedTasks,
    HaltFlushed,
    HerderState,
    JoinAgain,
    KeyWritten,
    PrivilegesClaimed,
    Publish,
    PublishedTasks,
    Queued,
    Reconfigure,
    Released,
    ResolveAssignment,
    StatusesCaughtUp,
    WriteNext,
)
from actors.herder.turn import Turn
from actors.messages.commands import JoinGroup
from actors.messages.events import (
    ConfigChanged,
    ConfigOpDone,
    ConnectorStateReported,
    CoordinatorLost,
    Joined,
    JoinPreparing,
    StatusesFlushed,
    StatusesRead,
    TaskConfigsGenerated,
    TaskReconfigurationRequested,
    TaskStateReported,
)
from actors.messages.ids import Epoch, OpId
from storage.errors import PrivilegedWriteError


class UnexpectedEventError(Exception):
    """An event that no herder can get; names it and the phase it came in."""


def step(state: HerderState, event: Event) -> tuple[HerderState, tuple[Effect, ...]]:
    """What a herder in `state` does about `event`. Pure.

    A defect in what one request or op leads to is that one's error. An exception that leaves here is a defect of what
    concerns all: a herder that goes on without that step may wait for ever.
    """
    handler = HANDLERS.get(type(event.payload))
    if handler is None:
        raise UnexpectedEventError(f"{type(event.payload).__name__} in phase {state.phase.value}")
    turn = Turn(state, event.now_ms, event.statuses)
    handler(turn, event.payload)
    advance(turn)
    return turn.state, tuple(turn.effects)


def advance(turn: Turn) -> None:
    """Do what is due: while the group is settled, first act on changed configs, then serve one request after another.

    Configs first, so that a request that follows a write sees what the write did.
    """
    while turn.state.phase is Phase.RESOLVED:
        config_changes.process(turn)
        state = turn.state
        if state.phase is not Phase.RESOLVED or state.busy is not None or not state.queue:
            return
        head = state.queue[0]
        if head.at_ms > turn.now:
            return
        turn.state = replace(turn.state, queue=state.queue[1:])
        defect = turn.attempt(partial(requests.run, turn, head))
        if defect is not None:
            _on_defect(turn, head, defect)


def _on_defect(turn: Turn, queued: Queued, error: Exception) -> None:
    """Serving a request raised: whoever asked hears of it; what the herder wants itself is tried again, or given up."""
    match queued.request:
        case Reconfigure() as reconfigure:
            task_configs.retry(turn, reconfigure, error)
        case Publish(reconfigure):
            task_configs.retry(turn, reconfigure, error)
        case RecordFencing(connector):
            zombie_fencing.on_fenced(turn, Fenced(connector), error)
        case _:
            turn.reply(queued.request_id, error=error)


def _on_loaded(turn: Turn, event: Loaded) -> None:
    turn.state = replace(
        turn.state, standing=Joining(), store=event.snapshot, config=event.snapshot, connector_updates=frozenset(),
        target_changes=frozenset(), task_updates=frozenset(), restarts={}, needs_rebalance=None)
    turn.stage("ensuring membership in the cluster")
    turn.emit(JoinGroup())


def _on_request(turn: Turn, event: RequestReceived) -> None:
    if turn.state.phase in (Phase.HALTING, Phase.HALTED):
        turn.reply(event.request_id, error=halting.refusal())
        return
    defect = turn.attempt(lambda: requests.on_received(turn, event.request_id, event.request))
    if defect is not None:
        turn.reply(event.request_id, error=defect)


def _on_validated(turn: Turn, event: Validated) -> None:
    requests.on_validated(turn, event.request_id, event.error)


def _on_op_done(turn: Turn, op: OpId, error: Exception | None) -> None:
    then = turn.take_op(op)
    if isinstance(error, PrivilegedWriteError) and not isinstance(then, PrivilegesClaimed):
        leading.on_fenced(turn)
    if then is None:  # it was given up meanwhile
        return
    after = _AFTER[type(then)]
    defect = turn.attempt(lambda: after(turn, then, error))
    if defect is not None:
        after(turn, then, defect)  # whoever waits for the op hears of its error


def _on_timer(turn: Turn, event: TimerFired) -> None:
    match event.key:
        case ("stop", epoch):
            work.on_stop_timeout(turn, Epoch(int(epoch)))
            halting.flush_when_empty(turn)
        case ("join", _):
            rebalance.on_backed_off(turn)
        case ("rebalance", _):
            rebalance.on_scheduled_rebalance(turn)
        case ("failed round", _):
            rebalance.on_failed_round(turn)
        case ("claim", _):
            leading.claim_privileges(turn)
        case ("statuses", _):
            suspension.catch_up_with_statuses(turn)
        case ("purge", _):
            leading.on_purge_due(turn)
        case ("session key", _):
            if turn.state.is_leader and turn.state.phase is Phase.RESOLVED:
                leading.ensure_session_key(turn)
        case _:
            turn.set_queue_timer()


HANDLERS: Mapping[type, Callable[[Turn, Any], None]] = {
    Loaded: _on_loaded,
    RequestReceived: _on_request,
    Validated: _on_validated,
    ConfigChanged: config_changes.on_config_changed,
    ConfigOpDone: lambda turn, e: _on_op_done(turn, e.op, e.error),
    StatusesFlushed: lambda turn, e: _on_op_done(turn, e.op, None),
    StatusesRead: lambda turn, e: _on_op_done(turn, e.op, e.error),
    ProducersFenced: lambda turn, e: _on_op_done(turn, e.op, e.error),
    TaskConfigsPublished: lambda turn, e: _on_op_done(turn, e.op, e.error),
    TaskConfigsGenerated: task_configs.on_generated,
    TaskReconfigurationRequested: task_configs.on_requested,
    JoinPreparing: rebalance.on_join_preparing,
    Joined: rebalance.on_joined,
    CoordinatorLost: rebalance.on_coordinator_lost,
    Suspended: suspension.on_suspended,
    ConnectorStateReported: halting.or_report,
    TaskStateReported: halting.or_report,
    TimerFired: _on_timer,
    HaltRequested: halting.on_requested,
}

# What the end of an op leads to.
_AFTER: Mapping[type, Callable[[Turn, Any, Exception | None], None]] = {
    AnswerWith: requests.on_written,
    WriteNext: requests.on_written,
    AnswerWithPlan: requests.on_written,
    ResolveAssignment: rebalance.on_caught_up,
    JoinAgain: lambda turn, _, error: rebalance.on_readable_again(turn, error),
    PublishedTasks: task_configs.on_published,
    KeyWritten: lambda turn, _, error: leading.on_key_written(turn, error),
    PrivilegesClaimed: lambda turn, _, error: leading.on_claimed(turn, error),
    FencingRead: zombie_fencing.on_read,
    Fenced: zombie_fencing.on_fenced,
    FencingChecked: zombie_fencing.on_checked,
    FencingRecorded: zombie_fencing.on_recorded,
    StartVerified: zombie_fencing.on_verified,
    RestartRead: zombie_fencing.on_restart_read,
    Released: lambda turn, _, __: rebalance.on_released(turn),
    HaltFlushed: lambda turn, _, __: halting.on_flushed(turn),
    StatusesCaughtUp: lambda turn, _, error: suspension.on_statuses_read(turn, error),
    GeneratedTasks: lambda _, __, ___: None,
}
