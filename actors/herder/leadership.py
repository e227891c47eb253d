"""The duties of the group's leader: removing obsolete statuses, claiming the right to write the config topic, and
keeping a session key in it.
"""

from __future__ import annotations

from dataclasses import replace

from actors.assignment.protocol import Protocol
from actors.herder.continuations import KeyWritten, PrivilegesClaimed
from actors.herder.effects import ForgetTopics, MakeSessionKey, Timer
from actors.herder.events import TimerFired
from actors.herder.own_requests import Publish, Reconfigure
from actors.herder.state import connector_of
from actors.herder.turn import Turn
from actors.messages.commands import ClaimWritePrivileges, PutStatus
from spark_tasks.backoff import doubled
from storage.ids import ConnectorTaskId, ItemId, State, TargetState
from storage.status.state import Status

CLAIM_RETRY_MS = 250
KEY_RETRY_MS = 1000
LONGEST_RETRY_MS = 8000  # without permission, each attempt fails and is a line in the log
PURGE_AGAIN_MS = 2000


def on_settled(turn: Turn) -> None:
    """The leader has read the configs that the rebalance was based on, so it knows which connectors were deleted."""
    empty_stopped(turn)
    purge_statuses(turn)
    _fail_left_out(turn)
    turn.timer((Timer.PURGE, ""), turn.now + PURGE_AGAIN_MS)


def _fail_left_out(turn: Turn) -> None:
    """Connectors and tasks that cannot be assigned to any member become FAILED, with the reason in their status."""
    membership = turn.state.membership
    for item, why in membership.left_out if membership is not None else ():
        if turn.state.config.contains(connector_of(item)):
            turn.log("ERROR", why, item)
            turn.status(item, State.FAILED, why)


def on_purge_due(turn: Turn, _: TimerFired) -> None:
    """Purges once more, for statuses that had not been written or read yet at the time of the rebalance."""
    if turn.state.is_leader:
        purge_statuses(turn)


def purge_statuses(turn: Turn) -> None:
    """Leader: writes tombstones for the statuses of deleted connectors and of tasks that no longer exist. Also deletes
    the topics of deleted connectors: a task that was just stopping may have recorded them after the deletion.
    """
    config, statuses = turn.state.store, turn.statuses
    for connector in sorted({*statuses.connectors, *statuses.tasks, *statuses.topics}):
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


def empty_stopped(turn: Turn) -> None:
    """A STOPPED connector has no tasks (KIP-875): removes task configs that remain because a write was late or lost."""
    if not turn.state.is_leader:
        return
    config = turn.state.config
    for connector in sorted(name for name, count in config.task_counts.items()
                            if count and config.target_state(name) is TargetState.STOPPED):
        request = Publish(Reconfigure(connector), ())
        if request not in turn.state.own_requests():
            turn.enqueue(None, request)


def claim_privileges(turn: Turn) -> None:
    """Leader: claims the right to write the config topic (fences a former leader if writes are transactional)."""
    state = turn.state
    if state.is_leader and state.claim is None and not state.expects(PrivilegesClaimed()):
        turn.emit(ClaimWritePrivileges(turn.op(PrivilegesClaimed())))


def on_claim_due(turn: Turn, _: TimerFired) -> None:
    """The last claim failed; tries again."""
    claim_privileges(turn)


def on_claimed(turn: Turn, _: PrivilegesClaimed, error: Exception | None) -> None:
    """The right to write was claimed, or the claim failed and is retried soon."""
    turn.state = replace(turn.state, claims=turn.state.claims + 1)
    turn.claim(turn.state.claims if error is None else None)
    failed = turn.state.failed_claims
    turn.state = replace(turn.state, failed_claims=0 if error is None else failed + 1)
    if error is not None and turn.state.is_leader:
        turn.log("WARNING", f"Unable to claim write privileges for the config topic, trying again: {error}")
        turn.timer((Timer.CLAIM, ""), turn.now + _pause_ms(CLAIM_RETRY_MS, failed))


def on_fenced(turn: Turn) -> None:
    """A write was rejected. A former leader may have fenced this worker by accident: the current leader claims the
    right again.
    """
    turn.claim(None)
    claim_privileges(turn)


def ensure_session_key(turn: Turn) -> None:
    """Leader: publishes a session key if there is none, the key has expired, or a worker with other key settings made
    it (KIP-507).
    """
    state = turn.state
    settings = state.settings
    if state.membership is None or state.membership.protocol is not Protocol.SESSIONED or state.expects(
        KeyWritten()
    ):
        return
    key = state.store.session_key  # `store`, not `config`, which may be older: others sign with the newest key
    expires = None if key is None or settings.key_ttl_ms <= 0 else key.created_ms + settings.key_ttl_ms
    wanted = settings.key_algorithm, settings.key_bytes
    wrong = key is None or (key.algorithm, len(key.key)) != wanted or (expires is not None and expires <= turn.now)
    if wrong and state.claim is None and state.failed_claims:
        turn.timer((Timer.SESSION_KEY, ""), turn.now + KEY_RETRY_MS)  # a write would be refused
    elif wrong:
        turn.emit(MakeSessionKey(turn.op(KeyWritten())))
    elif expires is not None:
        turn.timer((Timer.SESSION_KEY, ""), expires)


def on_key_due(turn: Turn, _: TimerFired) -> None:
    """The key has expired, or could not be written."""
    if turn.state.is_leader:
        ensure_session_key(turn)


def on_key_written(turn: Turn, _: KeyWritten, error: Exception | None) -> None:
    """The session key is in the config topic, or writing it failed and is retried soon."""
    failed = turn.state.failed_keys
    turn.state = replace(turn.state, failed_keys=0 if error is None else failed + 1)
    if error is not None:
        turn.log("ERROR", f"Failed to write a session key: {error}")
        turn.timer((Timer.SESSION_KEY, ""), turn.now + _pause_ms(KEY_RETRY_MS, failed))
    elif turn.state.settings.key_ttl_ms > 0:
        turn.timer((Timer.SESSION_KEY, ""), turn.now + turn.state.settings.key_ttl_ms)


def _pause_ms(first_ms: int, failed: int) -> int:
    """The pause before the next attempt, after `failed` attempts in a row and another one."""
    return doubled(first_ms, failed, LONGEST_RETRY_MS)
