"""After the process was suspended past its session: work stops, and statuses are silent until others' are read."""

from __future__ import annotations

from dataclasses import replace

from actors.herder import rebalance, work
from actors.herder.events import Suspended
from actors.herder.standing import Absence, Gate, Joining, Phase, StatusWrites
from actors.herder.state import StatusesCaughtUp
from actors.herder.turn import Turn
from actors.messages.commands import ReadStatuses, RequestRejoin
from actors.messages.events import CoordinatorLost


def on_suspended(turn: Turn, event: Suspended) -> None:
    """The process was stopped past its session: whatever it still believes, others may run its work by now.

    This is heard before anything that came meanwhile, so that nothing is written as if the worker were a member.
    """
    if turn.state.phase in (Phase.LOADING, Phase.HALTED):
        return
    ops = {op: then for op, then in turn.state.ops.items() if then != StatusesCaughtUp()}
    turn.state = replace(turn.state, status_writes=StatusWrites.SUSPENDED, ops=ops)
    catch_up_with_statuses(turn)
    if turn.state.phase is Phase.OUT:  # the leader may have given our work to others meanwhile
        rebalance.disown(turn, tuple(turn.state.slots))
        work.release(turn, tuple(turn.state.slots))
    if turn.state.phase not in rebalance.DEAF:
        rebalance.on_coordinator_lost(turn, CoordinatorLost(f"this process did nothing for {event.for_ms} ms"))
        standing = turn.state.standing
        turn.enter(Joining(Absence.SUSPENDED, standing.gate if isinstance(standing, Joining) else Gate.OPEN))
        turn.emit(RequestRejoin("this process was suspended"))


def catch_up_with_statuses(turn: Turn) -> None:
    """Read what others have said while this process was suspended, so that what it says then hides nothing."""
    state = turn.state
    suspended = state.status_writes is StatusWrites.SUSPENDED
    if suspended and state.phase is not Phase.HALTED and not state.expects(StatusesCaughtUp()):
        turn.emit(ReadStatuses(turn.op(StatusesCaughtUp()), turn.state.settings.sync_timeout_ms))


def on_statuses_read(turn: Turn, error: Exception | None) -> None:
    """The statuses are up to date; those that this worker can no longer stand for go."""
    if turn.state.status_writes is not StatusWrites.SUSPENDED:
        return
    if error is not None:
        turn.timer(("statuses", ""), turn.now + rebalance.retry_ms(turn))
        return
    turn.state = replace(turn.state, status_writes=StatusWrites.CURRENT)
    if turn.state.membership is None:
        work.report_gone(turn)
