"""After the process was suspended for longer than its session timeout, work is stopped, and no statuses are written
until those of other workers have been read.
"""

from __future__ import annotations

from dataclasses import replace

from actors.herder import rebalance, work
from actors.herder.continuations import StatusesCaughtUp
from actors.herder.effects import Timer
from actors.herder.events import Suspended, TimerFired
from actors.herder.standing import Absence, Gate, Joining, StatusWrites
from actors.herder.turn import Turn
from actors.messages.commands import ReadStatuses
from actors.messages.events import CoordinatorLost


# The session expired while the process was suspended: others may run its work by now. Suspended is handled before any
# event that arrived meanwhile, so that nothing is written as if the worker were still a member.
def while_halting(turn: Turn, _: Suspended) -> None:
    """Writes no statuses until those of other workers have been read."""
    ops = {op: then for op, then in turn.state.ops.items() if then != StatusesCaughtUp()}
    turn.state = replace(turn.state, status_writes=StatusWrites.SUSPENDED, ops=ops)
    catch_up_with_statuses(turn)


def while_out(turn: Turn, event: Suspended) -> None:
    """The leader may have assigned the work that it held for this worker to others: stops everything."""
    while_halting(turn, event)
    work.release(turn, tuple(turn.state.instances), disowned=True)


def while_member(turn: Turn, event: Suspended) -> None:
    """The membership is lost, although the group member has not noticed yet."""
    while_halting(turn, event)
    rebalance.on_coordinator_lost(turn, CoordinatorLost(f"this process was suspended for {event.for_ms} ms"))
    standing = turn.state.standing
    turn.enter(Joining(Absence.SUSPENDED, standing.gate if isinstance(standing, Joining) else Gate.OPEN))
    rebalance.request(turn, "this process was suspended", level="DEBUG")  # logged as a lost coordinator


def catch_up_with_statuses(turn: Turn) -> None:
    """Reads the statuses that others wrote while this process was suspended, so that it does not overwrite them."""
    state = turn.state
    if state.status_writes is StatusWrites.SUSPENDED and not state.expects(StatusesCaughtUp()):
        turn.emit(ReadStatuses(turn.op(StatusesCaughtUp()), turn.state.settings.sync_timeout_ms))


def on_read_due(turn: Turn, _: TimerFired) -> None:
    """Tries again to read the status topic."""
    catch_up_with_statuses(turn)


def on_statuses_read(turn: Turn, _: StatusesCaughtUp, error: Exception | None) -> None:
    """The statuses are up to date: corrects those that claim that this worker runs work that it does not run."""
    if turn.state.status_writes is not StatusWrites.SUSPENDED:
        return
    if error is not None:
        turn.timer((Timer.STATUSES, ""), turn.now + rebalance.retry_ms(turn))
        return
    turn.state = replace(turn.state, status_writes=StatusWrites.CURRENT)
    if turn.state.membership is None:
        work.report_gone(turn)
