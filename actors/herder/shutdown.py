"""The shutdown of a worker: it refuses requests, stops all work, writes statuses, and leaves the group."""

from __future__ import annotations

from dataclasses import replace

from actors.herder import effects, work, zombie_fencing
from actors.herder.continuations import HaltFlushed
from actors.herder.events import HaltRequested, RequestReceived, TimerFired
from actors.herder.standing import Halted, Halting, with_items
from actors.herder.turn import Turn
from actors.messages.commands import FlushStatuses, LeaveGroup
from actors.messages.events import ConnectorStateReported, TaskStateReported
from spark_tasks.errors import ConnectError


def _refusal() -> ConnectError:
    return ConnectError("Worker is shutting down")


def refuse(turn: Turn, event: RequestReceived) -> None:
    """Refuses a request that arrives during the shutdown."""
    turn.reply(event.request_id, error=_refusal())


def on_requested(turn: Turn, _: HaltRequested) -> None:
    """Stops everything at once, without waiting for the group. The worker has logged the reason."""
    state = turn.state
    turn.state = replace(state, standing=Halting(state.member), release=with_items(state.release, frozenset()))
    work.refuse_waiting(turn, _refusal())
    zombie_fencing.refuse_waiting(turn, _refusal())
    for item in tuple(turn.state.instances):
        work.stop(turn, item)
    _flush_when_empty(turn)


def on_report(turn: Turn, report: ConnectorStateReported | TaskStateReported) -> None:
    """An instance reports; it may have been the last one to stop."""
    work.on_report(turn, report)
    _flush_when_empty(turn)


def on_stop_timeout(turn: Turn, event: TimerFired) -> None:
    """Treats an instance that did not stop in time as stopped."""
    work.on_stop_timeout(turn, event)
    _flush_when_empty(turn)


def _flush_when_empty(turn: Turn) -> None:
    """Once the last instance has stopped, flushes the last statuses."""
    state = turn.state
    if not state.instances and not state.expects(HaltFlushed()):
        turn.emit(FlushStatuses(turn.op(HaltFlushed())))


def on_flushed(turn: Turn, _: HaltFlushed, _error: Exception | None) -> None:
    """Everything has stopped and its statuses are written: leaves the group."""
    turn.enter(Halted())
    turn.emit(LeaveGroup("the worker is shutting down"), effects.EndWorker())
