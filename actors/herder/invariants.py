"""What is true of a herder's state after every step. The simulation in tests/pure/actors/herder checks it each time."""

from __future__ import annotations

from itertools import pairwise

from actors.herder.fencing_state import FencingChecked, FencingRead, FencingRecorded, RestartRead
from actors.herder.state import AnswerWith, AnswerWithPlan, HerderState, Phase, PublishedTasks, WriteNext

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
    if state.phase in (Phase.RESOLVED, Phase.REVOKING, Phase.SYNCING) and state.membership is None:
        wrong.append(f"{state.phase.value} and no member")
    if state.phase in (Phase.OUT, Phase.LOADING) and state.membership is not None:
        wrong.append(f"{state.phase.value} and still a member")
    if state.join_waiting and state.phase is not Phase.JOINING:
        wrong.append(f"the member waits for an answer in the phase {state.phase.value}")
    if state.join_waiting and not state.releasing and not state.flushing:
        wrong.append("the member waits for nothing")
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
