"""A member with false claims, and connectors that do not fit into the protocol: all others continue."""

from __future__ import annotations

import json

import pytest

from actors.assignment.codec import encode_metadata
from actors.assignment.protocol import Allocation, MemberMetadata, Protocol
from actors.herder.standing import Phase
from actors.messages.events import ConnectorStateReported
from actors.messages.requests import DeleteConnector, PutConnector, RestartConnectorOnly
from spark_tasks.errors import ConnectError
from storage.ids import ConnectorName, ConnectorTaskId, State
from storage.status.records import status_record
from tests.rigs.herder import histories
from tests.rigs.herder.world import World

A, B = ConnectorName("a"), ConnectorName("b")
LONG = ConnectorName("n" * 40_000)


def claims(offset: int, protocol: Protocol) -> bytes:
    return encode_metadata(MemberMetadata("http://nobody:1/", offset, Allocation()), protocol)


def put(world: World, name: ConnectorName, **config: str) -> int:
    return world.ask(world.leader, PutConnector(name, {"v": "0", **config}, replace=True))


def cluster(protocol: Protocol = Protocol.SESSIONED, workers: int = 2) -> World:
    world = World(workers, protocol=protocol)
    world.settle()
    put(world, A)
    world.settle()
    return world


GARBAGE = (b"", b"\x00", b"\xff" * 40, b"\x00\x02\x00\x05http", b"\x00\x01\x7f\xff" + b"x" * 100)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("metadata", [2**60, 2**63 - 1, *GARBAGE], ids=lambda m: str(m)[:12])
def test_a_member_with_false_claims_gets_nothing_and_blocks_no_others(
    metadata: int | bytes, protocol: Protocol
) -> None:
    world = cluster(protocol)
    said = claims(metadata, protocol) if isinstance(metadata, int) else metadata
    for name in ("intruder-1", "intruder-2"):
        world.broker.intrude(name, said)
        world.settle()
        world.check_at_rest()
    put(world, B)
    world.settle()
    world.check_at_rest()
    world.add("w9")
    world.crash("w0")
    world.settle()
    world.check_at_rest()


@pytest.mark.parametrize("seed", range(12))
def test_histories_with_intruders_end_in_the_right_assignment(seed: int) -> None:
    world = histories.make(seed)
    assert world.random is not None
    world.settle()
    for step in range(30):
        for _ in range(world.random.choice((0, 1, 3, 10, 40))):
            world.step() or world.tick()
        if step in (5, 15) and world.broker.members:
            said = world.random.choice((claims(2**60, world.broker.protocol), *GARBAGE))
            world.broker.intrude(f"intruder-{step}", said)
        histories.happen(world, world.random)
    histories.calm_down(world)
    world.settle()
    world.check_at_rest()


def test_a_member_that_was_ahead_of_the_leader_for_a_moment_keeps_its_work() -> None:
    world = cluster(workers=3)
    held = world.nodes[world.leader]
    held.configs.held = True
    put(world, B)
    for _ in range(400):
        if not world.step():
            break
    held.configs.held = False
    world.settle()
    world.check_at_rest()


@pytest.mark.parametrize("protocol", Protocol)
def test_a_connector_whose_name_does_not_fit_is_left_out_and_can_be_deleted(protocol: Protocol) -> None:
    world = cluster(protocol)
    config, task = ({"properties": properties} for properties in ({"connector.class": "X"}, {"task.class": "X"}))
    world.log.append(((f"connector-{LONG}".encode(), json.dumps(config).encode()),
                      (f"task-{LONG}-0".encode(), json.dumps(task).encode()),
                      (f"commit-{LONG}".encode(), b'{"tasks":1}')))
    world.settle()
    assert set(world.where()) == {A, ConnectorTaskId(A, 0), ConnectorTaskId(A, 1)}
    assert all(node.state.phase is Phase.RESOLVED for node in world.living())
    for status in (world.statuses.connectors[LONG], world.statuses.tasks[LONG][0]):
        assert status.state is State.FAILED
        assert "name is 40000 bytes long" in (status.trace or "")
    asked = [put(world, B), world.ask(world.leader, RestartConnectorOnly(LONG))]
    world.settle()
    errors = [world.replies[one].error for one in asked]
    assert errors[0] is None
    assert isinstance(errors[1], ConnectError)
    assert "name is 40000 bytes long" in str(errors[1])
    gone = world.ask(world.leader, DeleteConnector(LONG))
    world.settle()
    assert world.replies[gone].error is None
    world.check_at_rest()


def test_a_new_connector_whose_name_is_too_long_is_refused() -> None:
    world = cluster()
    refused = [put(world, ConnectorName(name)) for name in ("n" * 8001, "ü" * 1334)]
    taken = put(world, ConnectorName("n" * 8000))
    world.settle()
    assert [getattr(world.replies[one].error, "status", 400) for one in refused] == [400, 400]
    assert "is 8001 bytes long in a URL" in str(world.replies[refused[0]].error)
    assert world.replies[taken].error is None
    world.check_at_rest()


@pytest.mark.parametrize("protocol", Protocol)
def test_connectors_that_do_not_fit_into_the_groups_record_are_refused_or_left_out(protocol: Protocol) -> None:
    world = cluster(protocol, workers=1)
    world.broker.record_bytes = 3000
    world.add("w1")
    world.settle()
    names = [ConnectorName(f"{n}" + "n" * 200) for n in range(15)]
    asked = [put(world, name, **{"tasks.max": "0"}) for name in names]  # tasks would be tried again for ever
    world.settle()
    errors = [world.replies[one].error for one in asked]
    refused = [name for name, error in zip(names, errors, strict=True) if error is not None]
    taken = [name for name in names if name not in refused]
    assert refused
    assert len(taken) > 3
    assert all("one record of at most 3000 bytes" in str(error) for error in errors if error is not None)
    by_hand = ConnectorName("h" * 3000)
    world.log.append(((f"connector-{by_hand}".encode(), b'{"properties":{"connector.class":"X"}}'),))
    world.settle()
    assert "no room" in (world.statuses.connectors[by_hand].trace or "")
    assert all(node.state.phase is Phase.RESOLVED for node in world.living())
    world.add("w2")
    world.settle()
    assert all(node.state.phase is Phase.RESOLVED for node in world.living())
    gone = [world.ask(world.leader, DeleteConnector(name)) for name in (by_hand, *taken[1:])]
    world.settle()
    assert [world.replies[one].error for one in gone if world.replies[one].error is not None] == []
    put(world, refused[-1], **{"tasks.max": "0"})
    world.settle()
    assert refused[-1] in world.where()


def test_a_trace_of_any_length_is_shortened_for_the_status() -> None:
    world = cluster(workers=1)
    node = world.nodes["w0"]
    epoch = node.state.instances[A].epoch
    trace = "first line\n" + "\x01" * 3_000_000 + "\nlast line"
    node.tell(("instance", epoch), ConnectorStateReported(A, epoch, State.FAILED, trace))
    world.settle()
    said = world.statuses.connectors[A]
    assert said.state is State.FAILED
    assert said.trace is not None
    assert said.trace.startswith("first line\n")
    assert said.trace.endswith("\nlast line")
    assert len(status_record(said)[1] or b"") < 1_000_000
