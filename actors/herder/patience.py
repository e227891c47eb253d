"""How long a request may wait for the group to settle (rest.rebalance.wait.ms): one that has not been begun by then is
refused, which says that nothing of it was done, so that whoever asked may ask again.
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
    """The time of a request may be over; `check`, which follows each event, sees to it."""
    turn.state = replace(turn.state, patience_at=None)


def check(turn: Turn) -> None:
    """Refuse what has waited long enough while the group is not settled, and be woken for what may still wait."""
    state = turn.state
    if state.phase is Phase.RESOLVED:
        return
    over = [q for q in state.queue if q.until_ms is not None and q.until_ms <= turn.now]
    for queued in over:
        turn.reply(queued.request_id, error=ConflictError(REFUSAL))
    if over:
        turn.state = replace(state, queue=tuple(q for q in state.queue if q not in over))
    waiting = [q.until_ms for q in turn.state.queue if q.until_ms is not None]
    if waiting and (state.patience_at is None or state.patience_at > min(waiting)):
        turn.state = replace(turn.state, patience_at=min(waiting))
        turn.timer((Timer.PATIENCE, ""), min(waiting))
