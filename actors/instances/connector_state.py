"""The life cycle of one connector instance: its phases and what each event leads to. Pure; the actor carries it out.

TRANSITIONS has every pair of a phase and an event; none is impossible, because commands of the herder and failures of
the plugin may cross. The semantics are those of Kafka Connect's WorkerConnector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from storage.ids import State, TargetState


class ConnectorPhase(Enum):
    """The phases of an instance; an instance that has ended is never used again."""

    NEW = "new"  # created, without any command yet
    STARTED = "started"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"  # stays so until it is stopped (KIP-875) or shut down
    ENDED = "ended"


class ConnectorEvent(Enum):
    """The events of an instance."""

    START = "start"
    PAUSE = "pause"
    STOP = "stop"  # the target state STOPPED
    FAILURE = "failure"  # the plugin raised, or reported an error
    SHUTDOWN = "shutdown"  # the herder stops the instance


class ConnectorAction(Enum):
    """What the actor does, in order; if one action fails, the following ones are skipped."""

    CREATE = "create"  # resolve and check the configuration and create the plugin's object, unless it exists
    START = "start"  # like CREATE, then start the plugin
    HALT = "halt"  # stop the plugin, if it was started
    HALT_ANYWAY = "halt anyway"  # like HALT, but a failure is only logged
    REPORT = "report"  # report the new phase to the herder
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


def event_for(target: TargetState) -> ConnectorEvent:
    """The event that leads an instance to a target state."""
    return _EVENTS[target]
