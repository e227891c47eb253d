"""The worker in its group: rounds, catching up with the config topic, and what a new leader has to do.

The order of a round (cooperative): JoinPreparing -> [what is being released is gone] -> AllowJoin -> Joined ->
[revoked work stops, statuses flushed] -> [config topic read to the assignment's offset] -> work starts -> RESOLVED.
"""

from __future__ import annotations

from actors.assignment.protocol import Allocation, Protocol
from actors.herder import work
from actors.herder.effects import ForgetTopics, MakeSessionKey
from actors.herder.state import ItemId, JoinAgain, KeyWritten, Phase, PrivilegesClaimed, ResolveAssignment
from actors.herder.turn import Turn
from actors.messages import (
    ClaimWritePrivileges,
    CoordinatorLost,
    Joined,
    JoinGroup,
    JoinPreparing,
    LeaveGroup,
    PutStatus,
    ReadConfigToEnd,
    RequestRejoin,
)
from storage.ids import ConnectorTaskId, State
from storage.status import Status

UNSYNC_RETRIES = 5  # cooperative: so many short waits before the worker gives up what it runs


def on_join_preparing(turn: Turn, event: JoinPreparing) -> None:
    """The member waits for our word. Eager: first stop everything; cooperative: only what is being released."""
    if turn.state.phase in (Phase.HALTING, Phase.HALTED):
        return
    turn.set(phase=Phase.JOINING, join_waiting=True)
    if event.eager:
        turn.set(allocation=Allocation())
        work.release(turn, tuple(turn.state.slots))
    work.allow_join_when_released(turn)


def on_joined(turn: Turn, event: Joined) -> None:
    """A round is over. The herder acts as leader at once: requests that came meanwhile need one."""
    if turn.state.phase in (Phase.HALTING, Phase.HALTED):
        return
    membership = event.membership
    assignment = membership.assignment
    was_leader = turn.state.is_leader
    allocation = assignment.assigned
    if membership.protocol is not Protocol.EAGER:
        allocation = turn.state.allocation.minus(assignment.revoked).plus(assignment.assigned)
    # Work that was given up after the leader had been told of it (a lost coordinator) would be missed by nobody.
    outdated = membership.protocol is not Protocol.EAGER and turn.state.announced != turn.state.allocation
    turn.set(membership=membership, allocation=allocation, rejoin_after_start=bool(assignment.revoked) or outdated)
    turn.log("INFO", f"Joined group at generation {membership.generation} with protocol {membership.protocol.value} "
                     f"as {'leader' if membership.is_leader else 'follower'}: assigned {_sizes(assignment.assigned)}, "
                     f"revoked {_sizes(assignment.revoked)}, runs {_sizes(allocation)}")
    if membership.is_leader:
        purge_statuses(turn)
        if not was_leader:
            turn.set(privileged=False)
        claim_privileges(turn)
    else:
        turn.set(privileged=False)
    if assignment.revoked:
        turn.set(phase=Phase.REVOKING)
        work.release(turn, (*assignment.revoked.connectors, *assignment.revoked.tasks))
        if turn.state.releasing:
            return
    resolve(turn)


def _sizes(allocation: Allocation) -> str:
    return f"{len(allocation.connectors)} connectors and {len(allocation.tasks)} tasks"


def on_released(turn: Turn) -> None:
    """What was to be released is gone and its statuses are written."""
    turn.set(flushing=False)
    turn.stage_done()
    if not work.allow_join_when_released(turn) and turn.state.phase is Phase.REVOKING:
        resolve(turn)


def resolve(turn: Turn) -> None:
    """Follow the assignment at hand: catch up on configs where that is needed, then start the work."""
    state = turn.state
    if state.membership is None:
        return
    assignment = state.membership.assignment
    if assignment.failed:
        if state.is_leader or state.config.offset < assignment.config_offset:
            read_to_end(turn, then_rejoin=True)
        else:
            rejoin(turn, "the round failed because the leader was behind on configs")
    elif state.config.offset < assignment.config_offset:
        if state.store.offset >= assignment.config_offset:
            turn.set(config=state.store)
            resolve(turn)
        else:
            read_to_end(turn, then_rejoin=False)
    elif state.config.offset > assignment.config_offset:
        # Work started from newer configs than the others' could run twice; the next round will be in step.
        rejoin(turn, f"config offset {state.config.offset} is past the assignment's {assignment.config_offset}")
    else:
        _start_work(turn)


def read_to_end(turn: Turn, *, then_rejoin: bool) -> None:
    """Catch up with the config topic within worker.sync.timeout.ms."""
    turn.set(phase=Phase.SYNCING)
    turn.stage("reading to the end of the config topic")
    turn.emit(ReadConfigToEnd(turn.op(ResolveAssignment(then_rejoin)), turn.state.settings.sync_timeout_ms))


def on_caught_up(turn: Turn, then: ResolveAssignment, error: Exception | None) -> None:
    """The config topic was read, or that took too long."""
    turn.stage_done()
    if turn.state.phase is not Phase.SYNCING:
        return
    if error is not None:
        _leave_and_back_off(turn, error)
        return
    turn.set(config=turn.state.store, backoff_attempts=0)
    membership = turn.state.membership
    if then.then_rejoin:
        rejoin(turn, "the round failed because the leader was behind on configs")
    elif membership is not None and turn.state.config.offset < membership.assignment.config_offset:
        rejoin(turn, "the config topic ends before the assignment's offset")
    else:
        resolve(turn)


def _leave_and_back_off(turn: Turn, error: Exception) -> None:
    settings = turn.state.settings
    attempts = turn.state.backoff_attempts + 1
    cooperative = turn.state.membership is None or turn.state.membership.protocol is not Protocol.EAGER
    delay = settings.unsync_backoff_ms
    if cooperative:
        # Short waits first: the leader keeps this worker's work for it while the scheduled delay runs.
        delay = min(settings.scheduled_delay_max_ms // 10 // UNSYNC_RETRIES, settings.unsync_backoff_ms)
        if attempts > UNSYNC_RETRIES:
            turn.set(allocation=Allocation())
            work.release(turn, tuple(turn.state.slots))
            attempts = 1
    turn.log("WARNING", f"taking too long to read the log of the config topic ({error}); leaving the group and trying "
                        f"again in {delay} ms")
    turn.set(phase=Phase.OUT, membership=None, backoff_attempts=attempts)
    turn.emit(LeaveGroup("taking too long to read the log"))
    turn.timer(("join", ""), turn.now + delay)


def on_backed_off(turn: Turn) -> None:
    """The wait outside the group is over: join only when the config topic can be read."""
    if turn.state.phase is Phase.OUT:
        turn.stage("reading to the end of the config topic")
        turn.emit(ReadConfigToEnd(turn.op(JoinAgain()), turn.state.settings.sync_timeout_ms))


def on_readable_again(turn: Turn, error: Exception | None) -> None:
    """The config topic was read outside the group, or not."""
    turn.stage_done()
    if turn.state.phase is not Phase.OUT:
        return
    if error is not None:
        turn.timer(("join", ""), turn.now + max(turn.state.settings.sync_timeout_ms, 1000))
        return
    turn.set(config=turn.state.store, phase=Phase.JOINING)
    turn.emit(JoinGroup())


def rejoin(turn: Turn, reason: str) -> None:
    """Want another round; until it is over no work is started and requests wait."""
    turn.set(phase=Phase.JOINING)
    turn.stage("ensuring membership in the cluster")
    turn.emit(RequestRejoin(reason))


def _start_work(turn: Turn) -> None:
    state = turn.state
    if state.membership is None:
        return
    turn.set(phase=Phase.RESOLVED)
    turn.stage_done()
    if state.needs_rebalance is not None and state.needs_rebalance <= state.config.offset and not state.task_updates:
        # This very round was made from configs that hold the change, and nobody ran the tasks it is about before.
        turn.set(needs_rebalance=None)
    work.start_missing(turn)
    delay = state.membership.assignment.delay_ms
    if delay > 0:
        turn.timer(("rebalance", ""), turn.now + delay)
    if state.rejoin_after_start:
        turn.set(rejoin_after_start=False)
        rejoin(turn, "work was given up; the next round hands it out")
    elif state.is_leader:
        ensure_session_key(turn)


def on_scheduled_rebalance(turn: Turn) -> None:
    """The delay after a lost worker is over (KIP-415)."""
    if turn.state.phase is Phase.RESOLVED:
        rejoin(turn, "scheduled rebalance")


def on_coordinator_lost(turn: Turn, event: CoordinatorLost) -> None:
    """Out of the group without having left it: somebody else may be given our work, so it stops here."""
    if turn.state.phase in (Phase.HALTING, Phase.HALTED):
        return
    turn.log("WARNING", f"Lost the group coordinator ({event.reason}); stopping all connectors and tasks")
    turn.set(phase=Phase.JOINING, membership=None, allocation=Allocation(), privileged=False)
    turn.stage("polling the group coordinator")
    work.release(turn, tuple(turn.state.slots))


def purge_statuses(turn: Turn) -> None:
    """Leader: tombstone the statuses of connectors that are gone and of tasks beyond the current set."""
    config, statuses = turn.state.store, turn.statuses
    for connector in sorted({*statuses.connectors, *statuses.tasks}):
        known = config.contains(connector)
        keep = config.task_count(connector) if known else 0
        for task in sorted(statuses.tasks.get(connector, ())):
            if task >= keep:
                _destroy(turn, ConnectorTaskId(connector, task))
        if not known:
            if connector in statuses.connectors:
                _destroy(turn, connector)
            turn.emit(ForgetTopics(connector))


def _destroy(turn: Turn, item: ItemId) -> None:
    status = Status(item, State.DESTROYED, turn.state.settings.worker_id, turn.state.generation)
    turn.emit(PutStatus(status, safe=False))


def claim_privileges(turn: Turn) -> None:
    """Leader: take the right to write the config topic (fences a former leader where writes are transactional)."""
    if not turn.state.privileged:
        turn.emit(ClaimWritePrivileges(turn.op(PrivilegesClaimed())))


def ensure_session_key(turn: Turn) -> None:
    """Leader: publish a session key where there is none or its time is over (KIP-507)."""
    state = turn.state
    settings = state.settings
    if state.membership is None or state.membership.protocol is not Protocol.SESSIONED or state.key_writing:
        return
    key = state.config.session_key
    expires = None if key is None or settings.key_ttl_ms <= 0 else key.created_ms + settings.key_ttl_ms
    if key is None or key.algorithm != settings.key_algorithm or (expires is not None and expires <= turn.now):
        turn.set(key_writing=True)
        turn.emit(MakeSessionKey(turn.op(KeyWritten())))
    elif expires is not None:
        turn.timer(("session key", ""), expires)


def on_key_written(turn: Turn, error: Exception | None) -> None:
    """The session key is in the config topic, or writing it failed and is tried again soon."""
    turn.set(key_writing=False)
    if error is not None:
        turn.log("ERROR", f"Failed to write a session key: {error}")
        turn.timer(("session key", ""), turn.now + 1000)
    elif turn.state.settings.key_ttl_ms > 0:
        turn.timer(("session key", ""), turn.now + turn.state.settings.key_ttl_ms)
