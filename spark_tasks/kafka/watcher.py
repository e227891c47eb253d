"""Watches the ends of partitions for all sink tasks of a worker, with a few long polls instead of one per task.

A task that has read everything is armed with its positions and sleeps. While a task is armed, one fetch request per
broker waits at the known ends of all partitions that tasks of this worker read. The broker responds when records
arrive, and the high watermarks in its response tell which tasks to wake. Requests and responses have only partitions
with something new (KIP-227). While no task is armed there are no requests; while nothing is new there are two a second.

The records in a response are kept for the tasks' next batches. If there are few, these need no fetch of their own. The
partitions of busy tasks are in the poll too, so that it covers a task as soon as that is armed. If there are many
tasks, each broker has a poll for each of several shares of its partitions (see interests.py).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import kafka.errors as protocol

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import Isolation, KafkaCluster, TopicPartition
from spark_tasks.kafka.connections import Deadline
from spark_tasks.kafka.fetch_session import FetchSession
from spark_tasks.kafka.held_records import HeldRecords
from spark_tasks.kafka.interests import Interest, Interests, Look

_logger = logging.getLogger(__name__)

MAX_WAIT_MS: Final = 500  # of a long poll; a new partition is in a poll after at most this time
_RESPONSE_BYTES: Final = 512 * 1024
_PARTITION_BYTES: Final = 32 * 1024  # a larger batch is complete only if it is the first in the response (KIP-74)
_HELD_BYTES: Final = 8 * 1024 * 1024  # of all partitions
_PARTITION_HELD_BYTES: Final = 128 * 1024
_PAUSE_MS: Final = 25.0  # after a response without news for any waiting task
# For lasting interests: for each task, and at most; if there are several shares: up to twice that, as splits wait
_PAUSES_MS: Final = {"one": (0.2, 80.0), "several": (0.3, 140.0)}
_PAUSE_PER_WAIT: Final = 3  # for each other. Fewer and larger ones leave more time to whatever needs the CPUs.
_RETRY_MS: Final = 100
_LEADER_TIMEOUT_MS: Final = 5_000
_LEADERS_S: Final = 0.5
_OUT_OF_REACH_S: Final = 1.0

_Place = tuple[int, int]  # a broker and a share of its partitions


@dataclass(slots=True)
class _End:
    """The end of a partition: its high watermark and its last stable offset (-1: not known yet)."""

    high: int = -1
    stable: int = -1

    def of(self, isolation: Isolation) -> int:
        return self.stable if isolation == "read_committed" else self.high


_UNKNOWN: Final = _End()


class EndWatcher:
    """Watches the partitions of tasks that share client settings (see EndWatchers). Thread-safe."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._ends: dict[TopicPartition, _End] = {}
        self._held = HeldRecords(_HELD_BYTES, _PARTITION_HELD_BYTES)
        self._held_lock = threading.Lock()  # a second lock, since hundreds of tasks take records while others are armed
        self._interests = Interests()
        self._polling: set[_Place] = set()
        self._sessions: dict[_Place, FetchSession] = defaultdict(FetchSession)
        self._leaders: dict[_Place, list[TopicPartition]] = {}
        self._shares = 1
        self._polls_at: dict[_Place, float] = {}  # the last one of each, or the next
        self._leaders_expire_at = 0.0
        self._lost: set[TopicPartition] = set()  # whose leader has said that it has no such end, or is no leader
        self._out_of_reach: dict[TopicPartition, float] = {}  # when the ends of these are requested again
        self._missing: set[str] = set()  # topics with a partition that has no known leader
        self._searching = False
        self._closed = False

    def ends(self, partitions: Collection[TopicPartition], isolation: Isolation) -> dict[TopicPartition, int]:
        """Returns the ends of these partitions. Requests those that are not known yet, without waiting for partitions
        whose leaders cannot be reached, which are left out. Raises ConnectError if all are.
        """
        ends = self._ends  # without the lock, which hundreds of tasks would wait for
        known = {tp: ends[tp].of(isolation) if tp in ends else -1 for tp in partitions}
        unknown = [tp for tp, end in known.items() if end < 0]
        if not unknown:
            return known
        known = {tp: end for tp, end in known.items() if end >= 0}
        now, out_of_reach = time.monotonic(), self._out_of_reach
        asked = [tp for tp in unknown if now >= out_of_reach.get(tp, 0.0)] if known else unknown
        return known | (self.refresh(asked, isolation, some=bool(known)) if asked else {})

    def known_end(self, partition: TopicPartition, isolation: Isolation) -> int:
        """Returns the known end of a partition, or -1. Sends no request."""
        return self._ends.get(partition, _UNKNOWN).of(isolation)

    def refresh(
        self, partitions: Collection[TopicPartition], isolation: Isolation, *, some: bool = False
    ) -> dict[TopicPartition, int]:
        """Requests the current ends of these partitions from the brokers; leaves partitions out as `ends` does. Raises
        ConnectError if all are out of reach, after a few seconds; not with `some`.
        """
        offsets = self.cluster.offsets_by_now(partitions, "latest", isolation, timeout_ms=_LEADER_TIMEOUT_MS)
        if not (offsets or some):
            offsets = self.cluster.offsets(partitions, "latest", isolation, timeout_ms=_LEADER_TIMEOUT_MS)
        retry_at, news = time.monotonic() + _OUT_OF_REACH_S, False
        with self._lock:
            for tp in partitions:
                if tp in offsets:
                    self._out_of_reach.pop(tp, None)
                else:
                    self._ends.pop(tp, None)
                    self._out_of_reach[tp] = retry_at
            for tp, offset in offsets.items():
                end = self._ends.setdefault(tp, _End())
                news |= end.of(isolation) != offset
                if isolation == "read_committed":
                    end.stable = offset
                else:
                    end.high = offset
        if news and self._interests.armed:  # the next response begins at the new end, so it does not tell other tasks
            self.cluster.io.start(self._wake_up)
        return offsets

    def lose(self, partition: TopicPartition) -> None:
        """Forgets the end of a partition that could not be read, and its leader. Both are looked up again."""
        with self._lock:
            self._ends.pop(partition, None)
            self._out_of_reach[partition] = time.monotonic() + _OUT_OF_REACH_S
            self._leaders_expire_at = 0.0
        self.cluster.forget_leaders(partition[0])

    def records(self, partition: TopicPartition, offset: int) -> bytes:
        """Returns the record batches from this offset on that recent responses had, in the broker's format; b"" if they
        had none. They were fetched with read_uncommitted.
        """
        if partition not in self._held:
            return b""
        with self._held_lock:
            return self._held.take(partition, offset)

    def fetched(self, partition: TopicPartition, offset: int) -> tuple[bytes, int]:
        """Returns `records` and the offset after them; -1 if there are none."""
        if partition not in self._held:
            return b"", -1
        with self._held_lock:
            data = self._held.take(partition, offset)
            return data, self._held.end(partition) if data else -1

    def watch(
        self, key: Hashable, positions: Mapping[TopicPartition, int], isolation: Isolation, look: Look, item: object,
        group: Hashable,
    ) -> None:  # fmt: skip
        """As `arm`, but lasting: after each response, `look` is called with the `item` of each task with news, once for
        all tasks that have the same `look`. The caller updates `positions`, which keeps its partitions. `disarm` ends
        it. `group`: tasks with equal ones get their records in the same response, as far as these are on one broker.
        """
        self._arm(key, Interest(positions, isolation, look=look, item=item, group=group))

    def arm(
        self, key: Hashable, positions: Mapping[TopicPartition, int], isolation: Isolation, wake: Callable[[], None]
    ) -> bool:
        """Arms a task: `wake` will be called (once, on the IO thread) when one of the positions is not the end. Returns
        False, without arming it, if that is known to be so already. Replaces the task's previous positions. `key`: of
        the task.
        """
        return self._arm(key, Interest(positions, isolation, wake))

    def _arm(self, key: Hashable, interest: Interest) -> bool:
        with self._lock:
            if self._interests.put(key, interest):
                self._leaders_expire_at = 0.0  # so that the next poll has these partitions
            if not interest.lasting and self._has_news(interest):
                return False
            self._interests.armed.add(key)
            fresh = time.monotonic() < self._leaders_expire_at and not self._missing
            covered = fresh and self._leaders.keys() <= self._polling
        if not covered:  # a poll that is just ending checks once more whether a task is armed
            self.cluster.io.start(self._start_polls)
        return True

    def disarm(self, key: Hashable) -> None:
        """Ends `watch` or `arm`. The task's partitions are still polled."""
        with self._lock:
            self._interests.armed.discard(key)

    def forget(self, key: Hashable) -> None:
        """Removes a task that has ended, is paused, or has a new assignment."""
        with self._lock:
            self._interests.remove(key)
            wanted = set(self._interests.partitions)
            self._ends = {tp: end for tp, end in list(self._ends.items()) if tp in wanted}
            self._lost &= wanted
            self._out_of_reach = {tp: at for tp, at in self._out_of_reach.items() if tp in wanted}
            self._leaders_expire_at = 0.0
        with self._held_lock:
            self._held.keep(wanted)

    def close(self) -> None:
        """Stops polling and closes the connections."""
        self._closed = True
        self.cluster.close()

    def _has_news(self, interest: Interest) -> bool:
        """Returns whether a known end differs from the task's position. So does a smaller end, because the log was
        truncated or created again; unless only the last stable offset is smaller, because of an open transaction.
        """
        for tp, position in interest.positions.items():
            end = self._ends.get(tp, _UNKNOWN)
            known = end.of(interest.isolation)
            if known > position or (0 <= known < position and end.high < position):
                return True
        return False

    # The methods below run on the IO thread.

    def _start_polls(self) -> Mapping[_Place, list[TopicPartition]]:
        """Starts to poll each share of each broker that is not polled yet. Returns their partitions."""
        by_leader = self._by_leader()
        for place in by_leader.keys() - self._polling:
            self._polling.add(place)
            self.cluster.io.start(self._poll, place)
        return by_leader

    def _by_leader(self) -> Mapping[_Place, list[TopicPartition]]:
        """Returns the partitions by broker and share, without those whose leader is not known. A search for these is
        started, which must not delay the others: a broker may be down, or a topic deleted.
        """
        now = time.monotonic()
        with self._lock:
            if now >= self._leaders_expire_at:
                found: dict[_Place, list[TopicPartition]] = defaultdict(list)
                missing = set()
                self._shares, share_of = self._interests.shares()
                for tp, share in sorted(share_of.items()):
                    node = self.cluster.known_leader(*tp)
                    if node is None:
                        missing.add(tp[0])
                    else:
                        found[node, share].append(tp)
                self._leaders, self._missing, self._leaders_expire_at = found, missing, now + _LEADERS_S
        if self._missing and not self._searching:
            self._searching = True
            self.cluster.io.start(self._search)
        return self._leaders

    async def _search(self) -> None:
        """Looks leaders up until all are known, or no task is armed."""
        try:
            while self._missing and self._interests.armed and not self._closed:
                with contextlib.suppress(protocol.KafkaError, OSError):  # looked up again after the pause
                    await self.cluster.look_up_leaders(sorted(self._missing), Deadline(_LEADER_TIMEOUT_MS))
                self._leaders_expire_at = 0.0
                self._start_polls()
                if self._missing:
                    await self.cluster.io.sleep(_LEADERS_S * 1000)
        finally:
            self._searching = False

    async def _poll(self, place: _Place) -> None:
        """Sends long polls to one broker, for a share of its partitions, until no task is armed."""
        try:
            while self._interests.armed and not self._closed:
                partitions = self._start_polls().get(place, [])
                if not partitions:
                    return
                try:
                    changed = await self._long_poll(place, partitions)
                except Exception as error:  # polls must go on: nothing else would wake lent tasks
                    usual = isinstance(error, (protocol.KafkaError, OSError, ConnectError))
                    _logger.log(logging.DEBUG if usual else logging.ERROR, "Requesting ends from broker %d failed: %s",
                                place[0], error, exc_info=not usual)
                    self._sessions[place].handle_error()
                    self._forget_leaders({topic for topic, _ in partitions})
                    self._wake_up(partitions)  # some of the response may have been taken
                    await self.cluster.io.sleep(_RETRY_MS)
                    continue
                if changed and (pause_ms := self._wake_up(changed)):
                    await self.cluster.io.sleep(self._until_turn(place, pause_ms))
        finally:
            self._polling.discard(place)
        if self._interests.armed and not self._closed:  # armed since the last check
            self._start_polls()

    def _until_turn(self, place: _Place, pause_ms: float) -> float:
        """Returns how long a poll waits, in ms: for its pause, and longer if a poll of another share is at about that
        time, so that the polls of a broker's shares are spread evenly.
        """
        now, distance_s = time.monotonic(), pause_ms / 1000 / self._shares
        at = now + pause_ms / 1000
        for other in sorted(when for one, when in self._polls_at.items() if one[0] == place[0] and one != place):
            if abs(other - at) < distance_s:
                at = other + distance_s
        self._polls_at[place] = at
        return (at - now) * 1000

    async def _long_poll(self, place: _Place, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sends one long poll to a broker. Returns the partitions whose ends have changed."""
        node, share = place
        with self._lock:
            at = {tp: self._ends[tp].high if tp in self._ends else -1 for tp in partitions}
            unknown = [tp for tp, offset in at.items() if offset < 0 or tp in self._lost]
        if unknown:
            lost = await self._request_ends(node, unknown)
            await self._leave(lost)
            if len(lost) < len(unknown) or len(lost) == len(at):
                return [tp for tp in unknown if tp not in lost]
            at = {tp: offset for tp, offset in at.items() if tp not in lost}  # the others must not wait for these
        session = self._sessions[place]
        request = session.request(
            at, max_wait_ms=MAX_WAIT_MS, max_bytes=_RESPONSE_BYTES, partition_bytes=_PARTITION_BYTES)
        response = await self.cluster.io.send(request, node, lane=f"watch{share}")
        if not session.handle_response(response.error_code, response.session_id):
            return []
        if response.error_code:
            raise protocol.for_code(response.error_code)
        found = {(topic.topic, part.partition_index): part for topic in response.responses for part in topic.partitions}
        lost = [tp for tp, part in found.items() if part.error_code]
        with self._held_lock:  # once for all partitions: if all CPUs are busy, each wait for a lock takes milliseconds
            changed = [tp for tp, part in found.items() if not part.error_code and self._update(tp, part, at.get(tp))]
        await self._leave(lost)
        return changed

    async def _leave(self, lost: list[TopicPartition]) -> None:
        """Drops partitions without a leader. Their ends are requested once they have a new one, if ever."""
        if not lost:
            return
        with self._lock:
            self._lost.update(lost)
        self._forget_leaders({topic for topic, _ in lost})
        await self.cluster.io.sleep(_RETRY_MS)

    def _forget_leaders(self, topics: Collection[str]) -> None:
        for topic in topics:
            self.cluster.forget_leaders(topic)
        self._leaders_expire_at = 0.0

    async def _request_ends(self, node: int, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Requests ends from one broker, without retries, which would delay its other partitions. Returns the
        partitions that it does not lead.
        """
        found: dict[TopicPartition, int] = {}
        await self.cluster.list_offsets(node, partitions, "latest", "read_uncommitted", found)
        with self._lock:
            self._lost.difference_update(found)
            for tp, offset in found.items():
                self._ends.setdefault(tp, _End()).high = offset
        with self._held_lock:
            for tp in found:
                self._held.drop(tp)
        return [tp for tp in partitions if tp not in found]

    def _update(self, tp: TopicPartition, part: Any, requested: int | None) -> bool:
        """Updates the end and the held records from a response. Returns whether the end has changed.

        The caller holds `_held_lock`, but not `_lock`: a reader may get the previous end just as well.
        """
        end = self._ends.get(tp) or self._ends.setdefault(tp, _End())
        before = (end.high, end.stable)
        if part.high_watermark < end.high:  # the log was truncated, so the held records may be outdated
            self._held.drop(tp)
        elif requested is not None and part.records:
            self._held.add(tp, requested, bytes(part.records))
        end.high = part.high_watermark
        if part.last_stable_offset >= 0:
            end.stable = part.last_stable_offset
        return before != (end.high, end.stable)

    def _wake_up(self, partitions: Collection[TopicPartition] | None = None) -> float:
        """Wakes the tasks with news of these partitions (None: of any). Returns the pause before the next poll (ms)."""
        with self._lock:
            armed = self._interests.armed_readers(partitions)
        news = [one for one in armed if self._has_news(one[1])]
        with self._lock:
            woken = self._interests.still_armed(news)
        lasting: dict[Look, list[Any]] = defaultdict(list)
        for interest in woken:
            if interest.look is None:
                interest.wake()
            else:
                lasting[interest.look].append(interest.item)
        waited_s = max([look(items) for look, items in lasting.items()], default=0.0)
        count = sum(map(len, lasting.values()))
        if count < len(woken):
            return 0.0
        if not woken:
            return _PAUSE_MS
        for_each, longest = _PAUSES_MS["one" if self._shares == 1 else "several"]
        pause_ms = min(count * self._shares * for_each, longest)
        return pause_ms if self._shares == 1 else min(max(pause_ms, _PAUSE_PER_WAIT * waited_s * 1000), 2 * pause_ms)
