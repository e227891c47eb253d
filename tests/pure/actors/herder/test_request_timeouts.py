"""The maximum time that requests wait for a rebalance (rest.rebalance.wait.ms)."""

from __future__ import annotations

from actors.errors import ConflictError
from actors.herder.standing import Phase
from actors.messages.requests import (
    DeleteConnector,
    GetConnector,
    HealthCheck,
    PatchConnector,
    PutConnector,
)
from storage.ids import ConnectorName
from tests.rigs.herder.world import World

C = ConnectorName("c")
PUT = PutConnector(C, {"v": "0", "tasks.max": "1"}, replace=False)


def rebalancing() -> World:
    """A worker whose group is settled, and one that keeps the next rebalance open."""
    world = World(1)
    world.settle()
    world.add("w1")
    world.settle()
    world.suspend("w1")
    world.lose_coordinator("w0")
    while world.step():
        pass
    assert world.nodes["w0"].state.phase is Phase.JOINING
    return world


def pass_time(world: World, ms: int) -> None:
    end = world.now + ms
    while world.step() or world.tick(end):
        pass
    world.now = max(world.now, end)


def test_a_request_that_times_out_has_no_effect() -> None:
    world = rebalancing()
    short, long, endless = (world.ask("w0", PutConnector(ConnectorName(n), {"v": "0"}, replace=False), wait_ms=ms)
                            for n, ms in (("a", 1000), ("b", 5000), ("c", None)))
    pass_time(world, 900)
    assert not world.replies
    pass_time(world, 200)
    assert set(world.replies) == {short}
    assert isinstance(world.replies[short].error, ConflictError)
    world.resume("w1")
    world.settle()
    assert world.replies[long].error is None
    assert world.replies[endless].error is None
    assert sorted(world.config.connectors()) == ["b", "c"]
    world.check_at_rest()


def test_each_request_has_its_own_deadline() -> None:
    world = rebalancing()
    late, early = (world.ask("w0", DeleteConnector(C), wait_ms=ms) for ms in (3000, 1000))
    pass_time(world, 1000)
    assert set(world.replies) == {early}
    pass_time(world, 2000)
    assert set(world.replies) == {early, late}


def test_a_request_that_may_not_wait_is_refused_at_once() -> None:
    world = rebalancing()
    asked = world.ask("w0", DeleteConnector(C), wait_ms=0)
    pass_time(world, 0)
    assert isinstance(world.replies[asked].error, ConflictError)


def test_reads_that_nobody_waits_for_do_not_accumulate() -> None:
    """Probes and dashboards go on while a group cannot be joined for hours. Writes are kept, as in Kafka Connect."""
    world = rebalancing()
    write = world.ask("w0", DeleteConnector(C))
    reads = []
    for _ in range(100):
        reads += [world.ask("w0", HealthCheck()), world.ask("w0", GetConnector(C))]
        pass_time(world, 10_000)
    waiting = [queued.request_id for queued in world.nodes["w0"].state.queue]
    assert write in waiting
    assert len(waiting) < 30
    assert not set(waiting) - {write} & world.replies.keys()
    assert all(number in waiting or isinstance(world.replies[number].error, ConflictError) for number in reads)


def test_no_request_times_out_while_the_group_is_settled() -> None:
    world = World(1)
    world.settle()
    asked = world.ask("w0", PUT, wait_ms=0)
    world.settle()
    assert world.replies[asked].error is None


def test_a_patch_that_was_started_respects_its_deadline() -> None:
    """After its validation it is queued a second time."""
    world = World(2)
    world.settle()
    world.ask(world.leader, PUT)
    world.settle()
    leader = world.leader
    node = world.nodes[leader]
    asked = world.ask(leader, PatchConnector(C, {"v": "1"}), wait_ms=1000)
    node.drain(("request", asked % 3))
    assert list(node.state.validating) == [asked]
    world.suspend(next(n for n in world.nodes if n != leader))
    world.lose_coordinator(leader)
    pass_time(world, 1000)
    assert isinstance(world.replies[asked].error, ConflictError)
    assert world.config.connector_configs[C]["v"] == "0"
