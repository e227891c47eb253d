"""The end of a worker: requests are refused, work is stopped, statuses are written, the group is left."""

from __future__ import annotations

from dataclasses import replace

from actors.herder import effects, work, zombie_fencing
from actors.herder.events import HaltRequested
from actors.herder.standing import Halted, Halting, Phase, with_items
from actors.herder.state import HaltFlushed
from actors.herder.turn import Turn
from actors.messages.commands import FlushStatuses, LeaveGroup
from actors.messages.events import ConnectorStateReported, TaskStateReported
from spark_tasks.errors import ConnectError


def refusal() -> ConnectError:
    """What a request is told during the end."""
    return ConnectError("Worker is shutting down")


def on_requested(turn: Turn, event: HaltRequested) -> None:
    """Stop everything at once; whatever the group wants meanwhile no longer matters."""
    if turn.state.phase in (Phase.HALTING, Phase.HALTED):
        return
    turn.log("INFO", f"Stopping the connectors and tasks of this worker: {event.reason}")
    state = turn.state
    turn.state = replace(state, standing=Halting(state.member), release=with_items(state.release, frozenset()))
    work.answer_halting(turn, refusal())
    zombie_fencing.answer_halting(turn, refusal())
    for item in tuple(turn.state.slots):
        work.stop(turn, item)
    flush_when_empty(turn)


def or_report(turn: Turn, report: ConnectorStateReported | TaskStateReported) -> None:
    """A report, in any phase."""
    work.on_report(turn, report)
    flush_when_empty(turn)


def flush_when_empty(turn: Turn) -> None:
    """Once the last instance is gone, have the last statuses acknowledged."""
    state = turn.state
    if state.phase is Phase.HALTING and not state.slots and HaltFlushed() not in state.ops.values():
        turn.emit(FlushStatuses(turn.op(HaltFlushed())))


def on_flushed(turn: Turn) -> None:
    """Everything is stopped and said; leave."""
    turn.enter(Halted())
    turn.emit(LeaveGroup("the worker is shutting down"), effects.Halted())
