"""The herder's behavior as one table: for each phase and each kind of event, the function that handles it.

A kind is a message, a timer, or the continuation of an op. The table has every pair. `ignored`: what the event refers
to has ended, so nothing follows. `impossible`: no order of events leads to this pair; it would be a defect of the
herder, is logged as one, and changes nothing, except for the end of an op that requests wait for: that stops the
worker.
docs/herder.md shows this table (`make herder-doc`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from actors.herder import (
    automatic_restarts,
    config_changes,
    leadership,
    rebalance,
    request_timeouts,
    requests,
    shutdown,
    suspension,
    task_configs,
    work,
    zombie_fencing,
)
from actors.herder.continuations import (
    AnswerWith,
    GeneratedTasks,
    HaltFlushed,
    JoinAgain,
    KeyWritten,
    OffsetsRead,
    PrivilegesClaimed,
    PublishedTasks,
    Released,
    ResolveAssignment,
    StatusesCaughtUp,
    WriteNext,
)
from actors.herder.effects import Timer
from actors.herder.events import HaltRequested, Loaded, RequestReceived, Suspended, Validated
from actors.herder.fencing_state import Fenced, FencingChecked, FencingRead, FencingRecorded, RestartRead, StartVerified
from actors.herder.standing import Phase
from actors.herder.turn import Turn
from actors.messages.events import (
    ConfigChanged,
    ConnectorStateReported,
    CoordinatorLost,
    InstanceRecovered,
    InstanceStalled,
    Joined,
    JoinPreparing,
    TaskConfigsGenerated,
    TaskReconfigurationRequested,
    TaskStateReported,
)

Kind = type | Timer
Handler = Callable[[Turn, Any], None]
OpHandler = Callable[[Turn, Any, Exception | None], None]
H = TypeVar("H", Handler, OpHandler)


class UnexpectedEventError(Exception):
    """An event that cannot occur in a phase; names the event and the phase."""


def ignored(_turn: Turn, _event: object, _error: Exception | None = None) -> None:
    """Nothing follows: the event refers to something that has already ended."""


def impossible(turn: Turn, event: object, _error: Exception | None = None) -> None:
    """Raises UnexpectedEventError."""
    raise UnexpectedEventError(f"{type(event).__name__} in phase {turn.state.phase.value}")


LOADING, OUT, JOINING, REVOKING, SYNCING, RESOLVED, HALTING, HALTED = Phase
MEMBER = (JOINING, REVOKING, SYNCING, RESOLVED)  # the phases of a member
RUNNING = (OUT, *MEMBER)
ENDING = (HALTING, HALTED)


def _row(*cells: tuple[Handler, tuple[Phase, ...]]) -> Mapping[Phase, Handler]:
    return _once(cells)


def _end(*cells: tuple[OpHandler, tuple[Phase, ...]]) -> Mapping[Phase, OpHandler]:
    return _once(cells)


def _once(cells: Iterable[tuple[H, tuple[Phase, ...]]]) -> Mapping[Phase, H]:
    pairs = [(phase, handler) for handler, phases in cells for phase in phases]
    if sorted(phase.value for phase, _ in pairs) != sorted(phase.value for phase in Phase):
        raise ValueError(f"a row has to name each phase exactly once: {pairs}")
    return dict(pairs)


EVENTS: Mapping[Kind, Mapping[Phase, Handler]] = {
    Loaded: _row((rebalance.on_loaded, (LOADING,)), (impossible, RUNNING), (ignored, ENDING)),
    RequestReceived: _row((requests.on_request, (LOADING, *RUNNING)), (shutdown.refuse, ENDING)),
    Validated: _row((requests.on_validated, (LOADING, *RUNNING)), (ignored, ENDING)),
    ConfigChanged: _row((config_changes.on_config_changed, tuple(Phase))),
    TaskConfigsGenerated: _row(
        (impossible, (LOADING,)), (task_configs.on_generated, (*RUNNING, HALTING)), (ignored, (HALTED,))),
    TaskReconfigurationRequested: _row(
        (impossible, (LOADING,)), (task_configs.on_requested, (*RUNNING, HALTING)), (ignored, (HALTED,))),
    JoinPreparing: _row(
        (impossible, (LOADING,)), (rebalance.on_join_preparing, MEMBER), (ignored, (OUT, *ENDING))),
    Joined: _row((impossible, (LOADING,)), (rebalance.on_joined, MEMBER), (ignored, (OUT, *ENDING))),
    CoordinatorLost: _row(
        (impossible, (LOADING,)), (rebalance.on_coordinator_lost, MEMBER), (ignored, (OUT, *ENDING))),
    Suspended: _row(
        (ignored, (LOADING, HALTED)), (suspension.while_out, (OUT,)), (suspension.while_member, MEMBER),
        (suspension.while_halting, (HALTING,))),
    ConnectorStateReported: _row(
        (impossible, (LOADING,)), (work.on_report, (*RUNNING, HALTED)), (shutdown.on_report, (HALTING,))),
    TaskStateReported: _row(
        (impossible, (LOADING,)), (work.on_report, (*RUNNING, HALTED)), (shutdown.on_report, (HALTING,))),
    InstanceStalled: _row((impossible, (LOADING,)), (automatic_restarts.on_stalled, RUNNING), (ignored, ENDING)),
    InstanceRecovered: _row((impossible, (LOADING,)), (automatic_restarts.on_recovered, RUNNING), (ignored, ENDING)),
    HaltRequested: _row((shutdown.on_requested, (LOADING, *RUNNING)), (ignored, ENDING)),
    Timer.STOP: _row(
        (impossible, (LOADING,)), (work.on_stop_timeout, RUNNING), (shutdown.on_stop_timeout, (HALTING,)),
        (ignored, (HALTED,))),
    Timer.JOIN: _row((impossible, (LOADING,)), (rebalance.on_backed_off, (OUT,)), (ignored, (*MEMBER, *ENDING))),
    Timer.FAILED_REBALANCE: _row(
        (impossible, (LOADING,)), (rebalance.on_failed_rebalance, (JOINING,)),
        (ignored, (OUT, REVOKING, SYNCING, RESOLVED, *ENDING))),
    Timer.POSTPONED_REBALANCE: _row(
        (impossible, (LOADING,)), (config_changes.on_rebalance_due, (RESOLVED,)),
        (ignored, (OUT, JOINING, REVOKING, SYNCING, *ENDING))),
    Timer.SCHEDULED_REBALANCE: _row(
        (impossible, (LOADING,)), (rebalance.on_scheduled_rebalance, (RESOLVED,)),
        (ignored, (OUT, JOINING, REVOKING, SYNCING, *ENDING))),
    Timer.CLAIM: _row(
        (impossible, (LOADING,)), (leadership.on_claim_due, (*MEMBER, HALTING)), (ignored, (OUT, HALTED))),
    Timer.PURGE: _row(
        (impossible, (LOADING,)), (leadership.on_purge_due, (RESOLVED,)),
        (ignored, (OUT, JOINING, REVOKING, SYNCING, *ENDING))),
    Timer.SESSION_KEY: _row(
        (impossible, (LOADING,)), (leadership.on_key_due, (RESOLVED,)),
        (ignored, (OUT, JOINING, REVOKING, SYNCING, *ENDING))),
    Timer.STATUSES: _row(
        (impossible, (LOADING,)), (suspension.on_read_due, (*RUNNING, HALTING)), (ignored, (HALTED,))),
    Timer.QUEUE: _row((impossible, (LOADING,)), (requests.on_queue_due, RUNNING), (ignored, ENDING)),
    Timer.REQUEST_TIMEOUT: _row((request_timeouts.on_due, (LOADING, *RUNNING)), (ignored, ENDING)),
}

# The end of an op is handled by its continuation (registered with turn.op), with the op's error if it failed.
OPS: Mapping[type, Mapping[Phase, OpHandler]] = {
    AnswerWith: _end((requests.on_written, (LOADING, *RUNNING)), (impossible, ENDING)),
    WriteNext: _end((requests.on_written, RUNNING), (impossible, (LOADING, *ENDING))),
    ResolveAssignment: _end(
        (impossible, (LOADING,)), (rebalance.on_caught_up, (SYNCING,)),
        (rebalance.on_overtaken, (OUT, JOINING, REVOKING, RESOLVED, *ENDING))),
    JoinAgain: _end(
        (impossible, (LOADING,)), (rebalance.on_readable_again, (OUT,)), (rebalance.on_overtaken, (*MEMBER, *ENDING))),
    Released: _end(
        (impossible, (LOADING,)), (rebalance.leave_when_released, (OUT,)),
        (rebalance.allow_join_when_released, (JOINING,)), (rebalance.resolve_when_released, (REVOKING,)),
        (rebalance.on_released, (SYNCING, RESOLVED, *ENDING))),
    PublishedTasks: _end((impossible, (LOADING,)), (task_configs.on_published, (*RUNNING, *ENDING))),
    GeneratedTasks: _end((impossible, tuple(Phase))),  # its op ends with TaskConfigsGenerated
    PrivilegesClaimed: _end((impossible, (LOADING,)), (leadership.on_claimed, (*RUNNING, *ENDING))),
    KeyWritten: _end((impossible, (LOADING,)), (leadership.on_key_written, (*RUNNING, *ENDING))),
    FencingRead: _end((zombie_fencing.on_read, RUNNING), (impossible, (LOADING, *ENDING))),
    Fenced: _end((impossible, (LOADING,)), (zombie_fencing.on_fenced, (*RUNNING, *ENDING))),
    FencingChecked: _end((impossible, (LOADING,)), (zombie_fencing.on_checked, (*RUNNING, *ENDING))),
    FencingRecorded: _end((zombie_fencing.on_recorded, RUNNING), (impossible, (LOADING, *ENDING))),
    StartVerified: _end((zombie_fencing.on_verified, RUNNING), (impossible, (LOADING, *ENDING))),
    RestartRead: _end((zombie_fencing.on_restart_read, RUNNING), (impossible, (LOADING, *ENDING))),
    OffsetsRead: _end((requests.on_offsets_read, RUNNING), (impossible, (LOADING, *ENDING))),
    StatusesCaughtUp: _end((impossible, (LOADING,)), (suspension.on_statuses_read, (*RUNNING, *ENDING))),
    HaltFlushed: _end((shutdown.on_flushed, (HALTING,)), (impossible, (LOADING, *RUNNING, HALTED))),
}
