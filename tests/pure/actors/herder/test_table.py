"""The herder's table: every pair of a phase and a kind of event, what histories do, and the document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest

from actors.assignment.protocol import Assignment, Membership, Protocol
from actors.herder import core, events
from actors.herder.continuations import (
    AnswerWith,
    Continuation,
    GeneratedTasks,
    HaltFlushed,
    JoinAgain,
    KeyWritten,
    OffsetsRead,
    PrivilegesClaimed,
    PublishedTasks,
    Released,
    ResolveAssignment,
    StatusesCaughtUp,
    WriteNext,
)
from actors.herder.effects import Effect, Timer
from actors.herder.events import (
    Event,
    HaltRequested,
    Loaded,
    Payload,
    RequestReceived,
    Suspended,
    TimerFired,
    Validated,
)
from actors.herder.fencing_state import Fenced, FencingChecked, FencingRead, FencingRecorded, RestartRead, StartVerified
from actors.herder.own_requests import Reconfigure
from actors.herder.standing import (
    FlushingStatuses,
    Follower,
    Halted,
    Halting,
    Joining,
    Leader,
    Loading,
    Out,
    Phase,
    Resolved,
    Revoking,
    Standing,
    Syncing,
)
from actors.herder.state import HerderSettings, HerderState
from actors.herder.table import EVENTS, OPS, Kind, UnexpectedEventError, ignored, impossible
from actors.messages.commands import PutTargetState
from actors.messages.correlation_ids import Epoch, OpId, RequestId
from actors.messages.events import (
    ConfigChanged,
    ConfigOpDone,
    ConnectorStateReported,
    CoordinatorLost,
    InstanceRecovered,
    InstanceStalled,
    Joined,
    JoinPreparing,
    StatusesFlushed,
    TaskConfigsGenerated,
    TaskReconfigurationRequested,
    TaskStateReported,
)
from actors.messages.requests import AlterOffsets, HealthCheck
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState, WorkerId
from storage.status.state import StatusState
from tests.rigs.herder import chart, histories
from tests.rigs.herder.invariants import violations

C = ConnectorName("c")
T = ConnectorTaskId(C, 0)
OP = OpId(1000)
MEMBERSHIP = Membership(3, "me", Protocol.SESSIONED, Assignment("me", "http://me/", -1))
LED = Membership(3, "me", Protocol.SESSIONED, Assignment("other", "http://other/", -1))
ENDERS = ("ConfigOpDone", "StatusesFlushed", "StatusesRead", "ProducersFenced", "TaskConfigsPublished")
STANDINGS: Mapping[Phase, tuple[Standing, ...]] = {
    Phase.LOADING: (Loading(),),
    Phase.OUT: (Out(),),
    Phase.JOINING: (Joining(), Joining(Leader(MEMBERSHIP, 1)), Joining(Follower(LED))),
    Phase.REVOKING: (Revoking(Leader(MEMBERSHIP)),),
    Phase.SYNCING: (Syncing(Leader(MEMBERSHIP, 1)), Syncing(Follower(LED))),
    Phase.RESOLVED: (Resolved(Leader(MEMBERSHIP)), Resolved(Follower(LED))),
    Phase.HALTING: (Halting(), Halting(Leader(MEMBERSHIP))),
    Phase.HALTED: (Halted(),),
}
MESSAGES: Mapping[type, Payload] = {type(message): message for message in (
    Loaded(ClusterConfigState()), RequestReceived(RequestId(7), HealthCheck()), Validated(RequestId(8)),
    ConfigChanged(ClusterConfigState(), ()), TaskConfigsGenerated(C, Epoch(9), OP),
    TaskReconfigurationRequested(C, Epoch(9)), JoinPreparing(eager=False), Joined(MEMBERSHIP), CoordinatorLost("test"),
    Suspended(60_000), ConnectorStateReported(C, Epoch(9), State.RUNNING),
    TaskStateReported(T, Epoch(9), State.RUNNING), HaltRequested("test"), InstanceStalled(T, Epoch(9), "hangs", 9),
    InstanceRecovered(T, Epoch(9)),
)}
ENDS: Mapping[type, Continuation] = {type(then): then for then in (
    AnswerWith(RequestId(7)), WriteNext(RequestId(7), PutTargetState(C, TargetState.PAUSED)),
    ResolveAssignment(False, 3), JoinAgain(), Released(),
    PublishedTasks(Reconfigure(C)), GeneratedTasks(Reconfigure(C)), PrivilegesClaimed(), KeyWritten(),
    FencingRead(RequestId(7), C, 1), Fenced(C), FencingChecked(C), FencingRecorded((RequestId(7),)),
    StartVerified(RequestId(7), T, 0), RestartRead(RequestId(7), T),
    OffsetsRead(RequestId(7), AlterOffsets(C, None)), StatusesCaughtUp(), HaltFlushed(),
)}


def prepared(standing: Standing, kind: Kind) -> tuple[HerderState, Payload]:
    """A worker without connectors in a phase, and an event of a kind that it can get."""
    settings = HerderSettings(WorkerId("me"), "g")
    if kind in ENDS:
        release = {"release": FlushingStatuses(OP)} if kind is Released else {}
        payload: Any = StatusesFlushed(OP) if kind in (Released, HaltFlushed) else ConfigOpDone(OP)
        return HerderState(settings, standing, ops={OP: ENDS[kind]}, counter=OP, **release), payload
    if isinstance(kind, Timer):
        return HerderState(settings, standing), TimerFired((kind, "1"))
    return HerderState(settings, standing), MESSAGES[kind]


def test_the_table_has_every_event_and_phase() -> None:
    messages = {message for message in get_args(Payload) if message.__name__ not in ENDERS} - {TimerFired}
    assert set(EVENTS) == messages | set(Timer)
    assert set(OPS) == set(get_args(Continuation))
    assert all(set(row) == set(Phase) for row in (*EVENTS.values(), *OPS.values()))


@pytest.mark.parametrize("kind", [*EVENTS, *OPS], ids=chart.label)
def test_every_pair_of_phase_and_event_is_handled_ignored_or_impossible(kind: Kind) -> None:
    """Impossible events have names, ignored ones change nothing, and handled ones leave a valid state."""
    for phase, standing in ((p, s) for p in Phase for s in STANDINGS[p]):
        handler = chart.TABLE[kind][phase]
        state, payload = prepared(standing, kind)
        event = Event(payload, 1, StatusState(), "test")
        if handler is impossible:
            with pytest.raises(UnexpectedEventError, match=phase.value):
                core.step(state, event)
            continue
        after, effects = core.step(state, event)
        if handler is ignored:
            assert (after, effects) == (state, ()), phase
        assert violations(after) == [], phase


def test_the_queue_never_waits_for_an_end_that_is_impossible() -> None:
    """The worker stops: any error but UnexpectedEventError does that."""
    pairs = [(kind, phase) for kind in OPS for phase in Phase if OPS[kind][phase] is impossible]
    assert pairs
    for kind, phase in pairs:
        state, payload = prepared(STANDINGS[phase][0], kind)
        with pytest.raises(RuntimeError, match=f"requests wait for {kind.__name__}"):
            core.step(replace(state, busy=OP), Event(payload, 1, StatusState(), "test"))


def test_an_unknown_event_is_refused() -> None:
    state = HerderState(HerderSettings(WorkerId("me"), "g"))
    with pytest.raises(UnexpectedEventError, match="str in phase loading"):
        core.step(state, Event("what is this?", 1, StatusState(), "test"))  # type: ignore[arg-type]


def test_a_worker_that_ends_while_it_loads_does_not_join() -> None:
    """Two threads may send both at the same moment."""
    state = HerderState(HerderSettings(WorkerId("me"), "g"))
    state, _ = core.step(state, Event(HaltRequested("SIGTERM"), 1, StatusState(), "test"))
    state, effects = core.step(state, Event(Loaded(ClusterConfigState()), 1, StatusState(), "test"))
    assert (state.phase, effects) == (Phase.HALTING, ())


def test_histories_do_only_what_the_document_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """An impossible event would raise an error."""
    seen: dict[tuple[Phase, Kind], set[tuple[Phase, frozenset[str]]]] = defaultdict(set)
    step = core.step

    def observed(state: HerderState, event: Event) -> tuple[HerderState, tuple[Effect, ...]]:
        after, effects = step(state, event)
        kind = kind_of(state, event.payload)
        if kind is not None:
            seen[state.phase, kind].add((after.phase, frozenset(type(e).__name__ for e in effects)))
        return after, effects

    monkeypatch.setattr("tests.rigs.herder.node.core.step", observed)
    for seed in (4, 8, 24, 34, 39):  # of the first forty, those in which most happens
        histories.run(seed)
    assert len(seen) > 75
    # Beside what the event leads to: a refused write, a defect; the next request or config, or the refusal of requests.
    always = chart.effects_of("leadership.on_fenced")
    resolved, unresolved = chart.effects_of("core.advance"), chart.effects_of("request_timeouts.check")
    for (phase, kind), outcomes in seen.items():
        name = chart.name_of(chart.TABLE[kind][phase])
        phases = {phase, *chart.phases_of(name)}
        advances = Phase.RESOLVED in phases
        phases |= chart.phases_of("core.advance") if advances else set()
        for after, effects in outcomes:
            afterwards = (resolved if advances else set()) | (unresolved if after is not Phase.RESOLVED else set())
            assert after in phases, f"{chart.label(kind)} leads from {phase.value} to {after.value}"
            unknown = effects - chart.effects_of(name) - always - afterwards
            assert not unknown, f"{chart.label(kind)} in {phase.value} wants {unknown}"


def kind_of(state: HerderState, payload: Payload) -> Kind | None:
    if isinstance(payload, events.TimerFired):
        return payload.key[0]
    if type(payload).__name__ not in ENDERS:
        return type(payload)
    then = state.ops.get(payload.op)  # type: ignore[union-attr]
    return None if then is None else type(then)


def test_the_document_is_up_to_date() -> None:
    text = chart.DOCUMENT.read_text()
    assert chart.document(text) == text, "make herder-doc writes it anew"
