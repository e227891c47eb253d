"""Which brokers the watcher polls, with brokers in memory: partitions that have no leader, and leaders that move."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import kafka.errors as protocol
import pytest

from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.interests import TASKS_OF_SHARE
from spark_tasks.kafka.watcher import EndWatcher
from tests.rigs.support import wait_until

SOON_S = 20.0
PAUSE_S = 0.01  # in place of the time that a broker holds an empty fetch


class Brokers:
    """The leaders and the ends of partitions. Also the cluster's IO thread, on asyncio."""

    def __init__(self) -> None:
        self.leads: dict[TopicPartition, int] = {}  # no other partition exists
        self.ends: dict[TopicPartition, int] = defaultdict(int)
        self.stable: int | None = None  # the last stable offset, if a transaction is open
        self.known: dict[TopicPartition, int] = {}
        self.silent: set[TopicPartition] = set()  # whose leaders cannot say their ends
        self.refusals = 0
        self.unreadable = 0  # responses that follow
        self.torn = 0  # responses that follow: with news, the last one of which cannot be read
        self.searched = threading.Event()  # for a topic that does not exist
        self.io = self
        self.lanes: dict[str, set[TopicPartition]] = defaultdict(set)  # what was polled in each
        self.pauses: list[float] = []  # before polls, in ms
        self.tasks: set[asyncio.Task[Any]] = set()
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self.runner.get_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        def begin() -> None:
            result = function(*arguments)
            if asyncio.iscoroutine(result):
                task = self.loop.create_task(result)
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

        self.loop.call_soon_threadsafe(begin)

    async def sleep(self, milliseconds: float) -> None:
        self.pauses.append(milliseconds)
        await asyncio.sleep(PAUSE_S)

    async def send(self, request: Any, node: int, lane: str) -> Any:
        self.lanes[lane] |= {(topic.topic, part.partition) for topic in request.topics for part in topic.partitions}
        await asyncio.sleep(PAUSE_S)
        if self.unreadable:
            self.unreadable -= 1
            raise struct.error("unpack requires a buffer of 4 bytes")
        response = SimpleNamespace(error_code=0, session_id=0, responses=[
            SimpleNamespace(topic=topic.topic, partitions=[
                self.fetched(node, (topic.topic, part.partition), part.fetch_offset) for part in topic.partitions])
            for topic in request.topics])
        if self.torn:
            self.torn -= 1
            response.responses[-1].partitions[-1].high_watermark = None
        return response

    def fetched(self, node: int, partition: TopicPartition, offset: int) -> Any:
        error = 0 if self.leads.get(partition) == node else protocol.NotLeaderForPartitionError.errno
        if not error and partition in self.silent:
            error = protocol.KafkaStorageError.errno
        if not error and offset > self.ends[partition]:
            error = protocol.OffsetOutOfRangeError.errno
        return SimpleNamespace(
            partition_index=partition[1], error_code=error,
            high_watermark=self.ends[partition], records=None,
            last_stable_offset=self.ends[partition] if self.stable is None else self.stable)

    def offsets_by_now(self, partitions: list[TopicPartition], *_: Any, **__: Any) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in partitions}

    def known_leader(self, topic: str, partition: int) -> int | None:
        return self.known.get((topic, partition))

    def forget_leaders(self, topic: str) -> None:
        self.known = {tp: node for tp, node in self.known.items() if tp[0] != topic}

    async def look_up_leaders(self, topics: list[str], _deadline: Any) -> None:
        await asyncio.sleep(0)  # faster than the pauses, as with brokers
        self.known |= {tp: node for tp, node in self.leads.items() if tp[0] in topics}
        if not {topic for topic, _ in self.leads}.issuperset(topics):
            self.searched.set()

    async def list_offsets(
        self, node: int, partitions: list[TopicPartition], _which: str, _level: str, found: dict[TopicPartition, int]
    ) -> None:
        await asyncio.sleep(PAUSE_S)
        able = {tp for tp in partitions if self.leads.get(tp) == node and tp not in self.silent}
        self.refusals += len(partitions) - len(able)
        found.update((tp, self.ends[tp]) for tp in able)

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """The IO thread does nothing."""
        over = threading.Event()
        self.loop.call_soon_threadsafe(over.wait)
        try:
            yield
        finally:
            over.set()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.runner.close()


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    yield made
    made.close()


def watched(
    watcher: EndWatcher, partition: TopicPartition, position: int = 0, *, group: str | None = None,
    waited_s: float = 0.0,
) -> threading.Event:  # fmt: skip
    """An event that is set when a lent task has news of a partition that it has read to this position. `waited_s`:
    how long its batches wait for others.
    """
    news = threading.Event()

    def look(_: list[Any]) -> float:
        news.set()
        return waited_s

    watcher.watch(partition, {partition: position}, "read_uncommitted", look, partition, group)
    return news


def test_a_topic_without_leaders_does_not_delay_the_tasks_of_others(brokers: Brokers) -> None:
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    deleted = watched(watcher, ("a-deleted", 0))
    assert brokers.searched.wait(SOON_S)
    brokers.leads["b", 0] = 1
    news = watched(watcher, ("b", 0))
    brokers.ends["b", 0] = 5
    assert news.wait(SOON_S)
    brokers.leads["a-deleted", 0] = 2  # it is created again
    brokers.ends["a-deleted", 0] = 5
    assert deleted.wait(SOON_S)


def test_a_partition_is_polled_at_its_new_leader_while_the_old_one_leads_others(brokers: Brokers) -> None:
    stays, moves = ("t", 0), ("t", 1)
    brokers.leads.update({stays: 1, moves: 1})
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    watched(watcher, stays)
    news = watched(watcher, moves)
    wait_until(lambda: watcher.known_end(moves, "read_uncommitted") == 0)
    brokers.leads[moves] = 2
    wait_until(lambda: brokers.known.get(moves) == 2)
    brokers.ends[moves] = 5
    assert news.wait(SOON_S)


def test_records_are_news_although_another_task_has_just_requested_their_end(brokers: Brokers) -> None:
    """They belong to a transaction that stays open, so nothing else changes."""
    tp = ("t", 0)
    brokers.leads[tp], brokers.stable = 1, 0
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    news = watched(watcher, tp)
    wait_until(lambda: watcher.known_end(tp, "read_committed") == 0)

    def append() -> None:  # on the IO thread: no response comes between the two
        brokers.ends[tp] = 5
        watcher.refresh([tp], "read_uncommitted", some=True)

    brokers.loop.call_soon_threadsafe(append)
    assert news.wait(SOON_S)


@pytest.mark.parametrize("known", [True, False])
def test_a_partition_that_its_leader_has_lost_does_not_delay_the_others(brokers: Brokers, known: bool) -> None:
    """Its topic was deleted, before or after its end was known."""
    stays, lost = ("a", 0), ("b", 0)
    brokers.leads.update({stays: 1, lost: 1})
    brokers.known |= brokers.leads
    if not known:
        del brokers.leads[lost]
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    news, news_of_lost = watched(watcher, stays), watched(watcher, lost)
    if known:
        wait_until(lambda: watcher.known_end(lost, "read_uncommitted") == 0)
        del brokers.leads[lost]
    assert brokers.searched.wait(SOON_S)
    brokers.ends[stays] = 5
    assert news.wait(SOON_S)
    brokers.leads[lost] = 2  # it is created again
    brokers.ends[lost] = 3
    assert news_of_lost.wait(SOON_S)


@pytest.mark.parametrize("known", [True, False])
def test_a_partition_whose_leader_cannot_say_its_end_does_not_delay_the_others(brokers: Brokers, known: bool) -> None:
    """A disk of the broker failed, or it has just been elected, and its followers are behind (KIP-207)."""
    stays, silent = ("t", 0), ("t", 1)
    brokers.leads.update({stays: 1, silent: 1})
    brokers.known |= brokers.leads
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    if not known:
        brokers.silent.add(silent)
    news, news_of_silent = watched(watcher, stays), watched(watcher, silent)
    if known:
        wait_until(lambda: watcher.known_end(silent, "read_uncommitted") == 0)
        brokers.silent.add(silent)
    wait_until(lambda: brokers.refusals > 2)
    brokers.ends[stays] = 5
    assert news.wait(SOON_S)
    brokers.ends[silent] = 3
    brokers.silent.clear()
    assert news_of_silent.wait(SOON_S)


def test_polls_continue_after_a_response_that_cannot_be_read(brokers: Brokers) -> None:
    """Otherwise nothing would wake lent tasks again."""
    brokers.leads["t", 0] = 1
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    news = watched(watcher, ("t", 0))
    wait_until(lambda: watcher.known_end(("t", 0), "read_uncommitted") == 0)
    brokers.unreadable = 2
    wait_until(lambda: not brokers.unreadable)
    brokers.ends["t", 0] = 5
    assert news.wait(SOON_S)


def test_what_was_taken_of_a_response_that_could_not_be_read_whole_is_news(brokers: Brokers) -> None:
    taken, torn = ("t", 0), ("t", 1)
    brokers.leads |= {taken: 1, torn: 1}
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    news, _ = watched(watcher, taken), watched(watcher, torn)
    wait_until(lambda: all(watcher.known_end(tp, "read_uncommitted") == 0 for tp in (taken, torn)))
    with brokers.at_rest():
        brokers.ends |= {taken: 1, torn: 1}
        brokers.torn = 1
    wait_until(lambda: not brokers.torn)
    assert news.wait(SOON_S)


def test_a_log_that_has_become_shorter_is_news(brokers: Brokers) -> None:
    partition = ("t", 0)
    brokers.leads[partition], brokers.ends[partition] = 1, 5
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    news = watched(watcher, partition, position=5)
    wait_until(lambda: watcher.known_end(partition, "read_uncommitted") == 5)
    brokers.ends[partition] = 2
    assert news.wait(SOON_S)


def test_many_tasks_are_polled_in_shares_one_after_the_other_and_each_is_woken(brokers: Brokers) -> None:
    """The pause is 60 ms: 0.3 for each task."""
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    places = [(f"t{at}", task) for at in range(4) for task in range(TASKS_OF_SHARE)]
    brokers.leads.update(dict.fromkeys(places, 1))
    with brokers.at_rest():
        news = [watched(watcher, place, group=place[0]) for place in places]
    wait_until(lambda: all(watcher.known_end(place, "read_uncommitted") == 0 for place in places))
    wait_until(lambda: "watch4" in brokers.lanes)
    brokers.lanes.clear()
    brokers.pauses.clear()
    brokers.ends.update(dict.fromkeys(places, 5))
    assert all(event.wait(SOON_S) for event in news)
    wait_until(lambda: len(brokers.lanes) == 4)
    assert sorted(brokers.lanes.values(), key=sorted) == [
        {(f"t{at}", task) for task in range(TASKS_OF_SHARE)} for at in range(4)]
    wait_until(lambda: max(brokers.pauses) > 60 + 2 * 15)  # each keeps its distance from the one before it


@pytest.mark.parametrize(("shares", "waited_s", "pause_ms"), [
    (1, 0.0, 10.0), (1, 9.0, 10.0), (2, 0.0, 30.0), (2, 0.014, 42.0), (2, 9.0, 60.0)])
def test_the_pause_is_up_to_twice_as_long_if_splits_wait_for_each_other(
    brokers: Brokers, shares: int, waited_s: float, pause_ms: float
) -> None:
    """0.2 ms for each task with news, 0.3 if there are several shares, whose splits may wait for each other."""
    watcher = EndWatcher(cast("KafkaCluster", brokers))
    places = [(f"t{at}", task) for at in range(shares) for task in range(TASKS_OF_SHARE)]
    brokers.leads.update(dict.fromkeys(places, 1))
    with brokers.at_rest():
        for place in places:
            watched(watcher, place, group=place[0], waited_s=waited_s)
    wait_until(lambda: all(watcher.known_end(place, "read_uncommitted") == 0 for place in places))
    wait_until(lambda: f"watch{shares if shares > 1 else 0}" in brokers.lanes)
    brokers.pauses.clear()

    def seen() -> bool:
        brokers.ends.update(dict.fromkeys(places[:TASKS_OF_SHARE], brokers.ends[places[0]] + 1))
        return any(abs(one - pause_ms) < 0.5 for one in brokers.pauses)

    wait_until(seen)
