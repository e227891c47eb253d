"""Invariants of the herder's state, which the simulation (world.py) checks after every step."""

from __future__ import annotations

from itertools import pairwise

from actors.herder.continuations import AnswerWith, OffsetsRead, PublishedTasks, Released, WriteNext
from actors.herder.fencing_state import FencingChecked, FencingRead, FencingRecorded, RestartRead
from actors.herder.standing import FlushingStatuses, Gate, Joining, Phase, StoppingItems
from actors.herder.state import HerderState

_BUSY = (
    AnswerWith, WriteNext, PublishedTasks, FencingRead, FencingChecked, FencingRecorded, RestartRead, OffsetsRead,
)
_ENDING = (Phase.HALTING, Phase.HALTED)


def violations(state: HerderState) -> list[str]:
    """Descriptions of what is wrong with a state; empty if nothing is."""
    return [*_work(state), *_group(state), *_requests(state)]


def _work(state: HerderState) -> list[str]:
    wrong = []
    allocated = frozenset(state.allocated())
    for item, instance in state.instances.items():
        if item not in allocated and not instance.stopping:
            wrong.append(f"{item} runs but is not allocated")
        if state.phase in _ENDING and not instance.stopping:
            wrong.append(f"{item} is not being stopped while the worker shuts down")
    if state.phase is Phase.HALTED and state.instances:
        wrong.append(f"halted, but {sorted(map(str, state.instances))} still run")
    for item in state.releasing:
        held = state.instances.get(item)
        if held is None or not held.stopping:
            wrong.append(f"{item} is being released but not being stopped")
    return wrong


def _group(state: HerderState) -> list[str]:
    wrong = []
    if state.membership is not None and state.is_leader is not state.membership.is_leader:
        wrong.append("leader or follower in contradiction to the membership")
    if isinstance(state.standing, Joining) and state.standing.gate is Gate.WAITING and state.released:
        wrong.append("the member waits for AllowJoin although nothing is being released")
    if state.release == StoppingItems(frozenset()):
        wrong.append("the group waits for an empty set of items to stop")
    if isinstance(state.release, FlushingStatuses) and not isinstance(state.ops.get(state.release.op), Released):
        wrong.append("the group waits for a flush that is not in progress")
    if state.phase is Phase.RESOLVED and state.membership is not None:
        if state.membership.assignment.failed:
            wrong.append("works under a failed assignment")
        if state.config.offset < state.membership.assignment.config_offset:
            wrong.append("works with configs older than the assignment")
    return wrong


def _requests(state: HerderState) -> list[str]:
    wrong = []
    if state.busy is not None:
        then = state.ops.get(state.busy)
        if not isinstance(then, _BUSY):
            wrong.append(f"busy with {then!r}")
    if any(later < earlier for earlier, later in pairwise(state.queue)):
        wrong.append("the queue is out of order")
    waiting = [q.request_id for q in state.queue if q.request_id is not None]
    waiting += [i for instance in state.instances.values() for i in instance.waiting]
    waiting += list(state.validating)
    waiting += [i for fencing in state.fencings.values() for i in fencing.waiting]
    if len(waiting) != len(set(waiting)):
        wrong.append("a request waits in two places")
    return wrong
