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


class TaskPhase(Enum):
    """Where an instance is in its life; an instance that ended is never used again."""

    NEW = "new"  # made, and told nothing yet
    RUNNING = "running"
    PAUSED = "paused"  # a sink keeps its place in the group
    FAILED = "failed"  # closed, and waiting to be stopped
    ENDED = "ended"


class TaskEvent(Enum):
    """What can happen to an instance."""

    START = "start"
    START_PAUSED = "start paused"
    PAUSE = "pause"
    RESUME = "resume"
    FAILURE = "failure"  # the runner raised
    STOP = "stop"


class TaskAction(Enum):
    """What the actor does, in order."""

    OPEN = "open"  # make the runner and start it
    PAUSE = "pause"  # tell the runner
    RESUME = "resume"  # tell the runner
    CLOSE = "close"  # close the runner, if there is one
    REPORT = "report"  # the new phase to the herder
    STEP = "step"  # have run_once called
    END = "end"  # stop the actor


@dataclass(frozen=True, slots=True)
class TaskStep:
    """The phase after an event, and what to do."""

    phase: TaskPhase
    actions: tuple[TaskAction, ...] = ()


_P, _E, _A = TaskPhase, TaskEvent, TaskAction  # for the table
_END = TaskStep(_P.ENDED, (_A.CLOSE, _A.REPORT, _A.END))
_FAIL = TaskStep(_P.FAILED, (_A.CLOSE, _A.REPORT))


def _stay(phase: TaskPhase, *events: TaskEvent) -> dict[tuple[TaskPhase, TaskEvent], TaskStep]:
    return {(phase, event): TaskStep(phase) for event in events}


TRANSITIONS: Mapping[tuple[TaskPhase, TaskEvent], TaskStep] = MappingProxyType({
    (_P.NEW, _E.START): TaskStep(_P.RUNNING, (_A.OPEN, _A.REPORT, _A.STEP)),
    (_P.NEW, _E.START_PAUSED): TaskStep(_P.PAUSED, (_A.OPEN, _A.PAUSE, _A.REPORT, _A.STEP)),
    (_P.NEW, _E.FAILURE): _FAIL,
    (_P.NEW, _E.STOP): _END,
    **_stay(_P.NEW, _E.PAUSE, _E.RESUME),
    (_P.RUNNING, _E.PAUSE): TaskStep(_P.PAUSED, (_A.PAUSE, _A.REPORT)),
    (_P.RUNNING, _E.FAILURE): _FAIL,
    (_P.RUNNING, _E.STOP): _END,
    **_stay(_P.RUNNING, _E.START, _E.START_PAUSED, _E.RESUME),
    (_P.PAUSED, _E.RESUME): TaskStep(_P.RUNNING, (_A.RESUME, _A.REPORT, _A.STEP)),
    (_P.PAUSED, _E.FAILURE): _FAIL,
    (_P.PAUSED, _E.STOP): _END,
    **_stay(_P.PAUSED, _E.START, _E.START_PAUSED, _E.PAUSE),
    (_P.FAILED, _E.STOP): _END,
    **_stay(_P.FAILED, _E.START, _E.START_PAUSED, _E.PAUSE, _E.RESUME, _E.FAILURE),
    **_stay(_P.ENDED, *TaskEvent),
})

_STATES: Mapping[TaskPhase, State] = MappingProxyType({
    TaskPhase.RUNNING: State.RUNNING,
    TaskPhase.PAUSED: State.PAUSED,
    TaskPhase.FAILED: State.FAILED,
    TaskPhase.ENDED: State.UNASSIGNED,
})


def advance(phase: TaskPhase, event: TaskEvent) -> TaskStep:
    """The step that an event leads to."""
    return TRANSITIONS[phase, event]


def reported(phase: TaskPhase) -> State:
    """The status of an instance in this phase. KeyError for NEW, which has none yet."""
    return _STATES[phase]


def steps(phase: TaskPhase) -> bool:
    """Whether run_once is to be called in this phase (a paused sink looks after its group membership)."""
    return phase in (TaskPhase.RUNNING, TaskPhase.PAUSED)
