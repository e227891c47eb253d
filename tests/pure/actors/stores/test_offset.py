"""The offset store actor and the stores that tasks use, over topics in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pykka
import pytest

from actors.messages.commands import ReadSourceOffsets, WriteSourceOffsets
from actors.stores.offset import OffsetStoreActor
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError
from spark_tasks.task import OffsetStore
from storage.errors import PrivilegedWriteError
from storage.ids import ConnectorName, TopicName
from storage.log.interface import PrivilegedWriter, SuspendedError
from storage.offsets.own_topic import OwnOffsets
from storage.offsets.stores import ConnectorOffsetStore, OffsetStores, OffsetTopic
from tests.rigs.memory_log import MemoryPrivilegedWriter, MemoryTopic, MemoryTopicLog

C = ConnectorName("c")
OWN = OwnOffsets(TopicName("own"), {}, {}, {})


class World:
    """The worker's topic and a connector's own, and the actor over both."""

    def __init__(self) -> None:
        self.topics = {"offsets": MemoryTopic("offsets", 3), "own": MemoryTopic("own")}
        self.opened: list[MemoryTopicLog] = []
        self.writers: list[MemoryPrivilegedWriter] = []
        self.open_own: Future[None] | None = None
        self.stores = OffsetStores(OffsetTopic(self.open("offsets")), lambda own: self.open(own.topic), timeout=5)
        self.ready: Future[None] = Future()
        self.ref = OffsetStoreActor.start(self.stores, self.writer, self.ready)
        self.ready.result(10)

    def open(self, name: str) -> MemoryTopicLog:
        log = MemoryTopicLog(self.topics[name])
        if (started := self.open_own) is not None:
            log.start = lambda *_: started  # type: ignore[method-assign]
        self.opened.append(log)
        return log

    def writer(self, own: OwnOffsets | None, transactional_id: str) -> PrivilegedWriter:
        topic = self.topics["offsets" if own is None else own.topic]
        self.writers.append(MemoryPrivilegedWriter(topic, transactional_id))
        return self.writers[-1]

    def ask(self, kind: type, *args: Any, **more: Any) -> Any:
        answer = pykka.ThreadingFuture()

        def reply(value: Any, error: Exception | None) -> None:
            if error is not None:
                answer.set_exception((type(error), error, None))
            else:
                answer.set(value)

        fields = {"connector": C, "answer": reply, **more}
        if args:
            fields["offsets"] = args[0]
        self.ref.tell(kind(**fields))
        return answer.get(timeout=10)

    def pairs(self, name: str) -> list[tuple[bytes | None, bytes | None]]:
        return [(r.key, r.value) for r in self.topics[name].records()]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.ref.stop()


def test_a_task_reads_and_writes_its_offsets(world: World) -> None:
    store: OffsetStore = world.stores.of(C)
    assert store.topic == "offsets"
    assert store.read() == []
    store.begin_write([({"file": "a"}, {"pos": 1}), ({"file": "b"}, {"pos": 2})])()
    store.begin_write([({"file": "a"}, {"pos": 3}), ({"file": "b"}, None)])()
    assert store.read() == [({"file": "a"}, {"pos": 3})]
    assert store.records([({"file": "a"}, {"pos": 4}), ({"file": "c"}, None)]) == [
        (b'["c",{"file":"a"}]', b'{"pos":4}'), (b'["c",{"file":"c"}]', None)]
    assert world.stores.of(ConnectorName("d")).read() == []


def test_failures_name_the_connector(world: World) -> None:
    store = world.stores.of(C)
    world.topics["offsets"].refuse = lambda _: OSError("no leader")
    with pytest.raises(OSError, match="no leader"):
        store.begin_write([({}, {})])()
    world.topics["offsets"].refuse = lambda _: None
    log = world.opened[0]
    log.hold()
    slow = ConnectorOffsetStore(C, world.stores.worker, timeout=0.05)
    world.topics["offsets"].append([(b'["c",{}]', b"{}")])
    with pytest.raises(RetriableError, match=r"Failed to fetch offsets of connector c \(topic offsets\): no answer"):
        slow.read()
    with pytest.raises(TypeError, match="JSON"):
        store.begin_write([({"x": object()}, {})])()


def test_temporary_errors_are_distinguished_from_permanent_ones(world: World) -> None:
    def raised(store: ConnectorOffsetStore, cause: Exception) -> ConnectError:
        world.topics["offsets"].refuse = lambda _: cause
        with pytest.raises(ConnectError, match="Failed to flush offsets to storage of connector c") as caught:
            store.begin_write([({}, {})])()
        return caught.value

    store = world.stores.of(C)
    for passing in (SuspendedError("it slept"), KafkaUnavailableError("no leader")):
        assert isinstance(raised(store, passing), RetriableError)
    assert not isinstance(raised(store, KafkaAuthorizationError("no")), RetriableError)
    unopened: Future[None] = Future()
    unopened.set_exception(KafkaUnavailableError("no brokers"))
    world.open_own = unopened
    with pytest.raises(ConnectError, match="no brokers") as caught:
        world.stores.of(C, OWN).read()
    assert not isinstance(caught.value, RetriableError), "only another store opens the topic again"


def test_a_connectors_own_topic_takes_precedence_and_is_copied(world: World) -> None:
    world.stores.of(C).begin_write([({"f": "old"}, {"p": 1}), ({"f": "both"}, {"p": 1})])()
    store = world.stores.of(C, OWN)
    assert store.topic == "own"
    store.begin_write([({"f": "both"}, {"p": 2}), ({"f": "new"}, {"p": 3})])()
    assert sorted(store.read(), key=str) == [
        ({"f": "both"}, {"p": 2}), ({"f": "new"}, {"p": 3}), ({"f": "old"}, {"p": 1})]
    # Copied, so that the connector can do without its own topic again.
    assert sorted(world.stores.of(C).read(), key=str) == sorted(store.read(), key=str)
    world.stores.of(C).begin_write([({"f": "new"}, {"p": 0})])()
    assert sorted(world.stores.read(C, OWN), key=str) == sorted(store.read(), key=str), "its own comes first"
    store.begin_write([({"f": "new"}, {"p": 3})])()
    world.topics["own"].refuse = lambda _: OSError("refused")
    with pytest.raises(OSError, match="refused"):
        store.begin_write([({"f": "old"}, None), ({"f": "new"}, {"p": 9})])()
    # The removal came first to the worker's topic; what was not written to its own was not copied.
    assert sorted(world.stores.of(C).read(), key=str) == [({"f": "both"}, {"p": 2}), ({"f": "new"}, {"p": 3})]
    world.topics["own"].refuse = lambda _: None
    world.topics["offsets"].refuse = lambda _: OSError("refused")
    store.begin_write([({"f": "new"}, {"p": 10})])()  # copying is as good as may be
    with pytest.raises(OSError, match="refused"):
        store.begin_write([({"f": "both"}, None)])()
    assert {p["f"]: o["p"] for p, o in store.read()} == {"both": 2, "new": 10}
    store.close()


def test_records_around_another_producers_transaction(world: World) -> None:
    world.stores.of(C).begin_write([({"f": "a"}, {"p": 1}), ({"f": "b"}, {"p": 1})])()
    store = world.stores.of(C, OWN)
    offsets = [({"f": "a"}, None), ({"f": "b"}, {"p": 2})]
    store.before_commit(offsets)
    world.topics["own"].append(store.records(offsets))
    store.after_commit(offsets)
    assert store.read() == [({"f": "b"}, {"p": 2})]
    assert world.stores.of(C).read() == [({"f": "b"}, {"p": 2})]
    store.close()


@pytest.mark.parametrize("own", [None, OWN])
@pytest.mark.parametrize("transactional_id", [None, "group-c-0"])
def test_offsets_are_read_altered_and_reset(world: World, own: OwnOffsets | None, transactional_id: str | None) -> None:
    more = {"own": own, "transactional_id": transactional_id}
    assert world.ask(ReadSourceOffsets, own=own) == ()
    assert world.ask(WriteSourceOffsets, None, **more) is None  # nothing there: nothing to do
    assert world.pairs("offsets") == []
    world.ask(WriteSourceOffsets, (({"f": "a"}, {"p": 1}), ({"f": "b"}, {"p": 2})), **more)
    assert {p["f"]: o["p"] for p, o in world.ask(ReadSourceOffsets, own=own)} == {"a": 1, "b": 2}
    world.ask(WriteSourceOffsets, (({"f": "a"}, None),), **more)
    assert world.ask(ReadSourceOffsets, own=own) == (({"f": "b"}, {"p": 2}),)
    world.ask(WriteSourceOffsets, None, **more)
    assert world.ask(ReadSourceOffsets, own=own) == ()
    assert bool(world.writers) == (transactional_id is not None)
    assert all(writer.closed for writer in world.writers)  # closed


def test_altering_fences_a_task_that_still_writes(world: World) -> None:
    zombie = MemoryPrivilegedWriter(world.topics["offsets"], "group-c-0")
    zombie.claim().result(1)
    world.ask(WriteSourceOffsets, (({"f": "a"}, {"p": 1}),), transactional_id="group-c-0")
    with pytest.raises(PrivilegedWriteError):
        zombie.write([(b'["c",{"f":"a"}]', b'{"p":99}')]).result(1)


def test_errors_reach_the_caller(world: World) -> None:
    world.topics["offsets"].refuse = lambda _: OSError("no leader")
    with pytest.raises(ConnectError, match=r"Failed to alter/reset offsets.*no leader"):
        world.ask(WriteSourceOffsets, (({}, {}),))
    world.opened[0].fail_reads(OSError("no broker"))
    with pytest.raises(ConnectError, match=r"Failed to fetch offsets.*no broker"):
        world.ask(ReadSourceOffsets)
