"""The herder's core: `step(state, event) -> (state, effects)`. No IO, no clock, no randomness.

Read `advance` first: it decides what to do next after every event. table.py lists the handler for each phase and event,
and imports the modules that have them; docs/herder.md shows the table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from actors.herder import config_changes, leadership, request_timeouts, requests, task_configs, zombie_fencing
from actors.herder.continuations import PrivilegesClaimed
from actors.herder.effects import Effect
from actors.herder.events import Event, Payload, ProducersFenced, TaskConfigsPublished, TimerFired
from actors.herder.fencing_state import Fenced, RecordFencing
from actors.herder.own_requests import Publish, Reconfigure
from actors.herder.standing import Phase
from actors.herder.state import HerderState, Queued
from actors.herder.table import EVENTS, OPS, impossible
from actors.herder.turn import Turn
from actors.messages.correlation_ids import OpId
from actors.messages.events import ConfigOpDone, StatusesFlushed, StatusesRead
from storage.errors import PrivilegedWriteError


def step(state: HerderState, event: Event) -> tuple[HerderState, tuple[Effect, ...]]:
    """What a herder in `state` does about `event`. Pure.

    A defect while one request or op is handled becomes the error of that request or op. An exception raised here
    concerns the whole herder, which might wait forever if it continued without this step.
    """
    turn = Turn(state, event.now_ms, event.statuses)
    handle(turn, event.payload)
    advance(turn)
    request_timeouts.check(turn)
    return replace(turn.state, changed=frozenset(turn.changed), clock_ms=event.now_ms), tuple(turn.effects)


def handle(turn: Turn, payload: Payload) -> None:
    """Calls the handler that the table names for the event. Raises UnexpectedEventError."""
    match payload:
        case ConfigOpDone() | StatusesRead() | ProducersFenced() | TaskConfigsPublished():
            _on_op_end(turn, payload.op, payload.error)
        case StatusesFlushed():
            _on_op_end(turn, payload.op, None)
        case _:
            kind = payload.key[0] if isinstance(payload, TimerFired) else type(payload)
            if kind not in EVENTS:
                impossible(turn, payload)
            EVENTS[kind][turn.state.phase](turn, payload)


def advance(turn: Turn) -> None:
    """Does what is due: while the group is stable, first applies changed configs, then serves one request after
    another.

    Configs come first, so that a request that follows a write sees its result. If they need a rebalance that is
    postponed, some requests wait for it; others pass them.
    """
    while turn.state.phase is Phase.RESOLVED:
        config_changes.process(turn)
        state = turn.state
        if state.phase is not Phase.RESOLVED or state.busy is not None:
            return
        due = (queued for queued in state.queue if queued.at_ms <= turn.now)
        first = next((q for q in due if not (state.expects_rebalance and requests.follows_rebalance(q.request))), None)
        if first is None:
            return
        turn.state = replace(state, queue=tuple(queued for queued in state.queue if queued is not first))
        defect = turn.attempt(partial(requests.run, turn, first))
        if defect is not None:
            _on_defect(turn, first, defect)


def _on_defect(turn: Turn, queued: Queued, error: Exception) -> None:
    """Serving a request raised: the requester gets the error; the herder's own requests are retried or dropped."""
    match queued.request:
        case Reconfigure() as reconfigure:
            task_configs.retry(turn, reconfigure, error)
        case Publish(reconfigure):
            task_configs.retry(turn, reconfigure, error)
        case RecordFencing(connector):
            zombie_fencing.on_fenced(turn, Fenced(connector), error)
        case _:
            turn.reply(queued.request_id, error=error)


def _on_op_end(turn: Turn, op: OpId, error: Exception | None) -> None:
    awaited = turn.state.busy == op
    then = turn.take_op(op)
    if isinstance(error, PrivilegedWriteError) and not isinstance(then, PrivilegesClaimed):
        leadership.on_fenced(turn)
    if then is None:  # it was abandoned meanwhile
        return
    handler = OPS[type(then)][turn.state.phase]
    if handler is impossible:
        if awaited:  # without this step, the queue would wait forever
            raise RuntimeError(f"requests wait for {type(then).__name__}, which cannot end in {turn.state.phase.value}")
        impossible(turn, then)
    defect = turn.attempt(lambda: handler(turn, then, error))
    if defect is not None:
        handler(turn, then, defect)  # whatever waits for the op gets its error
