"""The life of one task instance: what it does next when something happens to it. Pure; the actor obeys it.

Every pair of a phase and an event stands in TRANSITIONS; there are no impossible ones, because commands of the herder
and outcomes of the data plane cross each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from storage.ids import State


class Phase(Enum):
    """Where an instance is in its life; an instance that ended is never used again."""

    NEW = "new"  # made, and told nothing yet
    RUNNING = "running"
    PAUSED = "paused"  # a sink keeps its place in the group
    FAILED = "failed"  # closed, and waiting to be stopped
    ENDED = "ended"


class Event(Enum):
    """What can happen to an instance."""

    START = "start"
    START_PAUSED = "start paused"
    PAUSE = "pause"
    RESUME = "resume"
    FAILURE = "failure"  # the runner raised
    STOP = "stop"


class Action(Enum):
    """What the actor does, in order."""

    OPEN = "open"  # make the runner and start it
    PAUSE = "pause"  # tell the runner
    RESUME = "resume"  # tell the runner
    CLOSE = "close"  # close the runner, if there is one
    REPORT = "report"  # the new phase to the herder
    STEP = "step"  # have run_once called
    END = "end"  # stop the actor


@dataclass(frozen=True, slots=True)
class Step:
    """The phase after an event, and what to do."""

    phase: Phase
    actions: tuple[Action, ...] = ()


_END = Step(Phase.ENDED, (Action.CLOSE, Action.REPORT, Action.END))
_FAIL = Step(Phase.FAILED, (Action.CLOSE, Action.REPORT))


def _stay(phase: Phase, *events: Event) -> dict[tuple[Phase, Event], Step]:
    return {(phase, event): Step(phase) for event in events}


TRANSITIONS: Mapping[tuple[Phase, Event], Step] = MappingProxyType({
    (Phase.NEW, Event.START): Step(Phase.RUNNING, (Action.OPEN, Action.REPORT, Action.STEP)),
    (Phase.NEW, Event.START_PAUSED): Step(Phase.PAUSED, (Action.OPEN, Action.PAUSE, Action.REPORT, Action.STEP)),
    (Phase.NEW, Event.FAILURE): _FAIL,
    (Phase.NEW, Event.STOP): _END,
    **_stay(Phase.NEW, Event.PAUSE, Event.RESUME),
    (Phase.RUNNING, Event.PAUSE): Step(Phase.PAUSED, (Action.PAUSE, Action.REPORT)),
    (Phase.RUNNING, Event.FAILURE): _FAIL,
    (Phase.RUNNING, Event.STOP): _END,
    **_stay(Phase.RUNNING, Event.START, Event.START_PAUSED, Event.RESUME),
    (Phase.PAUSED, Event.RESUME): Step(Phase.RUNNING, (Action.RESUME, Action.REPORT, Action.STEP)),
    (Phase.PAUSED, Event.FAILURE): _FAIL,
    (Phase.PAUSED, Event.STOP): _END,
    **_stay(Phase.PAUSED, Event.START, Event.START_PAUSED, Event.PAUSE),
    (Phase.FAILED, Event.STOP): _END,
    **_stay(Phase.FAILED, Event.START, Event.START_PAUSED, Event.PAUSE, Event.RESUME, Event.FAILURE),
    **_stay(Phase.ENDED, *Event),
})

_STATES: Mapping[Phase, State] = MappingProxyType({
    Phase.RUNNING: State.RUNNING,
    Phase.PAUSED: State.PAUSED,
    Phase.FAILED: State.FAILED,
    Phase.ENDED: State.UNASSIGNED,
})


def advance(phase: Phase, event: Event) -> Step:
    """The step that an event leads to."""
    return TRANSITIONS[phase, event]


def reported(phase: Phase) -> State:
    """The status of an instance in this phase. KeyError for NEW, which has none yet."""
    return _STATES[phase]


def steps(phase: Phase) -> bool:
    """Whether run_once is to be called in this phase (a paused sink looks after its group membership)."""
    return phase in (Phase.RUNNING, Phase.PAUSED)
