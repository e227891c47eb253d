"""The connector's life cycle as a table: every pair, and what Kafka Connect's WorkerConnector does in it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.instances.connector_state import (
    TRANSITIONS,
    ConnectorAction,
    ConnectorEvent,
    ConnectorPhase,
    advance,
    event_for,
    reported,
)
from storage.ids import State, TargetState


def test_every_pair_of_phase_and_event_has_a_transition():
    assert set(TRANSITIONS) == set(product(ConnectorPhase, ConnectorEvent))


@pytest.mark.parametrize(("phase", "event"), sorted(TRANSITIONS, key=str))
def test_every_transition_reports_its_new_phase(phase, event):
    step = advance(phase, event)
    if step.phase is phase:
        assert step.actions == ()
    else:
        assert ConnectorAction.REPORT in step.actions
        assert (ConnectorAction.END in step.actions) == (step.phase is ConnectorPhase.ENDED)
        assert isinstance(reported(step.phase), State)
    if step.phase is ConnectorPhase.STARTED and phase is not ConnectorPhase.STARTED:
        assert step.actions[0] is ConnectorAction.START


def test_only_stop_leads_out_of_failed():
    failed = ConnectorPhase.FAILED
    leading_out = {event for event in ConnectorEvent if advance(failed, event).phase is not failed}
    assert leading_out == {ConnectorEvent.STOP, ConnectorEvent.SHUTDOWN}


def test_stopping_cannot_fail_but_pausing_can():
    assert ConnectorAction.HALT_ANYWAY in advance(ConnectorPhase.STARTED, ConnectorEvent.STOP).actions
    assert ConnectorAction.HALT in advance(ConnectorPhase.STARTED, ConnectorEvent.PAUSE).actions


def test_every_target_state_has_an_event():
    assert {event_for(t) for t in TargetState} == {ConnectorEvent.START, ConnectorEvent.PAUSE, ConnectorEvent.STOP}


@given(st.lists(st.sampled_from(ConnectorEvent)))
def test_the_plugin_is_never_started_twice_and_never_left_running(events):
    phase, running = ConnectorPhase.NEW, False
    for event in [*events, ConnectorEvent.SHUTDOWN]:
        step = advance(phase, event)
        phase = step.phase
        for action in step.actions:
            if action is ConnectorAction.START:
                assert not running
                running = True
            if action in (ConnectorAction.HALT, ConnectorAction.HALT_ANYWAY):
                running = False
        assert not (phase in (ConnectorPhase.PAUSED, ConnectorPhase.STOPPED, ConnectorPhase.ENDED) and running)
    assert phase is ConnectorPhase.ENDED
