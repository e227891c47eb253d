"""Replay of dead letters: which worker does it, and which requests are refused before that."""

from __future__ import annotations

import pytest

from actors.errors import BadRequestError, ConflictError, NotAssignedError, NotFoundError
from actors.herder.dead_letters import QUEUE
from actors.messages.requests import PutConnector, ReplayDeadLetters, SetTargetState, StopConnectorRequest
from storage.ids import ConnectorName, ConnectorTaskId, TargetState
from tests.rigs.herder.world import World

C = ConnectorName("c")
ASK = ReplayDeadLetters(C, {})


def sinks(workers: int = 1, *, queue: str = "dead") -> World:
    world = World(workers, settings={"connector_type": lambda _: "sink"})
    world.settle()
    config = {"name": "c", **({QUEUE: queue} if queue else {})}
    world.ask(world.leader or "", PutConnector(C, config, replace=False))
    world.settle()
    return world


def refusal(world: World, worker: str = "w0") -> Exception | None:
    number = world.ask(worker, ASK)
    world.settle()
    return world.replies[number].error if number in world.replies else None


def test_a_replay_runs_on_the_worker_of_the_first_task() -> None:
    world = sinks(2)
    [owner] = world.where()[ConnectorTaskId(C, 0)]
    assert refusal(world, owner) is None
    [other] = set(world.nodes) - {owner}
    error = refusal(world, other)
    if world.leader == other:
        assert isinstance(error, NotAssignedError)
    assert getattr(error, "url", None) == f"http://{owner if world.leader == other else world.leader}/"


@pytest.mark.parametrize("queue", ["", " "])
def test_a_replay_without_a_queue_is_refused(queue: str) -> None:
    error = refusal(sinks(queue=queue))
    assert isinstance(error, BadRequestError)
    assert QUEUE in str(error)


def test_a_replay_into_a_connector_that_does_not_run_is_refused() -> None:
    world = sinks()
    world.ask("w0", SetTargetState(C, TargetState.PAUSED))
    world.settle()
    assert "c is paused" in str(refusal(world))
    assert "PUT /connectors/c/resume" in str(refusal(world))
    world.ask("w0", StopConnectorRequest(C))
    world.settle()
    error = refusal(world)
    assert isinstance(error, BadRequestError)
    assert "c is stopped" in str(error)


def test_a_replay_into_an_unknown_connector_is_refused() -> None:
    world = World(1)
    world.settle()
    assert isinstance(refusal(world), NotFoundError)


def test_a_source_replays_its_letters_too() -> None:
    world = World(1, settings={"connector_type": lambda _: "source"})
    world.settle()
    world.ask("w0", PutConnector(C, {"name": "c", QUEUE: "dead"}, replace=False))
    world.settle()
    assert refusal(world) is None


def test_a_replay_into_a_connector_without_tasks_can_be_tried_again() -> None:
    world = World(1, settings={"connector_type": lambda _: "sink"})
    world.settle()
    world.tasks = 0
    world.ask("w0", PutConnector(C, {"name": "c", QUEUE: "dead"}, replace=False))
    world.settle()
    error = refusal(world)
    assert isinstance(error, ConflictError)
    assert "c has no tasks yet" in str(error)
