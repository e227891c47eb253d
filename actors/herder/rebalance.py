"""Rebalances of the worker's group, and catching up with the config topic.

The order of a cooperative rebalance: JoinPreparing -> [released work has stopped] -> AllowJoin -> Joined ->
[revoked work stops, statuses flushed] -> [config topic read to the assignment's offset] -> work starts -> RESOLVED.
"""

from __future__ import annotations

from dataclasses import replace

from actors.assignment.protocol import Allocation, Membership, Protocol
from actors.herder import automatic_restarts, leadership, work
from actors.herder.config_log import named, sizes
from actors.herder.continuations import JoinAgain, Released, ResolveAssignment
from actors.herder.effects import Timer
from actors.herder.events import Loaded, TimerFired
from actors.herder.standing import (
    Absence,
    Gate,
    Joining,
    Member,
    NextRebalance,
    NothingReleased,
    Out,
    Resolved,
    Revoking,
    StatusWrites,
    Syncing,
    member_of,
    with_items,
)
from actors.herder.turn import Turn
from actors.messages.commands import JoinGroup, LeaveGroup, ReadConfigToEnd, RequestRejoin
from actors.messages.events import CoordinatorLost, Joined, JoinPreparing

FAILED_REBALANCE_MS = 500  # after the longest time for which the leader may read the config topic
UNSYNC_RETRIES = 5  # cooperative: the number of short waits before the worker releases its work


def on_loaded(turn: Turn, event: Loaded) -> None:
    """The stores have read their topics: joins the group."""
    # Records that were read just then may have arrived before this event; nothing would repeat them.
    newest = max(event.snapshot, turn.state.store, key=lambda snapshot: snapshot.offset)
    turn.state = replace(
        turn.state, standing=Joining(), store=newest, config=newest, connector_updates=frozenset(),
        target_changes=frozenset(), task_updates=frozenset(), restarts={}, needs_rebalance=None)
    turn.stage("ensuring membership in the cluster")
    turn.emit(JoinGroup())


def on_join_preparing(turn: Turn, event: JoinPreparing) -> None:
    """The member waits for AllowJoin. Eager: first stops everything; cooperative: only what is being released."""
    member = turn.state.member
    turn.enter(Joining(Absence.OUTSIDE if member is Absence.SUSPENDED else member, Gate.WAITING))
    if event.eager:
        turn.state = replace(turn.state, allocation=Allocation())
        work.release(turn, tuple(turn.state.instances))
    work.allow_join_when_released(turn)


def on_joined(turn: Turn, event: Joined) -> None:
    """A rebalance is over. A leader acts as one at once, because requests that arrived meanwhile need it."""
    if turn.state.member is Absence.SUSPENDED:
        request(turn, "this rebalance may have begun before the suspension")
        return
    membership = event.membership
    assignment = membership.assignment
    allocation = assignment.assigned
    if membership.protocol is not Protocol.EAGER:
        allocation = turn.state.allocation.minus(assignment.revoked).plus(assignment.assigned)
    # Work that was released (a lost coordinator) after it was announced to the leader needs another rebalance.
    outdated = membership.protocol is not Protocol.EAGER and turn.state.announced != turn.state.allocation
    new_here = turn.state.membership is None
    if new_here and turn.state.instances:
        turn.state = replace(turn.state, status_writes=StatusWrites.REPEAT_DUE)
    elif turn.state.status_writes is StatusWrites.SUSPENDED:
        turn.state = replace(turn.state, status_writes=StatusWrites.CURRENT)
    next_rebalance = NextRebalance.OWED if assignment.revoked or outdated else NextRebalance.UNNEEDED
    before, member = turn.state.membership, member_of(membership, turn.state.claim)
    turn.state = replace(turn.state, standing=Revoking(member, next_rebalance), allocation=allocation)
    _log_joined(turn, before, membership)
    leadership.claim_privileges(turn)
    if new_here and not assignment.failed:  # a failed rebalance assigns nothing: others may run what this worker claims
        work.report_stopped(turn)
    if assignment.revoked:
        # Work that continued while this worker was outside the group may run elsewhere by now.
        work.release(turn, (*assignment.revoked.connectors, *assignment.revoked.tasks), disowned=new_here)
        if turn.state.releasing:
            return
    resolve(turn)


def _log_joined(turn: Turn, before: Membership | None, membership: Membership) -> None:
    """At DEBUG if nothing changed for this worker: others got or lost work, or it only confirms what has stopped. The
    leader also logs which workers joined and left.
    """
    assignment = membership.assignment
    same = before is not None and (before.is_leader, before.protocol) == (membership.is_leader, membership.protocol)
    delay = f"; the work of a lost worker is reassigned in {assignment.delay_ms / 1000:.0f} s"
    waits = delay if assignment.delay_ms > 0 else ""
    workers = _workers(before, membership)
    changed = not same or assignment.assigned or assignment.revoked or workers or waits or assignment.failed
    moved = (f"assigned {sizes(assignment.assigned, names=True)}, revoked {sizes(assignment.revoked, names=True)}, "
             f"now running {sizes(turn.state.allocation)}")
    turn.log("INFO" if changed else "DEBUG",
             f"Joined group at generation {membership.generation} with protocol {membership.protocol.value} "
             f"as {'leader' if membership.is_leader else 'follower'}: {moved}{workers}{waits}")


def _workers(before: Membership | None, membership: Membership) -> str:
    """Which workers joined and left since the leader's last rebalance; all workers if it was not the leader then."""
    if not membership.is_leader:
        return ""
    now, known = dict(membership.workers), dict(before.workers) if before is not None else {}
    if known:
        # A worker that was killed and started again is a member twice until its old session expires.
        joined = {url for id_, url in now.items() if id_ not in known}
        groups = {"workers joined": joined, "workers left": {*known.values()} - {*now.values()}}
    else:
        groups = {"workers": {*now.values()}}
    return "".join(f"; {what}: {named(sorted(url.rpartition('://')[2].rstrip('/') for url in urls))}"
                   for what, urls in groups.items() if urls)


def on_released(turn: Turn, _: Released, _error: Exception | None) -> None:
    """The released work has stopped and its statuses are written."""
    turn.state = replace(turn.state, release=with_items(NothingReleased(), turn.state.releasing))
    turn.stage_done()


def leave_when_released(turn: Turn, then: Released, error: Exception | None) -> None:
    """Leaves only now, because others get the work as soon as this worker has left. Has no effect outside the group."""
    on_released(turn, then, error)
    _leave(turn)


def allow_join_when_released(turn: Turn, then: Released, error: Exception | None) -> None:
    """The member may have been waiting for this."""
    on_released(turn, then, error)
    work.allow_join_when_released(turn)


def resolve_when_released(turn: Turn, then: Released, error: Exception | None) -> None:
    """The work that the rebalance revoked has stopped."""
    on_released(turn, then, error)
    resolve(turn)


def resolve(turn: Turn) -> None:
    """Carries out the current assignment: catches up with the config topic if needed, then starts the work."""
    state, standing = turn.state, turn.state.standing
    if not isinstance(standing, Revoking | Syncing):
        return
    assignment = standing.member.membership.assignment
    if assignment.failed:
        if state.is_leader or state.config.offset < assignment.config_offset:
            read_to_end(turn, standing, then_rejoin=True)
        else:
            _await_leader(turn, standing.member)
    elif state.config.offset < assignment.config_offset:
        if state.store.offset >= assignment.config_offset:
            turn.state = replace(turn.state, config=state.store)
            resolve(turn)
        else:
            read_to_end(turn, standing, then_rejoin=False)
    elif state.config.offset > assignment.config_offset:
        # Work started from newer configs than those of other workers could run twice; the next rebalance covers them.
        rejoin(turn, f"config offset {state.config.offset} is past the assignment's {assignment.config_offset}",
               level="DEBUG")
    else:
        _start_work(turn, standing)


def read_to_end(turn: Turn, standing: Revoking | Syncing, *, then_rejoin: bool) -> None:
    """Catches up with the config topic within worker.sync.timeout.ms."""
    turn.enter(Syncing(standing.member, standing.next_rebalance))
    turn.stage("reading to the end of the config topic")
    op = turn.op(ResolveAssignment(then_rejoin, turn.state.generation))
    turn.emit(ReadConfigToEnd(op, turn.state.settings.sync_timeout_ms))


def on_caught_up(turn: Turn, then: ResolveAssignment, error: Exception | None) -> None:
    """The config topic was read, or reading it took too long."""
    on_overtaken(turn, then, error)
    standing = turn.state.standing
    if not isinstance(standing, Syncing) or then.generation != turn.state.generation:
        return
    if error is not None:
        _leave_and_back_off(turn, error)
        return
    turn.state = replace(turn.state, config=turn.state.store, backoff_attempts=0)
    if then.then_rejoin and not turn.state.is_leader:
        _await_leader(turn, standing.member)
    elif then.then_rejoin:
        rejoin(turn, "the rebalance failed because the leader was behind on configs", caught_up=then.generation)
    elif turn.state.config.offset < standing.member.membership.assignment.config_offset:
        rejoin(turn, "the config topic ends before the assignment's offset")
    else:
        resolve(turn)


def on_overtaken(turn: Turn, _: ResolveAssignment | JoinAgain, _error: Exception | None) -> None:
    """The config topic was read, or reading it failed, but the result is no longer needed."""
    turn.stage_done()


def _leave_and_back_off(turn: Turn, error: Exception) -> None:
    settings = turn.state.settings
    cooperative = turn.state.membership is None or turn.state.membership.protocol is not Protocol.EAGER
    delay = settings.unsync_backoff_ms
    if cooperative:
        # Short waits first: during the scheduled delay, the leader holds this worker's work for it.
        delay = min(settings.scheduled_delay_max_ms // 10 // UNSYNC_RETRIES, settings.unsync_backoff_ms)
    turn.log("WARNING", f"Could not read the config topic to its end ({error}); leaving the group and trying again in "
                        f"{delay} ms. If it only takes too long, raise worker.sync.timeout.ms")
    if turn.state.is_leader:
        _give_up(turn)  # only a leader knows what others hold, so the next one assigns it at once
    turn.enter(Out())
    if delay + UNSYNC_RETRIES * 2 * retry_ms(turn) >= settings.scheduled_delay_max_ms:
        _give_up(turn)  # the leader would not hold the work for this long
    _count_failure(turn)
    turn.timer((Timer.JOIN, ""), turn.now + delay)
    if turn.state.released:
        _leave(turn)


def _count_failure(turn: Turn) -> None:
    """Counts a failed attempt to read the config topic; after too many in a row, gives up the work to other workers."""
    turn.state = replace(turn.state, backoff_attempts=turn.state.backoff_attempts + 1)
    if turn.state.backoff_attempts > UNSYNC_RETRIES:
        _give_up(turn, disowned=True)


def _give_up(turn: Turn, *, disowned: bool = False) -> None:
    turn.state = replace(turn.state, allocation=Allocation())
    work.release(turn, tuple(turn.state.instances), disowned=disowned)


def _leave(turn: Turn) -> None:
    turn.emit(LeaveGroup("taking too long to read the log"))


def retry_ms(turn: Turn) -> int:
    """How long to wait before a topic is read again, in ms."""
    return max(turn.state.settings.sync_timeout_ms, 1000)


def on_backed_off(turn: Turn, _: TimerFired) -> None:
    """The wait outside the group is over: joins only if the config topic can be read."""
    turn.stage("reading to the end of the config topic")
    turn.emit(ReadConfigToEnd(turn.op(JoinAgain()), turn.state.settings.sync_timeout_ms))


def on_readable_again(turn: Turn, _: JoinAgain, error: Exception | None) -> None:
    """The config topic was read outside the group, or reading it failed."""
    turn.stage_done()
    if error is not None:
        _count_failure(turn)
        turn.timer((Timer.JOIN, ""), turn.now + retry_ms(turn))
        return
    if not turn.state.released:  # the worker has not left the group yet
        turn.timer((Timer.JOIN, ""), turn.now + retry_ms(turn))
        return
    turn.state = replace(turn.state, config=turn.state.store, standing=Joining())
    turn.emit(JoinGroup())


def rejoin(turn: Turn, reason: str, *, caught_up: int | None = None, level: str = "INFO") -> None:
    """Requests another rebalance. Until it is over, no work is started and requests wait. `caught_up`: see
    RequestRejoin. `level` of the line about it: DEBUG if what led to it is in the log already.
    """
    standing = turn.state.standing
    turn.enter(Joining(standing.member, standing.gate if isinstance(standing, Joining) else Gate.OPEN))
    turn.stage("ensuring membership in the cluster")
    request(turn, reason, caught_up, level)


def request(turn: Turn, reason: str, caught_up: int | None = None, level: str = "INFO") -> None:
    """Requests another rebalance, and does nothing else. For the parameters see `rejoin`."""
    turn.log(level, f"Requesting a rebalance: {reason}")
    turn.emit(RequestRejoin(reason, caught_up))


def _start_work(turn: Turn, standing: Revoking | Syncing) -> None:
    state = turn.state
    turn.enter(Resolved(standing.member))
    turn.state = replace(turn.state, settled_ms=turn.now)
    turn.stage_done()
    if state.needs_rebalance is not None and state.needs_rebalance <= state.config.offset and not state.task_updates:
        # This rebalance was based on configs that include the change, and the tasks concerned were not running.
        turn.state = replace(turn.state, needs_rebalance=None)
    if state.config is state.store:  # connectors that start now start with their newest configuration
        here = frozenset(name for name in state.connector_updates if name in state.instances)
        turn.state = replace(turn.state, connector_updates=here)
    if state.is_leader:
        leadership.on_settled(turn)
    if state.status_writes is StatusWrites.REPEAT_DUE:
        turn.state = replace(turn.state, status_writes=StatusWrites.CURRENT)
        work.repeat_statuses(turn)
    else:
        work.repeat_statuses(turn, lost=True)
    automatic_restarts.on_new_assignment(turn)
    work.drop_unknown(turn)
    work.start_missing(turn)
    if standing.next_rebalance is not NextRebalance.OWED:
        work.log_moved(turn)
    delay = standing.member.membership.assignment.delay_ms
    if delay > 0:
        turn.timer((Timer.SCHEDULED_REBALANCE, ""), turn.now + delay)
    if standing.next_rebalance is NextRebalance.OWED:
        rejoin(turn, "work was released; the next rebalance assigns it", level="DEBUG")
    elif state.is_leader:
        leadership.ensure_session_key(turn)


def _await_leader(turn: Turn, member: Member) -> None:
    """Waits until the leader has read the topic and starts another rebalance, or leaves because it cannot read it; an
    earlier rebalance would fail again, and make the leader start over.
    """
    turn.enter(Joining(member))
    turn.stage("ensuring membership in the cluster")
    turn.timer((Timer.FAILED_REBALANCE, ""), turn.now + turn.state.settings.sync_timeout_ms + FAILED_REBALANCE_MS)


def on_failed_rebalance(turn: Turn, _: TimerFired) -> None:
    """The leader has not started another rebalance yet."""
    membership = turn.state.membership
    if membership is not None and membership.assignment.failed:
        rejoin(turn, "the rebalance failed because the leader was behind on configs")


def on_scheduled_rebalance(turn: Turn, _: TimerFired) -> None:
    """The delay after a lost worker is over (KIP-415), unless a later rebalance has ended it."""
    membership = turn.state.membership
    if membership is not None and membership.assignment.delay_ms > 0:
        rejoin(turn, "the wait for a lost worker has ended")


def on_coordinator_lost(turn: Turn, event: CoordinatorLost) -> None:
    """Out of the group without having left it: the work may be assigned to others, so it is stopped here.

    The allocation is kept: the worker claims it in the next join, and continues at once if no other worker got the
    work. The leader would hold unclaimed work for `scheduled.rebalance.max.delay.ms`.
    """
    turn.log("WARNING", f"Lost the group coordinator ({event.reason}); stopping all connectors and tasks")
    standing = turn.state.standing
    absence = Absence.SUSPENDED if standing.member is Absence.SUSPENDED else Absence.OUTSIDE
    turn.enter(Joining(absence, standing.gate if isinstance(standing, Joining) else Gate.OPEN))
    turn.stage("polling the group coordinator")
    work.release(turn, tuple(turn.state.instances), disowned=True)
