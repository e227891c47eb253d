"""Whatever members of a group say, and whatever a leader assigns: no worker stops, and the others continue.

HEELER_FUZZ=1000000 (make fuzz) tries many more.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Iterator

import pytest

from actors.assignment.codec import CodecError, decode_assignment, decode_metadata, encode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import plan
from actors.assignment.protocol import Allocation, Assignment, MemberMetadata, Protocol
from actors.herder.standing import Phase
from actors.messages.requests import PutConnector
from storage.config.fold import fold
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, ItemId
from storage.log.record import LogRecord
from tests.rigs import hostile
from tests.rigs.herder.world import World

TRIES = int(os.environ.get("HEELER_FUZZ", "6000")) // 600
A, B, MANY = ConnectorName("a"), ConnectorName("b"), ConnectorName("many")
OFFSET = 8


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A line for each bad claim is what is wanted, but not of thousands."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def config() -> ClusterConfigState:
    """Two connectors with two tasks each."""
    records = [(f"connector-{name}", {"properties": {"connector.class": "X"}}) for name in (A, B)]
    for name in (A, B):
        records += [(f"task-{name}-{n}", {"properties": {"task.class": "X"}}) for n in range(2)]
        records.append((f"commit-{name}", {"tasks": 2}))
    log = [LogRecord(0, at, 0, key.encode(), json.dumps(value).encode()) for at, (key, value) in enumerate(records)]
    return fold(ClusterConfigState(), {}, log, started=False)[0]


ITEMS: tuple[ItemId, ...] = (A, B, *(ConnectorTaskId(name, n) for name in (A, B) for n in range(2)))


NOTHING = Allocation()


def worker(owned: Allocation = NOTHING, protocol: Protocol = Protocol.SESSIONED) -> bytes:
    return encode_metadata(MemberMetadata("http://w0/", OFFSET, owned), protocol)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("seed", range(TRIES))
def test_a_leader_assigns_everything_whatever_the_members_say(seed: int, protocol: Protocol) -> None:
    chance = random.Random(seed)
    others = {f"m{n}": hostile.metadata(chance, protocol, ITEMS) for n in range(chance.choice((1, 2, 5)))}
    said = {"leader": worker(protocol=protocol), "w1": worker(protocol=protocol), **others}
    assert config().offset == OFFSET
    state, doubted = AssignorState(), frozenset[str]()
    for generation in range(1, 5):
        made = plan(state, protocol, said, config(), leader="leader", generation=generation,
                    last_completed=generation - 1, now_ms=generation, max_delay_ms=0, doubted=doubted)
        state, doubted = made.state, made.ahead
        given = {id_: decode_assignment(data) for id_, data in made.assignments.items()}
        assert given.keys() == said.keys()
        for id_ in ("leader", "w1"):  # which do what they are told
            owned = decode_metadata(said[id_]).owned or NOTHING
            now = given[id_].assigned if protocol is Protocol.EAGER else \
                owned.minus(given[id_].revoked).plus(given[id_].assigned)
            said[id_] = worker(now, protocol)
        for id_ in made.unread:
            assert not given[id_].assigned.items | given[id_].revoked.items
    assert not given["leader"].failed
    claimed = [decode_metadata(data).owned for id_, data in others.items() if id_ not in made.unread]
    held = [item for one in (*claimed, *(decode_metadata(said[id_]).owned for id_ in ("leader", "w1"))) if one
            for item in one.items]
    held += [item for id_ in others for item in given[id_].assigned.items]
    if protocol is Protocol.EAGER:
        held = [item for one in given.values() for item in one.assigned.items]
    assert set(ITEMS) <= set(held)


@pytest.mark.parametrize(("connectors", "tasks"), [(1, 140_000), (30_000, 1), (50, 2000)])
def test_a_member_that_claims_very_much_leaves_room_for_the_others(connectors: int, tasks: int) -> None:
    """What it has to give up took the room of all assignments: brokers refused each rebalance while it was there."""
    names = [ConnectorName(f"many-{number}") for number in range(connectors)]
    claims = Allocation.of([ConnectorTaskId(name, number) for name in names for number in range(tasks)])
    said = {"leader": worker(), "intruder": worker(claims)}
    for _ in range(20):
        made = plan(AssignorState(), Protocol.SESSIONED, said, config(), leader="leader", generation=1,
                    last_completed=-1, now_ms=0, max_delay_ms=0)
        assert made.room >= 0
        assert made.left_out == ()
        given = {id_: decode_assignment(data) for id_, data in made.assignments.items()}
        assert given["leader"].assigned.items | given["intruder"].assigned.items == set(ITEMS)
        revoked = given["intruder"].revoked
        assert revoked, "it joins again, and gives up the rest"
        claims = claims.minus(revoked)
        said["intruder"] = worker(claims)
        if not claims:
            break
    assert not claims


def test_an_assignment_of_a_million_tasks_is_read() -> None:
    tasks = tuple(ConnectorTaskId(MANY, number) for number in range(1_000_000))
    data = encode_assignment(Assignment("l", "http://l/", 1, Allocation((), tasks)), Protocol.SESSIONED)
    assert decode_assignment(data).assigned.tasks == tasks
    with pytest.raises(CodecError):
        decode_assignment(data[:-9])


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("seed", range(TRIES))
def test_workers_recover_from_whatever_a_leader_has_assigned(seed: int, protocol: Protocol) -> None:
    chance = random.Random(seed)
    world = World(3, seed=seed, protocol=protocol)
    world.settle()
    world.ask(world.leader, PutConnector(A, {"v": "0"}, replace=True))
    world.settle()
    left = chance.choice((1, 2, 5))
    known = (A, *(ConnectorTaskId(A, n) for n in range(3)))

    def mislead(assignments: dict[str, bytes]) -> dict[str, bytes]:
        nonlocal left
        left -= 1
        if left < 0:
            return assignments
        leader = world.broker.leader or ""
        return {id_: hostile.assignment(chance, protocol, chance.choice((leader, id_)), known)
                if chance.random() < 0.7 else honest for id_, honest in assignments.items()}

    world.broker.misled = mislead
    world.broker.intrude("intruder", b"")  # begins a rebalance
    for _ in range(3000):
        if not world.step() and not world.tick(world.now + 60_000):
            break
    world.broker.misled = None
    world.broker.remove("intruder")
    world.add("w9")
    world.settle()
    # Their statuses may be wrong: of two workers to which a task was assigned, the one that loses it says so last.
    assert {item: len(names) for item, names in world.where().items()} == dict.fromkeys(known[:3], 1)
    assert all(node.state.phase is Phase.RESOLVED for node in world.living())


def test_what_a_leader_assigns_although_it_does_not_exist_leaves_no_status_and_is_not_claimed() -> None:
    """Each was claimed in all later joins, and failed to start after each rebalance."""
    world = World(2)
    world.settle()
    follower = next(node for node in world.living() if node.name != world.leader)
    tasks = Allocation((MANY,), tuple(ConnectorTaskId(MANY, number) for number in range(5000)))
    sent = []

    def mislead(assignments: dict[str, bytes]) -> dict[str, bytes]:
        if not sent:
            sent.append(follower.member.id)
            honest = decode_assignment(assignments[follower.member.id or ""])
            wrong = Assignment(honest.leader, honest.leader_url, honest.config_offset, tasks)
            assignments[follower.member.id or ""] = encode_assignment(wrong, Protocol.SESSIONED)
        return assignments

    world.broker.misled = mislead
    world.broker.intrude("intruder", b"")
    world.settle()
    assert sent
    assert MANY not in world.statuses.connectors
    assert MANY not in world.statuses.tasks
    assert not follower.state.allocation
    assert "(many, many-0" in world.story()
    world.broker.remove("intruder")
    world.ask(world.leader, PutConnector(A, {"v": "0"}, replace=True))
    world.settle()
    world.check_at_rest()
