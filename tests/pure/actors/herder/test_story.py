"""A connector's story: all that concerns it and nothing else, no secrets, no forged lines."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from actors.herder.effects import Delegate, Effect, Log, Reply, SetTimer, StopInstance, Timer, Validate
from actors.herder.events import Event, HaltRequested, RequestReceived, TimerFired, Validated
from actors.herder.story import SHOWN, RecordedStep, Story, describe, subjects
from actors.messages.commands import PutConnectorConfig, PutSessionKey, WriteConfig
from actors.messages.correlation_ids import Epoch, OpId, RequestId
from actors.messages.events import ConfigOpDone, ConnectorStateReported, Remark, TaskStateReported
from actors.messages.requests import (
    GetConnector,
    GetOffsets,
    HealthCheck,
    PutConnector,
    ReplayDeadLetters,
    Request,
    StoryEntry,
)
from storage.config.state import SessionKey
from storage.ids import ConnectorName, ConnectorTaskId, State
from storage.status.state import StatusState
from tests.rigs.herder.node import Node
from tests.rigs.herder.world import World

C, D = ConnectorName("c"), ConnectorName("d")
HOSTILE = ("c', x='d", "c\n5 Forged#1 all is well", 'c"', "\x1b[31mc", "c-0", "", "…", "\ud800")


class NumberedStory(Story):
    """A story that numbers its steps."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = itertools.count()

    def step(self, payload: Any, *effects: Effect) -> str:
        cause = f"{type(payload).__name__}#{next(self._steps)}"
        self.add(Event(payload, 5, StatusState(), cause), effects)
        return cause


def put(name: str) -> PutConnector:
    return PutConnector(ConnectorName(name), {"name": name, "password": "s3cr3t"}, replace=False)


def test_a_story_leads_from_a_request_to_its_response() -> None:
    """It includes steps that name no connector: the end of an op, a timer, a response."""
    story, asked = NumberedStory(), RequestId(1)
    first = story.step(RequestReceived(asked, put("c")), Validate(asked, {"password": "s3cr3t"}))
    second = story.step(Validated(asked), WriteConfig(OpId(7), PutConnectorConfig(C, {"a": "b"})))
    third = story.step(ConfigOpDone(OpId(7)), Reply(asked), SetTimer((Timer.QUEUE, ""), 9))
    fourth = story.step(TimerFired((Timer.QUEUE, "")))
    story.step(ConfigOpDone(OpId(8)), Reply(RequestId(2)))
    entries = story.of(C)
    assert [(e.cause, e.because) for e in entries] == [(first, None), (second, first), (third, second), (fourth, third)]
    assert entries[0].effects == ("Validate(request_id=1, config={1 keys})",)
    assert entries[2].effects[0] == "Reply(request_id=1, value=None, error=None)"
    assert "s3cr3t" not in str(entries)
    assert story.of(D) == ()


@pytest.mark.parametrize(("request_", "effect", "shown"), [
    (GetConnector(C), Reply(RequestId(1)), False),
    (GetOffsets(C), Delegate(RequestId(1), GetOffsets(C)), False),
    (HealthCheck(), Reply(RequestId(1)), False),
    (ReplayDeadLetters(C, None), Delegate(RequestId(1), ReplayDeadLetters(C, None)), False),
    (ReplayDeadLetters(C, {}), Delegate(RequestId(1), ReplayDeadLetters(C, {})), True),
    (GetConnector(C), StopInstance(C, Epoch(1)), True),
])
def test_requests_that_only_read_are_not_in_the_story(request_: Request, effect: Effect, shown: bool) -> None:
    """Requests that only read are not recorded; those that start something are."""
    story = NumberedStory()
    story.step(RequestReceived(RequestId(1), request_), effect)
    assert bool(story.text()) is shown


def test_a_step_that_concerns_all_connectors_shows_only_the_connectors_part() -> None:
    story = NumberedStory()
    story.step(HaltRequested("SIGTERM"), Log("INFO", "stopping all"), StopInstance(C, Epoch(1)),
               StopInstance(ConnectorTaskId(D, 0), Epoch(2)), Log("INFO", "d: …", D))
    story.step(HaltRequested("nothing of anybody"))
    assert [e.effects for e in story.of(D)] == [(
        "Log(level='INFO', message='stopping all', about=None)", "StopInstance(item='d-0', epoch=2)",
        "Log(level='INFO', message='d: …', about='d')")]
    report = story.step(TaskStateReported(ConnectorTaskId(D, 0), Epoch(2), State.UNASSIGNED, stopped_for_good=True))
    assert story.of(D)[-1] == StoryEntry(5, report, "HaltRequested#0", story.of(D)[-1].what, ())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_appears_only_in_its_own_story_and_forges_no_line(name: str) -> None:
    story, hostile = NumberedStory(), ConnectorName(name)
    story.step(ConnectorStateReported(C, Epoch(1), State.RUNNING))
    story.step(ConnectorStateReported(hostile, Epoch(2), State.FAILED, f"trace\n6 {name}"))
    story.note(5, "Remark#3", Remark(ConnectorTaskId(hostile, 0), f"hangs\n7 {name}\r", "executors"))
    assert len(story.of(C)) == 1
    assert len(story.of(hostile)) == 2
    assert story.of(D) == ()
    lines = story.text().split("\n")
    assert [line.split(" ")[1].partition("#")[0] for line in lines] == ["ConnectorStateReported"] * 2 + ["Remark"]


def test_values_that_concern_no_connector_are_not_described() -> None:
    key = SessionKey(b"k" * 32, "HmacSHA256", 5)
    assert describe(WriteConfig(OpId(1), PutSessionKey(key))) == (
        "WriteConfig(op=1, write=PutSessionKey(key=SessionKey(key=<32 bytes>, algorithm='HmacSHA256', created_ms=5)))")
    assert describe(tuple(range(100))) == f"[{', '.join(map(str, range(SHOWN)))}, … 100 in all]"
    assert describe(object()) == "<object>"


def test_secrets_are_masked_before_anything_is_cut() -> None:
    story = Story(mask=lambda text: text.replace("s3cr3t", "[hidden]"))
    for length in range(9_900, 10_000):
        story.note(5, "Remark#1", Remark(C, "x" * length + "s3cr3t", "executors"))
    entries = story.of(C)
    assert len(entries) == 100
    assert all("s3" not in entry.what and len(entry.what) <= 10_000 for entry in entries)


@pytest.mark.parametrize("seed", range(5))
def test_every_step_of_a_worker_can_be_described(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step that is named as the cause of another one exists."""
    story, causes = NumberedStory(), set()

    def remember(_: World, _node: Node, recorded: RecordedStep) -> None:
        assert subjects(recorded.event.payload) <= {C}
        causes.add(story.step(recorded.event.payload, *recorded.effects))

    monkeypatch.setattr(World, "remember", remember)
    world = World(1, seed=seed)
    world.ask("w0", put("c"))
    world.settle()
    entries = story.of(C)
    started = [effect for entry in entries for effect in entry.effects if effect.startswith("StartInstance")]
    assert len(started) == 3, "the connector and two tasks"
    assert {entry.because for entry in entries} - {None} <= causes
