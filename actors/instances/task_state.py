"""The life cycle of one task instance: its phases and what each event leads to. Pure; the actor carries it out.

TRANSITIONS has every pair of a phase and an event; none is impossible, because commands of the herder and outcomes of
the data plane may cross.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from storage.ids import State


class TaskPhase(Enum):
    """The phases of an instance; an instance that has ended is never used again."""

    NEW = "new"  # created, without any command yet
    RUNNING = "running"
    PAUSED = "paused"  # a sink keeps its place in the group
    FAILED = "failed"  # closed, and waiting to be stopped
    ENDED = "ended"


class TaskEvent(Enum):
    """The events of an instance."""

    START = "start"
    START_PAUSED = "start paused"
    PAUSE = "pause"
    RESUME = "resume"
    FAILURE = "failure"  # the runner raised
    STOP = "stop"


class TaskAction(Enum):
    """What the actor does, in order."""

    OPEN = "open"  # create the runner and start it
    PAUSE = "pause"  # pause the runner
    RESUME = "resume"  # resume the runner
    CLOSE = "close"  # close the runner, if there is one
    REPORT = "report"  # report the new phase to the herder
    STEP = "step"  # call run_once soon
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
    """Whether run_once is called in this phase (a paused sink has to keep its membership of its consumer group)."""
    return phase in (TaskPhase.RUNNING, TaskPhase.PAUSED)
