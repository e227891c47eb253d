"""The connector's life cycle as a table: every pair, and what Kafka Connect's WorkerConnector does in it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.instances.connector_state import TRANSITIONS, Action, Event, Phase, advance, reported, towards
from storage.ids import State, TargetState


def test_every_pair_has_a_step():
    assert set(TRANSITIONS) == set(product(Phase, Event))


@pytest.mark.parametrize(("phase", "event"), sorted(TRANSITIONS, key=str))
def test_steps_are_whole(phase, event):
    step = advance(phase, event)
    if step.phase is phase:
        assert step.actions == ()
    else:
        assert Action.REPORT in step.actions
        assert (Action.END in step.actions) == (step.phase is Phase.ENDED)
        assert isinstance(reported(step.phase), State)
    if step.phase is Phase.STARTED and phase is not Phase.STARTED:
        assert step.actions[0] is Action.START


def test_only_stop_leads_out_of_failed():
    assert {e for e in Event if advance(Phase.FAILED, e).phase is not Phase.FAILED} == {Event.STOP, Event.SHUTDOWN}


def test_stopping_cannot_fail_but_pausing_can():
    assert Action.HALT_ANYWAY in advance(Phase.STARTED, Event.STOP).actions
    assert Action.HALT in advance(Phase.STARTED, Event.PAUSE).actions


def test_target_states():
    assert {towards(t) for t in TargetState} == {Event.START, Event.PAUSE, Event.STOP}


@given(st.lists(st.sampled_from(Event)))
def test_the_plugin_is_never_started_twice_and_never_left_running(events):
    phase, running = Phase.NEW, False
    for event in [*events, Event.SHUTDOWN]:
        step = advance(phase, event)
        phase = step.phase
        for action in step.actions:
            if action is Action.START:
                assert not running
                running = True
            if action in (Action.HALT, Action.HALT_ANYWAY):
                running = False
        assert not (phase in (Phase.PAUSED, Phase.STOPPED, Phase.ENDED) and running)
    assert phase is Phase.ENDED
