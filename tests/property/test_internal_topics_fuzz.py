"""An invalid record on an internal topic affects nothing else.

HEELER_FUZZ=1000000 (make fuzz) tries that many records instead of a few thousand.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Iterator

import pytest

from actors.messages.commands import ReadConfigToEnd
from actors.messages.correlation_ids import OpId
from actors.messages.events import ConfigChanged
from actors.messages.requests import DeleteConnector, PutConnector
from rest.json_text import dumps
from storage.config.fold import fold
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, State, WorkerId
from storage.log.record import LogRecord
from storage.offsets.fold import records_for
from storage.offsets.records import offset_key
from storage.offsets.stores import OffsetTopic
from storage.status.records import status_record
from storage.status.state import Status
from tests.rigs import hostile
from tests.rigs.herder.world import World
from tests.rigs.memory_log import MemoryTopic, MemoryTopicLog
from tests.rigs.stores import running

RECORDS = int(os.environ.get("HEELER_FUZZ", "6000"))
CHUNK = 1000
FIRST = int(os.environ.get("HEELER_FUZZ_FIRST", "0"))
GOOD = ConnectorName("good")
CONFIG = {"connector.class": "X", "v": "1"}

SEEDS = [pytest.param(seed, id=f"seed-{seed}") for seed in range(FIRST, FIRST + max(RECORDS // 3 // CHUNK, 1))]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A line for each bad record is what is wanted, but not of a million."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_config_records_stop_no_store_and_leave_other_connectors_unchanged(seed: int) -> None:
    chance = random.Random(seed)
    good = [(b"connector-good", json.dumps({"properties": CONFIG}).encode())]
    topic = MemoryTopic("configs")
    topic.append([*good, *(hostile.config_record(chance) for _ in range(CHUNK // 2))])
    with running() as rig:
        store, view = rig.config_store(MemoryTopicLog(topic))  # what it reads at its start
        view.ready.result(30)
        topic.append([hostile.config_record(chance) for _ in range(CHUNK - CHUNK // 2)] + good)  # and later
        op = OpId(10**9 + seed)
        store.tell(ReadConfigToEnd(op, 30_000))
        assert rig.done(op).error is None
        assert store.is_alive()
        assert view.config.connector_configs[GOOD] == CONFIG
        for message in rig.said:
            if isinstance(message, ConfigChanged):
                dumps([dict(message.snapshot.connector_configs), [str(c) for c in message.changes]])


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_status_records_stop_no_store_and_leave_other_connectors_unchanged(seed: int) -> None:
    chance = random.Random(seed)
    said = Status(ConnectorTaskId(GOOD, 0), State.RUNNING, WorkerId("w:1"), 2)
    topic = MemoryTopic("statuses")
    topic.append([status_record(said), *(hostile.status_record(chance) for _ in range(CHUNK // 2))])
    with running() as rig:
        store, view = rig.status_store(MemoryTopicLog(topic))
        view.ready.result(30)
        topic.append([hostile.status_record(chance) for _ in range(CHUNK - CHUNK // 2)])
        rig.catch_up(store)
        assert store.is_alive()
        assert view.statuses.tasks[GOOD][0] == said
        for shown in (view.statuses.connectors, view.statuses.topics):
            dumps({name: str(one) for name, one in shown.items()})


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_offset_records_stop_no_store_and_leave_other_connectors_unchanged(seed: int) -> None:
    chance = random.Random(seed)
    topic = MemoryTopic("offsets")
    topic.append([(offset_key(GOOD, {"p": 1}), b'{"at":1}')])
    store = OffsetTopic(MemoryTopicLog(topic))
    store.start().result(30)
    topic.append([hostile.offset_record(chance) for _ in range(CHUNK)])
    store.read_to_end_soon().result(30)
    assert list(store.state.offsets(GOOD).values()) == [({"p": 1}, {"at": 1})]
    for name in list(store.state.connectors):  # and what was read can be shown and removed again
        dumps(list(store.state.offsets(name).values()))
        topic.append(records_for(store.state, name, [(p, None) for p in store.state.partitions(name)]))
        assert store.state.partitions(name) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_herder_continues_whatever_the_config_topic_contains(seed: int) -> None:
    """A leader over the real records, assignors and codecs, in a simulated cluster."""
    chance = random.Random(seed)
    world = World(2, seed=seed)
    world.settle()
    for _ in range(CHUNK // 50 if RECORDS > 100_000 else 3):
        world.log.append(tuple(hostile.config_record(chance) for _ in range(20)))
        world.settle()
    world.log.append(((b"connector-good", json.dumps({"properties": CONFIG}).encode()),))
    world.settle()
    assert GOOD in world.where(), world.story(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_herder_continues_whatever_the_status_topic_contains(seed: int) -> None:
    """Also about connectors that exist, and in the name of workers of the group."""
    chance = random.Random(seed)
    world = World(2, seed=seed)
    world.settle()
    for name in (GOOD, ConnectorName("a")):
        world.ask(world.leader, PutConnector(name, CONFIG, replace=True))
    world.settle()
    for _ in range(CHUNK // 50 if RECORDS > 100_000 else 3):
        for _ in range(20):
            world.status_log.append_record(hostile.status_record(chance))
        world.settle()
    world.crash(world.leader)
    world.add("w9")
    world.settle()
    assert {item for item in world.where() if "good" in str(item)} == {GOOD, *world.config.tasks(GOOD)}
    assert world.statuses.connectors[GOOD].state is State.RUNNING
    assert {status.state for status in world.statuses.tasks[GOOD].values()} == {State.RUNNING}
    asked = world.ask(world.leader, DeleteConnector(ConnectorName("a")))
    world.settle()
    assert world.replies[asked].error is None
    assert set(world.where()) == {GOOD, *world.config.tasks(GOOD)}


def test_records_that_java_can_parse_advance_the_position() -> None:
    """All workers of a group must agree on it; Jackson takes 1,000 levels and numbers of 1,000 digits."""

    def end(value: str) -> int:
        return fold(ClusterConfigState(), {}, [LogRecord(0, 7, 0, b"commit-a", value.encode())], started=True)[0].offset

    assert end("[" * 600 + "]" * 600) == 8
    assert end("[" * 5000 + "]" * 5000) == -1
    assert end('{"tasks":' + "9" * 1000 + "}") == 8
    assert end('{"tasks":' + "9" * 1001 + "}") == -1
    assert end('{"text":"' + "9" * 5000 + '"}') == 8


def test_the_log_text_of_a_record_is_short_and_printable() -> None:
    line = str(LogRecord(1, 2, 0, ("task-\n\u2028" + "9" * 5000).encode(), b""))
    assert line.isprintable()
    assert line.replace("…", "").isascii()
    assert "partition 1, offset 2" in line
    assert len(line) < 250
