"""Workers that are suspended past their session and return: alone, all of them, in any order, around a broker's
restart. Lost work may be held for five minutes here. No worker that is back waits that long for its own work.
"""

from __future__ import annotations

import os
import random

import pytest

from actors.assignment.protocol import Protocol
from actors.herder.events import Suspended
from actors.herder.standing import Phase
from actors.messages.commands import PutTargetState
from actors.messages.events import CoordinatorLost
from actors.messages.requests import DeleteConnector, PutConnector
from actors.stores.config_writes import plan
from storage.ids import ConnectorName, State, TargetState
from tests.rigs.herder.world import World

DELAY_MS = 300_000
SOON_MS = 20_000
HISTORIES = int(os.environ.get("HEELER_HISTORIES", "5"))
CHUNK = 10


def cluster(workers: int, connectors: int = 2, seed: int | None = None, **more: object) -> World:
    world = World(workers, seed=seed, max_delay_ms=DELAY_MS, **more)  # type: ignore[arg-type]
    world.settle()
    for n in range(connectors):
        world.ask(world.leader, PutConnector(ConnectorName(f"c{n}"), {}, replace=False))
        world.settle()
    world.check_at_rest()
    return world


def fall_asleep(world: World, *names: str, expired: bool = True) -> None:
    for name in names:
        world.suspend(name)
        if expired:
            world.broker.remove(world.nodes[name].member.id)


def all_runs_soon(world: World) -> None:
    world.settle(within_ms=SOON_MS)
    world.check_all_runs()


@pytest.mark.parametrize("expired", [True, False])
def test_a_single_worker_continues_at_once(expired: bool) -> None:
    world = cluster(1)
    fall_asleep(world, "w0", expired=expired)
    world.wait(30_000)
    world.resume("w0")
    all_runs_soon(world)
    assert world.now < DELAY_MS


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_worker_whose_work_is_reserved_continues_at_once(who: str) -> None:
    world = cluster(2)
    sleeper = next(name for name in world.nodes if (name == world.leader) == (who == "leader"))
    had = set(world.nodes[sleeper].running)
    fall_asleep(world, sleeper)
    world.settle(within_ms=SOON_MS)
    world.resume(sleeper)
    all_runs_soon(world)
    if who == "follower":  # a new leader does not know what waits, and hands it out
        assert set(world.nodes[sleeper].running) == had


@pytest.mark.parametrize("order", [("w0", "w1", "w2"), ("w2", "w1", "w0"), ("w1", "w2", "w0")])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_group_whose_members_were_all_suspended_continues_at_once(order: tuple[str, ...], at_once: bool) -> None:
    world = cluster(3, 3)
    fall_asleep(world, *order)
    world.wait(30_000)
    for name in order:
        world.resume(name)
        if not at_once:
            for _ in range(60):
                world.step()
    all_runs_soon(world)


def test_work_that_others_have_taken_over_stays_there() -> None:
    """The suspended worker's claim moves nothing beyond its share."""
    world = cluster(2)
    sleeper = next(name for name in world.nodes if name != world.leader)
    fall_asleep(world, sleeper)
    world.settle(within_ms=2 * DELAY_MS)
    taken = {item: epoch for item, (epoch, _) in world.nodes[world.leader].running.items()}
    assert len(taken) == 6
    world.resume(sleeper)
    all_runs_soon(world)
    kept = {item: epoch for item, (epoch, _) in world.nodes[world.leader].running.items()}
    assert kept.items() <= taken.items(), "was started again"
    assert len(kept) == 3


def test_deletions_and_changes_during_a_suspension_take_effect() -> None:
    world = cluster(2)
    sleeper, other = sorted(world.nodes, key=lambda name: name == world.leader)
    fall_asleep(world, sleeper)
    world.ask(other, DeleteConnector(ConnectorName("c0")))
    world.ask(other, PutConnector(ConnectorName("c1"), {"v": "2"}, replace=True))
    world.settle(within_ms=SOON_MS)
    world.resume(sleeper)
    world.settle()
    world.check_at_rest()


def test_work_assigned_to_a_suspended_worker_is_its_own_when_it_resumes() -> None:
    """It was suspended before it learned of the assignment, so it cannot claim the work. But the leader knows it."""
    world = cluster(2, 1)
    sleeper = next(name for name in world.nodes if name != world.leader)
    node = world.nodes[sleeper]
    world.ask(world.leader, PutConnector(ConnectorName("late"), {}, replace=False))
    while not (world.broker.assignments and node.member.joining):
        assert world.step() or world.tick()
    had = set(node.running)
    while not world.broker.syncing or node.member.id not in (world.broker.assignments or {}):
        world.step()
    fall_asleep(world, sleeper)
    world.settle(within_ms=SOON_MS)
    world.resume(sleeper)
    all_runs_soon(world)
    assert had <= set(world.where())


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_broker_restart_causes_no_delay(workers: int, forgets: bool) -> None:
    world = cluster(workers)
    before = world.where()
    world.restart_broker(forgets=forgets, seen_by=list(world.nodes))
    all_runs_soon(world)
    assert world.where().keys() == before.keys()


def test_a_worker_suspended_outside_the_group_stops_its_work() -> None:
    """While it waits to read the config topic, its work continues, but not after a suspension: others may have it by
    now.
    """
    world = cluster(2)
    node = world.nodes[next(name for name in world.nodes if name != world.leader)]
    node.configs.held = True
    world.log.append(plan(PutTargetState(ConnectorName("c0"), TargetState.PAUSED)).stages[0])
    node.member.rejoin()
    while node.state.phase.value != "out":
        assert world.step() or world.tick()
    assert node.running
    node.deliver(Suspended(60_000))
    assert all(instance.stopping for instance in node.state.instances.values())
    node.configs.held = False
    world.settle()
    world.check_at_rest()


def test_a_member_reports_that_its_work_does_not_run_yet() -> None:
    """Back in the group it says so before it reads configs, which may take long, and starts what it had."""
    world = cluster(2, 1)
    node = world.nodes[next(name for name in world.nodes if name != world.leader)]
    had = set(node.running)
    fall_asleep(world, node.name)
    node.configs.held = True
    world.ask(world.leader, PutConnector(ConnectorName("late"), {}, replace=False))
    world.settle(within_ms=1000)
    world.resume(node.name)
    while node.state.phase is not Phase.SYNCING:
        assert world.step()
    world.wait(100)
    assert not node.running
    assert {world.said()[item].state for item in had} == {State.UNASSIGNED}
    node.configs.held = False
    world.settle()
    world.check_at_rest()


def test_a_loss_without_a_suspension_is_reported_at_once() -> None:
    world = cluster(1, 1)
    node = world.nodes["w0"]
    node.member.wanted = False  # the coordinator is not to be found
    node.tell("member", CoordinatorLost("test"))
    world.settle(within_ms=1000)
    assert [status.state for status in world.said().values()] == [State.UNASSIGNED] * 3


def test_a_returning_worker_reports_what_it_stopped_before_it_is_a_member() -> None:
    """A rebalance may take as long as `rebalance.timeout.ms`; what others have taken meanwhile stays theirs."""
    world = cluster(2)
    sleeper, other = sorted(world.nodes, key=lambda name: name == world.leader)
    had = set(world.nodes[sleeper].running)
    fall_asleep(world, sleeper)
    world.wait(1000)
    world.nodes[sleeper].member.wanted = False  # the coordinator is not to be found
    world.resume(sleeper)
    world.settle(within_ms=1000)
    assert {world.said()[item].state for item in had} == {State.UNASSIGNED}
    world.settle(within_ms=2 * DELAY_MS)
    assert {world.said()[item].worker_id for item in had} == {other}
    world.suspend(sleeper)
    before = len(world.status_log)
    world.resume(sleeper)
    world.settle(within_ms=1000)
    assert len(world.status_log) == before, "it hides what the other one runs"


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_random_suspensions_leave_nothing_idle(first: int) -> None:
    for seed in range(first, min(first + CHUNK, HISTORIES)):
        try:
            run(seed)
        except Exception as error:
            error.add_note(f"seed {seed}: python -c "
                           f"'from tests.pure.actors.herder.test_suspension import run; run({seed})'")
            raise


@pytest.mark.parametrize("seed", [8118])
def test_suspensions_that_once_left_something_idle(seed: int) -> None:
    run(seed)


def run(seed: int) -> None:
    """Some workers, often all of them, are suspended; the group removes some; they resume in any order."""
    chance = random.Random(seed)
    world = cluster(chance.randrange(1, 4), chance.randrange(1, 4), seed, protocol=list(Protocol)[seed % 3])
    for _ in range(3):
        for _ in range(chance.choice((0, 0, 5, 30))):
            world.step()
        names = list(world.nodes)
        sleepers = names if chance.random() < 0.5 else chance.sample(names, chance.randrange(1, len(names) + 1))
        for name in chance.sample(sleepers, len(sleepers)):
            fall_asleep(world, name, expired=chance.random() < 0.7)
            for _ in range(chance.choice((0, 0, 5, 30))):
                world.step()
        world.wait(chance.choice((0, 5000, 60_000, 2 * DELAY_MS)))
        if chance.random() < 0.4:
            world.restart_broker(forgets=chance.random() < 0.5, seen_by=names)
        if chance.random() < 0.5:
            config = {"v": str(chance.randrange(9)), "tasks.max": str(chance.randrange(1, 4))}
            name = ConnectorName(f"c{chance.randrange(4)}")
            world.ask(chance.choice(names), PutConnector(name, config, replace=True))
        for _ in range(chance.choice((0, 30, 200))):
            world.step()
        for name in chance.sample(sleepers, len(sleepers)):
            world.resume(name)
            for _ in range(chance.choice((0, 5, 30, 200))):
                world.step()
        all_runs_soon(world)
    world.settle()
    world.check_at_rest()
