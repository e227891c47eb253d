"""The herder's core, by events and effects; no threads, no IO."""

from __future__ import annotations

import pytest

from actors.assignment.protocol import Protocol
from actors.errors import AlreadyExistsError, ConflictError, NotAssignedError, NotFoundError, NotLeaderError
from actors.herder.events import HaltRequested
from actors.herder.standing import Phase
from actors.messages.commands import StartTask
from actors.messages.events import TaskReconfigurationRequested
from actors.messages.requests import (
    DeleteConnector,
    GetConnector,
    HealthCheck,
    PatchConnector,
    PutConnector,
    RestartConnectorAndTasks,
    RestartTask,
    SetTargetState,
    StopConnectorRequest,
)
from storage.config.state import RestartRequest
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from tests.rigs.herder.world import World

C = ConnectorName("c")


def put(name: str, replace: bool = False, **config: str) -> PutConnector:
    return PutConnector(ConnectorName(name), {"name": name, **config}, replace=replace)


def started(workers: int = 1, **kw: object) -> World:
    world = World(workers, **kw)  # type: ignore[arg-type]
    world.settle()
    return world


@pytest.mark.parametrize("protocol", list(Protocol))
def test_a_created_connector_runs_with_its_tasks(protocol: Protocol) -> None:
    world = started(protocol=protocol)
    request = world.ask("w0", put("c"))
    world.settle()
    assert world.replies[request].value.created is True
    assert set(world.where()) == {"c", ConnectorTaskId(C, 0), ConnectorTaskId(C, 1)}
    world.check_at_rest()
    assert world.statuses.connectors[C].state is State.RUNNING
    assert [s.state for s in world.statuses.tasks[C].values()] == [State.RUNNING] * 2


@pytest.mark.parametrize("protocol", list(Protocol))
def test_work_spreads_over_three_workers_and_moves_when_one_dies(protocol: Protocol) -> None:
    world = started(3, protocol=protocol)
    for n in range(6):
        world.ask(world.leader or "", put(f"c{n}"))
    world.settle()
    world.check_at_rest()
    assert [len(n.running) for n in world.nodes.values()] == [6, 6, 6]
    world.crash("w2")
    world.settle()
    world.check_at_rest()
    assert [len(n.running) for n in world.nodes.values()] == [9, 9, 0]


def test_the_second_of_two_concurrent_creations_is_refused() -> None:
    world = started()
    first, second = world.ask("w0", put("c")), world.ask("w0", put("c"))
    world.settle()
    assert world.replies[first].error is None
    assert isinstance(world.replies[second].error, AlreadyExistsError)


def test_requests_about_a_connector_do_not_import_its_class() -> None:
    """It may hang, and this worker may not run the connector."""
    world = started(settings={"connector_type": lambda _: pytest.fail("its class was asked for")})
    made = [put("c"), GetConnector(C), PatchConnector(C, {"v": "1"}), RestartTask(ConnectorTaskId(C, 0)),
            RestartConnectorAndTasks(RestartRequest(C, only_failed=False, include_tasks=True))]
    for request in made:
        number = world.ask("w0", request)
        world.settle()
        assert world.replies[number].error is None


def test_a_follower_names_the_leader() -> None:
    world = started(2)
    follower = next(n for n in world.nodes if n != world.leader)
    request = world.ask(follower, put("c"))
    world.settle()
    error = world.replies[request].error
    assert isinstance(error, NotLeaderError)
    assert error.url == f"http://{world.leader}/"


def test_a_new_config_reaches_the_tasks() -> None:
    world = started(2)
    world.ask(world.leader or "", put("c", v="1"))
    world.settle()
    world.ask(world.leader or "", put("c", replace=True, v="2"))
    world.settle()
    world.check_at_rest()
    running = [item for n in world.nodes.values() for item in n.running.items()]
    commands = [command for i, (_, command) in running if isinstance(i, ConnectorTaskId)]
    assert [c.task_config["v"] for c in commands] == ["2", "2"]


def test_tasks_that_no_longer_exist_end_before_the_others_start_with_their_part() -> None:
    """Otherwise two tasks would read the same part of a source: one as it was divided before, one as it is now."""
    world = started(3)
    world.ask(world.leader or "", put("c", v="1", **{"tasks.max": "4"}))
    world.settle()
    world.ask(world.leader or "", put("c", replace=True, v="2", **{"tasks.max": "2"}))
    while world.step() or world.tick():
        commands = [i.command for n in world.nodes.values() for i in n.instances.values()]
        assert len({c.task_config["v"] for c in commands if isinstance(c, StartTask)}) <= 1, world.story()
    world.check_at_rest()


def test_an_unchanged_config_writes_no_task_configs() -> None:
    world = started()
    world.ask("w0", put("c", v="1"))
    world.settle()
    before = len(world.log)
    world.ask("w0", put("c", replace=True, v="1"))
    world.settle()
    assert len(world.log) == before + 1


def test_pause_resume_and_stop() -> None:
    world = started()
    world.ask("w0", put("c"))
    world.settle()
    world.ask("w0", SetTargetState(C, TargetState.PAUSED))
    world.settle()
    assert world.statuses.connectors[C].state is State.PAUSED
    assert world.statuses.tasks[C][0].state is State.PAUSED
    world.ask("w0", SetTargetState(C, TargetState.STARTED))
    world.settle()
    assert world.statuses.tasks[C][1].state is State.RUNNING
    world.ask("w0", StopConnectorRequest(C))
    world.settle()
    assert world.statuses.connectors[C].state is State.STOPPED
    assert C not in world.statuses.tasks
    assert set(world.where()) == {"c"}
    world.ask("w0", SetTargetState(C, TargetState.STARTED))
    world.settle()
    world.check_at_rest()
    assert len(world.where()) == 3


def test_deleting_leaves_no_instance_and_no_status() -> None:
    world = started(2)
    world.ask(world.leader or "", put("c"))
    world.settle()
    request = world.ask(world.leader or "", DeleteConnector(C))
    world.settle()
    assert world.replies[request].error is None
    assert world.where() == {}
    assert world.statuses.connectors == {}
    assert not any(world.statuses.tasks.values())


def test_requests_for_unknown_connectors_are_404() -> None:
    world = started()
    asked = [world.ask("w0", r) for r in (GetConnector(C), DeleteConnector(C), SetTargetState(C, TargetState.PAUSED),
                                          RestartTask(ConnectorTaskId(C, 0)),
                                          RestartConnectorAndTasks(RestartRequest(C, False, True)))]
    world.settle()
    assert all(isinstance(world.replies[r].error, NotFoundError) for r in asked)


def test_a_task_of_a_stopped_connector_is_known_but_runs_nowhere() -> None:
    world = started()
    world.ask("w0", put("c"))
    world.settle()
    world.ask("w0", StopConnectorRequest(C))
    world.settle()
    stopped, unknown = [world.ask("w0", RestartTask(ConnectorTaskId(C, n))) for n in (0, 7)]
    world.settle()
    error = world.replies[stopped].error
    assert isinstance(error, NotAssignedError)
    assert error.url is None
    assert isinstance(world.replies[unknown].error, NotFoundError)


def test_a_follower_knows_which_connectors_it_cannot_stop() -> None:
    world = started(2)
    follower = next(name for name in world.nodes if name != world.leader)
    request = world.ask(follower, StopConnectorRequest(C))
    world.settle()
    assert isinstance(world.replies[request].error, NotFoundError)


def test_a_restart_record_restarts_each_part_where_it_runs() -> None:
    world = started(2)
    world.ask(world.leader or "", put("c", **{"tasks.max": "3"}))
    world.settle()
    before = {i: e for n in world.nodes.values() for i, (e, _) in n.running.items()}
    request = world.ask(world.leader or "", RestartConnectorAndTasks(RestartRequest(C, False, True)))
    world.settle()
    answer = world.replies[request].value
    assert [s.state for s in (answer.connector, *answer.tasks)] == [State.RESTARTING] * 4
    after = {i: e for n in world.nodes.values() for i, (e, _) in n.running.items()}
    assert set(before) == set(after)
    assert all(before[i] != after[i] for i in before)
    world.check_at_rest()


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_restart_requested_during_a_rebalance_is_complete(steps: int) -> None:
    """At any moment of the rebalance: the restart covers the connector and all its tasks."""
    world = started(2)
    world.ask(world.leader or "", put("c", **{"tasks.max": "3"}))
    world.settle()
    before = {i: e for n in world.nodes.values() for i, (e, _) in n.running.items()}
    world.add("w2")
    for _ in range(steps):
        world.step()
    request = world.ask("w0", RestartConnectorAndTasks(RestartRequest(C, False, True)))
    world.settle()
    answer = world.replies[request].value
    assert [s.state for s in (answer.connector, *answer.tasks)] == [State.RESTARTING] * 4
    after = {i: e for n in world.nodes.values() for i, (e, _) in n.running.items()}
    assert all(before[i] != after[i] for i in before)
    world.check_at_rest()


def test_the_answer_to_a_restart_keeps_the_traces_of_what_failed() -> None:
    world = started()
    world.ask("w0", put("c"))
    world.settle()
    world.nodes["w0"].fail(ConnectorTaskId(C, 0))
    world.settle()
    request = world.ask("w0", RestartConnectorAndTasks(RestartRequest(C, only_failed=True, include_tasks=True)))
    world.settle()
    task = world.replies[request].value.tasks[0]
    assert (task.state, task.trace.partition("\n")[0]) == (State.RESTARTING, "OSError: the database is away")


def test_a_task_restart_is_sent_to_its_owner() -> None:
    world = started(2)
    leader = world.leader or ""
    world.ask(leader, put("c"))
    world.settle()
    elsewhere = next(i for i, w in world.where().items() if isinstance(i, ConnectorTaskId) and w != [leader])
    request = world.ask(leader, RestartTask(elsewhere))
    world.settle()
    error = world.replies[request].error
    assert isinstance(error, NotAssignedError)
    owner = world.where()[elsewhere][0]
    assert error.url == f"http://{owner}/"
    owner = world.ask(owner, RestartTask(elsewhere))
    world.settle()
    assert world.replies[owner].error is None


def test_failing_task_configs_are_retried_until_they_succeed() -> None:
    world = started()
    world.fail_generate["c"] = 4
    world.ask("w0", put("c"))
    world.settle()
    world.check_at_rest()
    assert len(world.where()) == 3
    assert world.now >= 250 * (1 + 2 + 4 + 8)


def test_a_lost_coordinator_stops_the_work_until_the_worker_has_joined_again() -> None:
    world = started(2)
    world.ask(world.leader or "", put("c"))
    world.settle()
    world.lose_coordinator("w0")
    world.settle()
    world.check_at_rest()


def test_a_restart_that_a_rebalance_interrupts_may_be_repeated() -> None:
    world = started()
    world.ask("w0", put("c"))
    world.settle()
    task = ConnectorTaskId(C, 0)
    request = world.ask("w0", RestartTask(task))
    while not world.nodes["w0"].state.instances[task].stopping:
        assert world.step()
    world.lose_coordinator("w0")
    world.settle()
    assert isinstance(world.replies[request].error, ConflictError)
    request = world.ask("w0", RestartTask(task))
    world.settle()
    assert world.replies[request].error is None


def test_halting_writes_unassigned_and_refuses_requests() -> None:
    world = started()
    world.ask("w0", put("c"))
    world.settle()
    world.nodes["w0"].tell("test", HaltRequested("test"))
    late = world.ask("w0", HealthCheck())
    world.settle()
    assert world.nodes["w0"].state.phase is Phase.HALTED
    assert world.statuses.connectors[C].state is State.UNASSIGNED
    assert "shutting down" in str(world.replies[late].error)


def test_a_reconfiguration_request_of_a_former_instance_is_ignored() -> None:
    world = started()
    world.ask("w0", put("c"))
    world.settle()
    before = world.steps
    world.nodes["w0"].tell("test", TaskReconfigurationRequested(C, 999))  # type: ignore[arg-type]
    world.settle()
    assert world.steps == before + 1


def test_a_patch_sees_tasks_max_auto_as_it_was_put() -> None:
    """The stored value remains a number (ADR 0043)."""
    world = World(1)
    world.settle()
    world.ask("w0", PutConnector(C, {"v": "0", "tasks.max": "2", "tasks.auto.max": "2"}, replace=False))
    world.settle()
    for patch, stored in (({"tasks.auto.max": "1"}, "1"), ({"v": "1"}, "1"),
                          ({"tasks.max": "2", "tasks.auto.max": None}, "2")):
        asked = world.ask("w0", PatchConnector(C, patch))
        world.settle()
        assert world.replies[asked].error is None
        assert world.config.connector_configs[C]["tasks.max"] == stored
        assert world.config.connector_configs[C].get("tasks.auto.max") == (stored if stored == "1" else None)
