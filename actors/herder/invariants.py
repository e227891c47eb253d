"""What is true of a herder's state after every step. The simulation in tests/pure/actors/herder checks it each time."""

from __future__ import annotations

from itertools import pairwise

from actors.herder.fencing_state import FencingChecked, FencingRead, FencingRecorded, RestartRead
from actors.herder.standing import FlushingStatuses, Gate, Joining, Phase, StoppingItems
from actors.herder.state import AnswerWith, AnswerWithPlan, HerderState, PublishedTasks, Released, WriteNext

_BUSY = (
    AnswerWith, WriteNext, AnswerWithPlan, PublishedTasks, FencingRead, FencingChecked, FencingRecorded, RestartRead,
)
_ENDING = (Phase.HALTING, Phase.HALTED)


def violations(state: HerderState) -> list[str]:
    """What is wrong with a state, in words; empty where all is well."""
    return [*_work(state), *_group(state), *_requests(state)]


def _work(state: HerderState) -> list[str]:
    wrong = []
    allocated = frozenset(state.allocated())
    for item, slot in state.slots.items():
        if item not in allocated and not slot.stopping:
            wrong.append(f"{item} runs and is not allocated")
        if slot.start_again and not slot.stopping:
            wrong.append(f"{item} shall start again and is not being stopped")
        if state.phase in _ENDING and not slot.stopping:
            wrong.append(f"{item} runs on while the worker ends")
    if state.phase is Phase.HALTED and state.slots:
        wrong.append(f"halted, and {sorted(map(str, state.slots))} are left")
    for item in state.releasing:
        held = state.slots.get(item)
        if held is None or not held.stopping:
            wrong.append(f"{item} is being released and not being stopped")
    return wrong


def _group(state: HerderState) -> list[str]:
    wrong = []
    if state.membership is not None and state.is_leader is not state.membership.is_leader:
        wrong.append("leads, or follows, against what the membership says")
    if isinstance(state.standing, Joining) and state.standing.gate is Gate.WAITING and state.released:
        wrong.append("the member waits for nothing")
    if state.release == StoppingItems(frozenset()):
        wrong.append("the group waits for nothing to stop")
    if isinstance(state.release, FlushingStatuses) and not isinstance(state.ops.get(state.release.op), Released):
        wrong.append("the group waits for a flush that is not under way")
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
    waiting += [i for slot in state.slots.values() for i in slot.waiting]
    waiting += list(state.validating)
    waiting += [i for fencing in state.fencings.values() for i in fencing.waiting]
    if len(waiting) != len(set(waiting)):
        wrong.append("a request waits in two places")
    return wrong
