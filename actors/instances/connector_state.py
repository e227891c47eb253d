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


class ConnectorPhase(Enum):
    """Where an instance is in its life; an instance that ended is never used again."""

    NEW = "new"  # made, and told nothing yet
    STARTED = "started"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"  # stays so until it is stopped (KIP-875) or shut down
    ENDED = "ended"


class ConnectorEvent(Enum):
    """What can happen to an instance."""

    START = "start"
    PAUSE = "pause"
    STOP = "stop"  # the target state STOPPED
    FAILURE = "failure"  # the plugin raised, or said that it cannot go on
    SHUTDOWN = "shutdown"  # the worker gives the instance up


class ConnectorAction(Enum):
    """What the actor does, in order; the rest is left out where one fails."""

    CREATE = "create"  # resolve and check the configuration, make the plugin's object, unless that is done
    START = "start"  # as CREATE, then have the plugin start
    HALT = "halt"  # have the plugin stop, if it was started
    HALT_ANYWAY = "halt anyway"  # as HALT; a failure is only logged
    REPORT = "report"  # the new phase to the herder
    END = "end"  # stop the actor


@dataclass(frozen=True, slots=True)
class ConnectorStep:
    """The phase after an event, and what to do."""

    phase: ConnectorPhase
    actions: tuple[ConnectorAction, ...] = ()


_P, _E, _A = ConnectorPhase, ConnectorEvent, ConnectorAction  # for the table
_REPORT = (_A.REPORT,)
_FAIL = ConnectorStep(_P.FAILED, _REPORT)
_START = ConnectorStep(_P.STARTED, (_A.START, _A.REPORT))
_STOP_ANYWAY = ConnectorStep(_P.STOPPED, (_A.HALT_ANYWAY, _A.REPORT))


def _stay(phase: ConnectorPhase, *events: ConnectorEvent) -> dict[tuple[ConnectorPhase, ConnectorEvent], ConnectorStep]:
    return {(phase, event): ConnectorStep(phase) for event in events}


TRANSITIONS: Mapping[tuple[ConnectorPhase, ConnectorEvent], ConnectorStep] = MappingProxyType({
    (_P.NEW, _E.START): _START,
    (_P.NEW, _E.PAUSE): ConnectorStep(_P.PAUSED, (_A.CREATE, _A.REPORT)),
    (_P.NEW, _E.STOP): ConnectorStep(_P.STOPPED, (_A.CREATE, _A.REPORT)),
    (_P.NEW, _E.FAILURE): _FAIL,
    (_P.NEW, _E.SHUTDOWN): ConnectorStep(_P.ENDED, (_A.REPORT, _A.END)),
    **_stay(_P.STARTED, _E.START),
    (_P.STARTED, _E.PAUSE): ConnectorStep(_P.PAUSED, (_A.HALT, _A.REPORT)),
    (_P.STARTED, _E.STOP): _STOP_ANYWAY,
    (_P.STARTED, _E.FAILURE): _FAIL,
    (_P.STARTED, _E.SHUTDOWN): ConnectorStep(_P.ENDED, (_A.HALT, _A.REPORT, _A.END)),
    (_P.PAUSED, _E.START): _START,
    **_stay(_P.PAUSED, _E.PAUSE),
    (_P.PAUSED, _E.STOP): ConnectorStep(_P.STOPPED, _REPORT),
    (_P.PAUSED, _E.FAILURE): _FAIL,
    (_P.PAUSED, _E.SHUTDOWN): ConnectorStep(_P.ENDED, (_A.REPORT, _A.END)),
    (_P.STOPPED, _E.START): _START,
    (_P.STOPPED, _E.PAUSE): ConnectorStep(_P.PAUSED, _REPORT),
    **_stay(_P.STOPPED, _E.STOP),
    (_P.STOPPED, _E.FAILURE): _FAIL,
    (_P.STOPPED, _E.SHUTDOWN): ConnectorStep(_P.ENDED, (_A.REPORT, _A.END)),
    # A failed connector can be stopped (and resumed from there), but neither paused nor simply started.
    **_stay(_P.FAILED, _E.START, _E.PAUSE, _E.FAILURE),
    (_P.FAILED, _E.STOP): _STOP_ANYWAY,
    (_P.FAILED, _E.SHUTDOWN): ConnectorStep(_P.ENDED, (_A.HALT_ANYWAY, _A.REPORT, _A.END)),
    **_stay(_P.ENDED, *ConnectorEvent),
})

_STATES: Mapping[ConnectorPhase, State] = MappingProxyType({
    ConnectorPhase.STARTED: State.RUNNING,
    ConnectorPhase.PAUSED: State.PAUSED,
    ConnectorPhase.STOPPED: State.STOPPED,
    ConnectorPhase.FAILED: State.FAILED,
    ConnectorPhase.ENDED: State.UNASSIGNED,
})

_EVENTS: Mapping[TargetState, ConnectorEvent] = MappingProxyType({
    TargetState.STARTED: ConnectorEvent.START,
    TargetState.PAUSED: ConnectorEvent.PAUSE,
    TargetState.STOPPED: ConnectorEvent.STOP,
})


def advance(phase: ConnectorPhase, event: ConnectorEvent) -> ConnectorStep:
    """The step that an event leads to."""
    return TRANSITIONS[phase, event]


def reported(phase: ConnectorPhase) -> State:
    """The status of an instance in this phase. KeyError for NEW, which has none yet."""
    return _STATES[phase]


def towards(target: TargetState) -> ConnectorEvent:
    """What it means for an instance that the user wants this state."""
    return _EVENTS[target]
