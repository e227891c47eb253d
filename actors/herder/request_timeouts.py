"""How long a request may wait for the group to become stable (rest.rebalance.wait.ms). A request that has not started
by then is refused. Nothing has been done for it yet, so the client may repeat it.
"""

from __future__ import annotations

from dataclasses import replace

from actors.errors import ConflictError
from actors.herder.effects import Timer
from actors.herder.events import TimerFired
from actors.herder.standing import Phase
from actors.herder.turn import Turn

REFUSAL = ("Cannot complete request momentarily: a rebalance was underway for longer than the request may wait "
           "(rest.rebalance.wait.ms)")


def on_due(turn: Turn, _: TimerFired) -> None:
    """A request may have waited too long; `check`, which follows each event, refuses it."""
    turn.state = replace(turn.state, request_timeout_at=None)


def check(turn: Turn) -> None:
    """While the group is not stable: refuses requests that have waited too long, and sets the timer for the others."""
    state = turn.state
    if state.phase is Phase.RESOLVED:
        return
    over = [q for q in state.queue if q.until_ms is not None and q.until_ms <= turn.now]
    for queued in over:
        turn.reply(queued.request_id, error=ConflictError(REFUSAL))
    if over:
        turn.state = replace(state, queue=tuple(q for q in state.queue if q not in over))
    waiting = [q.until_ms for q in turn.state.queue if q.until_ms is not None]
    if waiting and (state.request_timeout_at is None or state.request_timeout_at > min(waiting)):
        turn.state = replace(turn.state, request_timeout_at=min(waiting))
        turn.timer((Timer.REQUEST_TIMEOUT, ""), min(waiting))
