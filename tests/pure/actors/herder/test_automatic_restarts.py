"""errors.restart.*: what the herder restarts automatically, when and how often, and what it does not restart."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from actors.messages.correlation_ids import Epoch
from actors.messages.events import InstanceRecovered, InstanceStalled
from actors.messages.requests import PutConnector, RestartConnectorAndTasks, RestartTask, SetTargetState
from heeler.worker.metrics.observed import Observed
from spark_tasks.config.restart_policy import RestartPolicy
from storage.config.state import RestartRequest
from storage.ids import ConnectorName, ConnectorTaskId, ItemId, State, TargetState
from storage.status.state import Restarts, Stall, Status
from tests.rigs.herder.node import Node
from tests.rigs.herder.world import World

C = ConnectorName("c")
T = ConnectorTaskId(C, 0)
CAUSE = "failed: OSError: the database is away"
HANGS = "a read hangs\nFile x.py, line 1"
POLICY = RestartPolicy(failed=True, stalled=True, limit=3, period_ms=100_000, first_ms=1000, longest_ms=3000)


def started(policy: RestartPolicy = POLICY, workers: int = 1, seed: int | None = None) -> World:
    """A cluster with a connector of one task."""
    world = World(workers, seed=seed, settings={"restart_policy": lambda _: policy})
    world.settle()
    put(world, v="0")
    world.settle()
    return world


def put(world: World, v: str) -> None:
    world.ask(world.leader, PutConnector(C, {"v": v, "tasks.max": "1"}, replace=True))


def run(world: World, ms: int) -> None:
    """All that happens in this time."""
    end = world.now + ms
    while world.step() or world.tick(end):
        pass
    world.now = end


def home(world: World, item: ItemId) -> Node:
    return world.nodes[world.where()[item][0]]


def said(world: World, item: ItemId = T) -> Status:
    return world.statuses.tasks[C][0] if item == T else world.statuses.connectors[C]


@pytest.mark.parametrize("item", [T, C])
def test_a_failed_item_is_restarted_after_a_pause(item: ItemId) -> None:
    world = started()
    node = home(world, item)
    before = node.running[item][0]
    node.fail(item)
    at = world.now + 1000
    run(world, 999)
    assert (said(world, item).state, said(world, item).restarts) == (State.FAILED, Restarts(0, CAUSE, at))
    run(world, 1)
    assert node.running[item][0] != before
    assert (said(world, item).state, said(world, item).restarts) == (State.RUNNING, Restarts(1, CAUSE))
    world.settle()
    world.check_at_rest()


def test_without_a_policy_nothing_is_restarted_and_statuses_are_unchanged() -> None:
    world = started(RestartPolicy())
    home(world, T).fail(T)
    run(world, 1_000_000)
    assert (said(world).state, said(world).restarts) == (State.FAILED, None)


def test_a_permanent_failure_is_not_retried_automatically() -> None:
    world = started()
    home(world, T).fail(T, permanent=True)
    run(world, 1_000_000)
    assert (said(world).state, said(world).restarts) == (State.FAILED, Restarts(0, CAUSE, None, permanent=True))
    world.ask("w0", RestartTask(T))
    world.settle()
    assert said(world).state is State.RUNNING
    assert said(world).restarts == Restarts(0, CAUSE)


def test_pauses_double_up_to_the_longest_and_there_is_a_limit() -> None:
    world = started()
    restarts = []
    for _ in range(6):
        home(world, T).fail(T)
        run(world, 0)
        reported = said(world).restarts
        assert reported is not None
        assert reported.next_ms is not None
        restarts.append(reported.next_ms - world.now)
        run(world, reported.next_ms - world.now)
        assert said(world).state is State.RUNNING
    assert restarts[:3] == [1000, 2000, 3000]
    assert restarts[3] == 100_000 - 2000 - 3000  # the first of three is as long ago as the period is
    assert said(world).restarts == Restarts(6, CAUSE)


def test_after_a_quiet_period_pauses_are_short_again() -> None:
    world = started()
    for pause in (1000, 2000):
        home(world, T).fail(T)
        run(world, pause)
    run(world, 100_000)
    home(world, T).fail(T)
    run(world, 1000)
    assert said(world).state is State.RUNNING


def test_a_new_configuration_makes_pauses_short_again() -> None:
    world = started()
    for pause in (1000, 2000):
        home(world, T).fail(T)
        run(world, pause)
    put(world, v="1")
    world.settle()
    home(world, T).fail(T)
    run(world, 1000)
    assert said(world).state is State.RUNNING


def test_a_new_policy_restarts_failed_tasks_and_its_removal_ends_restarts() -> None:
    """Also while the connector is paused: its tasks get the new configuration when it resumes."""
    world = World(1, settings={"restart_policy": lambda config: POLICY if config.get("v") == "1" else RestartPolicy()})
    world.settle()
    put(world, v="0")
    world.settle()
    world.ask("w0", SetTargetState(C, TargetState.PAUSED))
    world.settle()
    home(world, T).fail(T)
    world.settle()
    assert (said(world).state, said(world).restarts) == (State.FAILED, None)
    put(world, v="1")
    run(world, 0)
    assert said(world).restarts == Restarts(0, CAUSE, world.now + 1000)
    put(world, v="0")
    run(world, 10_000)
    assert (said(world).state, said(world).restarts) == (State.FAILED, None)
    put(world, v="1")
    world.settle()
    assert said(world).state is State.PAUSED


def test_a_users_restart_replaces_the_planned_one() -> None:
    world = started()
    node = home(world, T)
    node.fail(T)
    run(world, 500)
    asked = world.ask("w0", RestartTask(T))
    run(world, 0)
    assert world.replies[asked].error is None
    epoch = node.running[T][0]
    assert said(world).restarts == Restarts(0, CAUSE)
    run(world, 10_000)
    assert node.running[T][0] == epoch


def test_restarts_wait_for_the_end_of_a_rebalance() -> None:
    world = started()
    node = home(world, T)
    node.fail(T)
    run(world, 0)
    world.add("w1")
    world.suspend("w1")
    run(world, 5000)
    world.resume("w1")
    world.settle()
    world.check_at_rest()
    assert said(world).state is State.RUNNING


def test_another_worker_starts_counting_from_zero() -> None:
    world = started(workers=2)
    world.crash(home(world, T).name)
    world.settle()
    node = home(world, T)
    node.fail(T)
    world.settle()
    assert said(world).state is State.RUNNING
    assert list(node.state.automatic_restarts) == [T]


def stall(world: World, item: ItemId = T) -> Node:
    node = home(world, item)
    epoch = node.running[item][0]
    node.instances[epoch].stuck = True
    node.tell(("watchdog", epoch), InstanceStalled(item, Epoch(epoch), HANGS, 400))
    return node


@pytest.mark.parametrize("item", [T, C])
def test_a_stalled_item_is_restarted_and_abandoned_if_it_does_not_stop(item: ItemId) -> None:
    world = started()
    node = stall(world, item)
    before = node.running[item][0]
    run(world, 0)
    first, status = world.now, said(world, item)
    assert (status.state, status.restarts, status.stalled) == (
        State.RUNNING, Restarts(0, "stalled: a read hangs", first + 1000), Stall(first - 400, HANGS))
    run(world, 1000)
    assert node.instances[before].stuck, "it is being stopped, which takes until it is given up"
    status = said(world, item)
    assert (status.state, status.restarts, status.stalled) == (
        State.RESTARTING, Restarts(1, "stalled: a read hangs"), None)
    world.settle()
    assert node.running[item][0] != before
    status = said(world, item)
    assert (status.state, status.restarts, status.stalled) == (
        State.RUNNING, Restarts(1, "stalled: a read hangs"), None)
    world.check_at_rest()


def test_another_restart_of_a_stalled_task_cancels_the_planned_one() -> None:
    """The user's restart takes until the task is abandoned; the planned one would have ended by then."""
    world = started()
    node = stall(world)
    before = node.running[T][0]
    run(world, 0)
    assert said(world).restarts == Restarts(0, "stalled: a read hangs", world.now + 1000)
    asked = world.ask("w0", RestartTask(T))
    run(world, 2000)
    assert asked not in world.replies
    assert (said(world).state, said(world).restarts) == (State.RUNNING, Restarts(0, "stalled: a read hangs"))
    world.settle()
    assert world.replies[asked].error is None
    assert node.running[T][0] != before
    assert said(world).restarts == Restarts(0, "stalled: a read hangs")


def test_a_stalled_task_is_only_reported_unless_the_policy_restarts_it() -> None:
    world = started(RestartPolicy(failed=True))
    node = stall(world)
    before = node.running[T][0]
    run(world, 100_000)
    assert node.running[T][0] == before
    assert (said(world).restarts, said(world).stalled) == (None, Stall(world.now - 100_400, HANGS))
    [reported] = [line for line in world.story().splitlines() if "File x.py, line 1" in line]
    assert reported.endswith("InstanceStalled, c-0: a read hangs\\nFile x.py, line 1")
    assert "No progress: a read hangs', about='c-0')" in world.story(), "what was logged, without the stack"
    node.instances[before].stuck = False
    node.tell(("watchdog", before), InstanceRecovered(T, Epoch(before)))
    world.settle()
    assert (said(world).state, said(world).stalled) == (State.RUNNING, None)


def test_a_task_that_stalled_and_then_failed_has_failed() -> None:
    """Even if the watchdog's report arrives last."""
    for seed in range(10):
        world = started(RestartPolicy(), seed=seed)
        stall(world).fail(T)
        world.settle()
        assert (said(world).state, said(world).stalled) == (State.FAILED, None)


def test_a_stalled_task_that_fails_is_not_restarted_unless_failed_ones_are() -> None:
    world = started(replace(POLICY, failed=False))
    node = stall(world)
    run(world, 500)
    node.fail(T)
    run(world, 100_000)
    assert (said(world).state, said(world).restarts, said(world).stalled) == (State.FAILED, None, None)


def test_a_task_that_waits_for_others_is_not_restarted() -> None:
    world = started()
    node = home(world, T)
    epoch = node.running[T][0]
    node.tell("watchdog", InstanceStalled(T, Epoch(epoch), "waits for Spark", 400, hangs=False))
    run(world, 100_000)
    assert node.running[T][0] == epoch
    assert said(world).restarts is None
    assert said(world).stalled == Stall(world.now - 100_400, "waits for Spark")


def test_a_task_that_makes_progress_is_not_restarted() -> None:
    world = started()
    node = stall(world)
    epoch = node.running[T][0]
    run(world, 500)
    node.instances[epoch].stuck = False
    node.tell(("watchdog", epoch), InstanceRecovered(T, Epoch(epoch)))
    run(world, 10_000)
    assert node.running[T][0] == epoch
    assert (said(world).restarts, said(world).stalled) == (Restarts(0, "stalled: a read hangs"), None)


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_connector_whose_stop_takes_long_is_not_restarted_when_it_has_stopped(target: TargetState) -> None:
    world = started()
    node = home(world, C)
    epoch = node.running[C][0]
    node.tell("watchdog", InstanceStalled(C, Epoch(epoch), HANGS, 400, hangs=True))
    world.ask(node.name, SetTargetState(C, target))
    run(world, 500)
    node.tell(("watchdog", epoch), InstanceRecovered(C, Epoch(epoch)))
    run(world, 100_000)
    assert said(world, C).state == State(target.value)
    assert node.running[C][0] == epoch


def test_a_connector_that_has_failed_makes_no_progress_again() -> None:
    world = started(RestartPolicy())
    node = home(world, C)
    epoch = Epoch(node.running[C][0])
    node.tell("watchdog", InstanceStalled(C, epoch, HANGS, 400, hangs=True))
    world.settle()
    node.fail(C)
    world.settle()
    node.tell("watchdog", InstanceRecovered(C, epoch))
    world.settle()
    assert "makes progress again" not in world.story()


def test_a_connector_that_has_failed_and_hangs_in_its_stop_is_reported_and_not_restarted() -> None:
    world = started(POLICY)
    node = home(world, C)
    epoch = Epoch(node.running[C][0])
    world.nodes[node.name].fail(C, permanent=True)
    world.settle()
    node.tell("watchdog", InstanceStalled(C, epoch, HANGS, 400, hangs=True))
    run(world, 100_000)
    assert node.running[C][0] == epoch
    assert said(world, C).stalled is not None
    assert f"No progress: a read hangs', about='{C}')" in world.story(), "what was logged"


def test_a_stall_reported_twice_causes_one_restart() -> None:
    world = started()
    node = stall(world)
    epoch = node.running[T][0]
    node.tell(("watchdog", epoch), InstanceStalled(T, Epoch(epoch), "still", 800))
    world.settle()
    assert said(world).restarts == Restarts(1, "stalled: a read hangs")


def reported(world: World) -> list[str]:
    """What was logged at INFO about the connector and its task."""
    found = re.findall(r"Log\(level='INFO', message='([^']*)', about='(c(?:-0)?)'\)", world.story(10_000))
    return [f"{about}: {line.removesuffix(' (errors.restart.policy)')}" for line, about in found]


def reported_by_worker(world: World) -> list[str]:
    """The lines of `reported`, each with the worker that logged it."""
    parts = re.split(r"^\[(w\d) [^]]*\] ", world.story(10_000), flags=re.MULTILINE)[1:]
    return [f"{worker}: {about}: {line}" for worker, text in zip(parts[::2], parts[1::2], strict=True)
            for line, about in re.findall(r"Log\(level='INFO', message='([^']*)', about='(c(?:-\d)?)'\)", text)]


def test_each_restart_is_one_line_of_the_log() -> None:
    world = started()
    node, before = home(world, T), len(reported(world))
    assert reported(world)[-4:] == ["c: Connector created", "c: Connector started",
                                    "c: Task configurations changed: 1 task", "c-0: Task started"]

    def lines() -> list[str]:
        nonlocal before
        world.settle()
        new, before = reported(world)[before:], len(reported(world))
        return sorted(new)

    world.ask("w0", RestartConnectorAndTasks(RestartRequest(C, False, True)))
    asked = "c: Restart of the connector and its tasks requested"
    assert lines() == ["c-0: Task restarted on request", "c: Connector restarted on request", asked]
    world.ask("w0", RestartTask(T))
    assert lines() == ["c-0: Task restarted on request"]
    put(world, v="1")
    assert lines() == ["c-0: Task restarted with a new configuration", "c: Connector reconfigured: v changed",
                       "c: Connector restarted with a new configuration", "c: Task configurations changed: 1 task"]
    node.fail(T)
    assert lines() == ["c-0: Task restarted after a failure"]
    stall(world)
    assert lines() == ["c-0: Task restarted after a stall"]
    world.ask("w0", SetTargetState(C, TargetState.PAUSED))
    assert lines() == ["c-0: Task paused", "c: Connector paused", "c: Pause requested"]
    world.ask("w0", RestartConnectorAndTasks(RestartRequest(C, False, True)))
    assert lines() == ["c-0: Task restarted on request (PAUSED)", "c: Connector restarted on request (PAUSED)", asked]


def test_a_task_that_moves_with_its_new_configuration_is_one_line_on_each_worker() -> None:
    """Its former worker says that it stopped once it is clear that it does not start there again."""
    world, second = World(1), ConnectorTaskId(C, 1)
    world.settle()
    world.ask("w0", PutConnector(C, {"v": "0", "tasks.max": "2"}, replace=True))
    world.settle()
    before = len(reported_by_worker(world))
    world.ask("w0", PutConnector(C, {"v": "1", "tasks.max": "2"}, replace=True))
    while {T, second} & world.where().keys():
        assert world.step()
    other = world.add("w1")
    while actions := other.actions():  # it waits in the rebalance that w0 joins next
        actions[0]()
    world.settle()
    world.check_at_rest()
    assert (home(world, T).name, home(world, second).name) == ("w0", "w1")
    assert [line for line in reported_by_worker(world)[before:] if "c: " not in line] == [
        "w0: c-0: Task restarted with a new configuration", "w0: c-1: Task stopped", "w1: c-1: Task started"]


def test_metrics_show_the_cause() -> None:
    world = started()
    node, seen, now = home(world, T), Observed(), 0.0
    deliver = node.deliver

    def delivered(payload: object) -> None:
        deliver(payload)
        seen.follow(node.state, now)

    node.deliver = delivered  # type: ignore[method-assign]
    seen.follow(replace(node.state, changed=frozenset(node.state.instances)), now)
    node.fail(T)
    world.settle()
    stall(world)
    world.settle()
    put(world, v="1")
    world.settle()
    assert seen.restarts[T] == {"failure": 1, "stall": 1, "config": 1}


def test_a_failed_task_of_a_paused_connector_becomes_paused() -> None:
    world = started()
    home(world, T).fail(T)
    run(world, 0)
    world.ask("w0", SetTargetState(C, TargetState.PAUSED))
    world.settle()
    assert said(world).state is State.PAUSED
