"""The life of one connector instance: what it does next when something happens to it. Pure; the actor obeys it.

Every pair of a phase and an event stands in TRANSITIONS; there are no impossible ones, because commands of the herder
and failures of the plugin cross each other. The semantics are those of Kafka Connect's WorkerConnector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from storage.ids import State, TargetState


class Phase(Enum):
    """Where an instance is in its life; an instance that ended is never used again."""

    NEW = "new"  # made, and told nothing yet
    STARTED = "started"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"  # stays so until it is stopped (KIP-875) or shut down
    ENDED = "ended"


class Event(Enum):
    """What can happen to an instance."""

    START = "start"
    PAUSE = "pause"
    STOP = "stop"  # the target state STOPPED
    FAILURE = "failure"  # the plugin raised, or said that it cannot go on
    SHUTDOWN = "shutdown"  # the worker gives the instance up


class Action(Enum):
    """What the actor does, in order; the rest is left out where one fails."""

    CREATE = "create"  # resolve and check the configuration, make the plugin's object, unless that is done
    START = "start"  # as CREATE, then have the plugin start
    HALT = "halt"  # have the plugin stop, if it was started
    HALT_ANYWAY = "halt anyway"  # as HALT; a failure is only logged
    REPORT = "report"  # the new phase to the herder
    END = "end"  # stop the actor


@dataclass(frozen=True, slots=True)
class Step:
    """The phase after an event, and what to do."""

    phase: Phase
    actions: tuple[Action, ...] = ()


_REPORT = (Action.REPORT,)
_FAIL = Step(Phase.FAILED, _REPORT)
_START = Step(Phase.STARTED, (Action.START, Action.REPORT))
_STOP_ANYWAY = Step(Phase.STOPPED, (Action.HALT_ANYWAY, Action.REPORT))


def _stay(phase: Phase, *events: Event) -> dict[tuple[Phase, Event], Step]:
    return {(phase, event): Step(phase) for event in events}


TRANSITIONS: Mapping[tuple[Phase, Event], Step] = MappingProxyType({
    (Phase.NEW, Event.START): _START,
    (Phase.NEW, Event.PAUSE): Step(Phase.PAUSED, (Action.CREATE, Action.REPORT)),
    (Phase.NEW, Event.STOP): Step(Phase.STOPPED, (Action.CREATE, Action.REPORT)),
    (Phase.NEW, Event.FAILURE): _FAIL,
    (Phase.NEW, Event.SHUTDOWN): Step(Phase.ENDED, (Action.REPORT, Action.END)),
    **_stay(Phase.STARTED, Event.START),
    (Phase.STARTED, Event.PAUSE): Step(Phase.PAUSED, (Action.HALT, Action.REPORT)),
    (Phase.STARTED, Event.STOP): _STOP_ANYWAY,
    (Phase.STARTED, Event.FAILURE): _FAIL,
    (Phase.STARTED, Event.SHUTDOWN): Step(Phase.ENDED, (Action.HALT, Action.REPORT, Action.END)),
    (Phase.PAUSED, Event.START): _START,
    **_stay(Phase.PAUSED, Event.PAUSE),
    (Phase.PAUSED, Event.STOP): Step(Phase.STOPPED, _REPORT),
    (Phase.PAUSED, Event.FAILURE): _FAIL,
    (Phase.PAUSED, Event.SHUTDOWN): Step(Phase.ENDED, (Action.REPORT, Action.END)),
    (Phase.STOPPED, Event.START): _START,
    (Phase.STOPPED, Event.PAUSE): Step(Phase.PAUSED, _REPORT),
    **_stay(Phase.STOPPED, Event.STOP),
    (Phase.STOPPED, Event.FAILURE): _FAIL,
    (Phase.STOPPED, Event.SHUTDOWN): Step(Phase.ENDED, (Action.REPORT, Action.END)),
    # A failed connector can be stopped (and resumed from there), but neither paused nor simply started.
    **_stay(Phase.FAILED, Event.START, Event.PAUSE, Event.FAILURE),
    (Phase.FAILED, Event.STOP): _STOP_ANYWAY,
    (Phase.FAILED, Event.SHUTDOWN): Step(Phase.ENDED, (Action.HALT_ANYWAY, Action.REPORT, Action.END)),
    **_stay(Phase.ENDED, *Event),
})

_STATES: Mapping[Phase, State] = MappingProxyType({
    Phase.STARTED: State.RUNNING,
    Phase.PAUSED: State.PAUSED,
    Phase.STOPPED: State.STOPPED,
    Phase.FAILED: State.FAILED,
    Phase.ENDED: State.UNASSIGNED,
})

_EVENTS: Mapping[TargetState, Event] = MappingProxyType({
    TargetState.STARTED: Event.START,
    TargetState.PAUSED: Event.PAUSE,
    TargetState.STOPPED: Event.STOP,
})


def advance(phase: Phase, event: Event) -> Step:
    """The step that an event leads to."""
    return TRANSITIONS[phase, event]


def reported(phase: Phase) -> State:
    """The status of an instance in this phase. KeyError for NEW, which has none yet."""
    return _STATES[phase]


def towards(target: TargetState) -> Event:
    """What it means for an instance that the user wants this state."""
    return _EVENTS[target]
