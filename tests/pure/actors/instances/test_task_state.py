"""The life cycle of a task instance: the whole table, and any sequence of events."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from actors.instances.task_state import TRANSITIONS, TaskAction, TaskEvent, TaskPhase, advance, reported, steps
from storage.ids import State


def test_every_pair_of_phase_and_event_has_a_transition() -> None:
    assert set(TRANSITIONS) == set(itertools.product(TaskPhase, TaskEvent))


def test_the_transitions_with_actions() -> None:
    found = {
        (phase.name, event.name): (step.phase.name, [a.name for a in step.actions])
        for (phase, event), step in TRANSITIONS.items() if step.actions
    }  # fmt: skip
    end = ("ENDED", ["CLOSE", "REPORT", "END"])
    fail = ("FAILED", ["CLOSE", "REPORT"])
    assert found == {
        ("NEW", "START"): ("RUNNING", ["OPEN", "REPORT", "STEP"]),
        ("NEW", "START_PAUSED"): ("PAUSED", ["OPEN", "PAUSE", "REPORT", "STEP"]),
        ("RUNNING", "PAUSE"): ("PAUSED", ["PAUSE", "REPORT"]),
        ("PAUSED", "RESUME"): ("RUNNING", ["RESUME", "REPORT", "STEP"]),
        **{(phase, "FAILURE"): fail for phase in ("NEW", "RUNNING", "PAUSED")},
        **{(phase, "STOP"): end for phase in ("NEW", "RUNNING", "PAUSED", "FAILED")},
    }


def test_a_row_without_actions_changes_nothing() -> None:
    assert all(step.phase is phase for (phase, _), step in TRANSITIONS.items() if not step.actions)


def test_every_phase_has_its_status() -> None:
    states = {phase: reported(phase) for phase in TaskPhase if phase is not TaskPhase.NEW}
    assert list(states.values()) == [State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED]


@given(st.lists(st.sampled_from(TaskEvent), max_size=30))
def test_any_sequence_of_events_opens_and_closes_the_runner_once(events: list[TaskEvent]) -> None:
    phase, opened, closed, paused, ends = TaskPhase.NEW, 0, 0, False, 0
    for event in events:
        step = advance(phase, event)
        for action in step.actions:
            opened += action is TaskAction.OPEN
            closed += action is TaskAction.CLOSE
            ends += action is TaskAction.END
            if action in (TaskAction.PAUSE, TaskAction.RESUME):
                paused = action is TaskAction.PAUSE
        assert not (phase is TaskPhase.ENDED and step.phase is not TaskPhase.ENDED)
        if phase is TaskPhase.FAILED:
            assert step.phase in (TaskPhase.FAILED, TaskPhase.ENDED), "only a stop ends FAILED"
        phase = step.phase
        if steps(phase):
            assert opened == 1
            assert closed == 0
            assert paused is (phase is TaskPhase.PAUSED)
    assert opened <= 1
    assert ends <= 1
    assert ends == (phase is TaskPhase.ENDED)
    if phase in (TaskPhase.FAILED, TaskPhase.ENDED):
        assert closed >= 1
