"""A sink task's membership of its consumer group: its assignment, committed offsets and fenced commits. No fetching.

All sink tasks of a worker share one IO thread. Between rebalances a member costs only a heartbeat every few seconds:
the coordinator wakes the task, which does not poll.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final

import kafka.errors as protocol
from kafka.consumer.subscription_state import ConsumerRebalanceListener, SubscriptionState
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaTopicPartition

from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.futures import complete, ended, fail
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import NOT_A_MEMBER, KafkaUnavailableError, join_refusal, translated, translating
from spark_tasks.kafka.group_client import MemberClient, TopicPattern, subscribe_to_pattern
from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.kafka.group_settings import ConsumerSettings
from spark_tasks.process.suspension import process_pulse

_logger = logging.getLogger(__name__)

_BOOTSTRAP_TIMEOUT_MS: Final = 5_000  # short, as the task can be stopped only between attempts
_JOIN_TIMEOUT_MS: Final = 30_000
_CLOSE_TIMEOUT_MS: Final = 3_000
_FETCH_TIMEOUT_MS: Final = 5_000  # of committed offsets
_SETTLING_S: Final = 0.05
SETTLED_S: Final = 10.0  # after a join; the other tasks of a new connector have joined by then
_SESSION_KEY: Final = "consumer.override.session.timeout.ms (the worker's consumer.session.timeout.ms)"
_SLACK_S: Final = 5.0  # for an IO thread that is busy with other members
_UNKNOWN_S: Final = 1.0
_NEEDS: Final = "READ permission on the group and its topics"
_COMMIT_BACKOFF_MS: Final = 10  # after a retriable error, such as a coordinator that has just moved


class _Coordinator(ConsumerCoordinator):  # type: ignore[misc]
    """Calls `wake` when the member has to act, so that the task does not have to poll."""

    wake: Callable[[], None] = staticmethod(lambda: None)
    refused: frozenset[str] = frozenset()  # topics that this member may not read
    leaving = False
    _joining: Any = None
    _heartbeat_generation: Any = None  # of the last heartbeat request

    def __init__(self, *arguments: Any, **configs: Any) -> None:
        super().__init__(*arguments, **configs)
        self._unknown: dict[TopicPartition, float] = {}  # since when commits name these partitions in vain

    def need_rejoin(self) -> bool:
        return not self.leaving and (self._joining is not None or bool(super().need_rejoin()))

    def ensure_active_group(self, timeout_ms: float | None = None) -> bool:
        # kafka-python loses a join that completes between two calls: it then joins again, which makes all members
        # rejoin, or considers itself joined without an assignment.
        if self._joining is None:
            self._joining = self._manager.call_soon(self.ensure_active_group_async, _JOIN_TIMEOUT_MS)
            self._joining.add_both(lambda _: self.wake())
        joining = self._joining
        try:
            return bool(self._net.run(self._manager.wait_for, joining, timeout_ms))
        except protocol.KafkaTimeoutError:
            return False
        finally:
            if joining.is_done:
                self._joining = None

    def request_rejoin(self) -> None:
        super().request_rejoin()
        self.wake()

    def reset_generation(self, *arguments: Any, **keywords: Any) -> None:
        super().reset_generation(*arguments, **keywords)
        self.wake()

    async def _send_heartbeat_request(self) -> None:
        self._heartbeat_generation = self._generation
        await super()._send_heartbeat_request()

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        # Otherwise kafka-python lets a late response to a heartbeat of the previous generation reset the current one.
        if self._heartbeat_generation is self._generation:
            super()._handle_heartbeat_response(response, send_time)

    def _handle_offset_commit_response(self, offsets: Any, send_time: float, response: Any) -> None:
        # Kafka deletes offsets with their topic; it may also be so new that the coordinator does not know it yet.
        now = time.monotonic()
        for topic in response.topics:
            for part in topic.partitions:
                place = (topic.name, part.partition_index)
                if part.error_code != protocol.UnknownTopicOrPartitionError.errno:
                    self._unknown.pop(place, None)
                elif now - self._unknown.setdefault(place, now) > _UNKNOWN_S:
                    _logger.warning("The offset of partition %s-%d is not committed: the topic was deleted", *place)
                    part.error_code = 0
                    del self._unknown[place]
        super()._handle_offset_commit_response(offsets, send_time, response)

    def _handle_metadata_update(self, _cluster: Any) -> None:
        self.refused = self._cluster.unauthorized_topics
        if not self.refused:
            super()._handle_metadata_update(self._cluster)  # not the argument, which has the topics of all members
        if self.refused or self.need_rejoin():
            self.wake()


class _Heartbeat(Heartbeat):  # type: ignore[misc]
    """Adapts the heartbeat interval.

    A member learns of a rebalance from a heartbeat's response. The tasks of a connector join one after the other, so
    with `settles` heartbeats are more frequent just after a join: the interval is half of the time since the join. On a
    worker with hundreds of members, the regular interval is longer than configured, up to a third of the session
    timeout.
    """

    def __init__(self, io: GroupIo, *, settles: bool, **configs: Any) -> None:
        super().__init__(**configs)
        self._io = io
        self._settles = settles

    def time_to_next_heartbeat(self) -> float:
        """Returns the seconds until the next heartbeat."""
        left: float = super().time_to_next_heartbeat()
        now, last = time.monotonic(), max(self.last_send, self.last_reset)
        if not self.heartbeat_failed:
            longest = self.config["session_timeout_ms"] / 1000 / 3
            left = max(left, last + min(self._io.heartbeat_pause_s, longest) - now)
        if self._settles:
            left = min(left, last + max(_SETTLING_S, (now - self.last_reset) / 2) - now)
        return max(0.0, left)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Calls `changed` when the assignment changes. Members join only between batches, so revocation needs no work."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def on_partitions_revoked(self, _revoked: Collection[Any]) -> None:
        self._changed()

    def on_partitions_assigned(self, _assigned: Collection[Any]) -> None:
        self._changed()

    def on_partitions_lost(self, _lost: Collection[Any]) -> None:
        self._changed()


class GroupConsumer:
    """One member of a consumer group. Call all methods on one thread. They raise ConnectErrors."""

    def __init__(self, settings: ConsumerSettings, io: GroupIo, wake: Callable[[], None]) -> None:
        """Connects to the cluster, which takes seconds if no broker responds. `wake` is called on the IO thread when
        the task should call `poll`.
        """
        self._settings = settings
        self._io = io
        self._changed = True
        self._pulse = process_pulse()
        self._joined_at = time.monotonic()
        self._is_settled = False
        config = {
            **settings.client,
            "group_id": settings.group_id,
            "session_timeout_ms": settings.session_timeout_ms, "heartbeat_interval_ms": settings.heartbeat_interval_ms,
            "max_poll_interval_ms": settings.max_poll_interval_ms,
            "group_instance_id": settings.group_instance_id,
            "exclude_internal_topics": settings.exclude_internal_topics, "enable_auto_commit": False,
            "retry_backoff_ms": _COMMIT_BACKOFF_MS,
        }
        self._net = io.net()
        self._shared, self._topics = io.client(
            settings.client, every_topic=settings.pattern is not None, create_topics=settings.allow_auto_create_topics)
        self._client: MemberClient | None = None
        self._subscription = SubscriptionState("none")
        self._pattern = None if settings.pattern is None else TopicPattern(settings.pattern)
        with translating("connecting to Kafka"):
            try:
                self._subscribe()  # before connecting, which fetches the metadata that a group leader needs
                self._client = self._net.run(self._connect)
                config["api_version"] = self._shared.manager.broker_version
                self._coordinator = self._make_coordinator(self._client, config)
            except Exception:
                self._release()
                raise
        self._coordinator.wake = wake
        io.members.add(self)

    def _make_coordinator(self, client: MemberClient, config: Mapping[str, Any]) -> _Coordinator:
        settings = self._settings
        try:
            made = _Coordinator(client, self._subscription, metrics=None, assignors=settings.assignors, **config)
            made.heartbeat = _Heartbeat(self._io, settles=settings.expects_others, **made.config)
        except protocol.KafkaConfigurationError as error:
            raise ConfigError(f"the consumer's settings (consumer.override.*) do not fit together: {error}") from error
        return made

    async def _connect(self) -> MemberClient:
        await self._shared.connect(self._topics, _BOOTSTRAP_TIMEOUT_MS)
        return MemberClient(self._shared, self._net, self._topics, self._settings.client_id)

    def _subscribe(self) -> None:
        listener = _Listener(self._note_change)
        if self._pattern is not None:
            subscribe_to_pattern(self._subscription, self._pattern, listener)
            self._topics.set_topics([])
        else:
            self._subscription.subscribe(topics=list(self._settings.topics), listener=listener)
            self._topics.set_topics(self._subscription.group_subscription())

    def _note_change(self) -> None:
        self._changed = True

    @property
    def _was_suspended(self) -> bool:
        """Whether this process was suspended for so long that the group may have removed the member."""
        return self._pulse.longest_gap_since(self._joined_at) * 1000 > self._settings.session_timeout_ms

    def poll(self, timeout_ms: int, leaving: Callable[[], None] = lambda: None) -> bool:
        """Joins or rejoins the group if necessary, and returns whether this is a valid member. Call it at least every
        `max_poll_interval_ms`; it is cheap if there is nothing to do.

        `leaving` is called before a join. At that time `generation` and `commit` still use the previous membership,
        unless it is lost.
        """
        coordinator = self._coordinator
        if self._was_suspended and not coordinator.need_rejoin():
            coordinator.request_rejoin()
        begun = time.monotonic()
        try:
            if self.stays():
                return True
            if self._pattern is not None:
                self._pattern.check()
            if coordinator.refused:
                raise protocol.TopicAuthorizationFailedError(", ".join(sorted(coordinator.refused)))
            leaving()
            joined = bool(coordinator.poll(timeout_ms=timeout_ms)) and coordinator.stable()
        except protocol.KafkaError as error:
            group, session = self._settings.group_id, self._settings.session_timeout_ms
            why = join_refusal(error, group, session, _SESSION_KEY)
            raise translated(error, f"joining the consumer group {group}", why) from error
        if joined:
            self._joined_at, self._is_settled = begun, False
        return joined

    def stays(self) -> bool:
        """Does the same as `poll` if there is nothing to do, or returns False. Another thread may commit meanwhile."""
        member = self._coordinator
        if self._was_suspended or (self._pattern is not None and self._pattern.too_slow is not None):
            return False
        if not member.stable() or member.refused or member.need_rejoin():
            return False
        try:
            member.poll_heartbeat()
        except protocol.KafkaError:  # there are no more heartbeats; a join starts them again
            member.request_rejoin()
            return False
        self._rest()
        return True

    def _rest(self) -> None:
        """Closes the connection for joins when no more members are expected to join soon."""
        if self._client is not None and not self._is_settled and time.monotonic() - self._joined_at > SETTLED_S:
            self._is_settled = True
            self._net.call_soon_threadsafe(self._client.disconnect)

    def take_change(self) -> bool:
        """Returns whether partitions have been assigned or revoked since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def generation(self) -> tuple[int, str] | None:
        """Returns the group's generation and this member's id, or None while this is not a member."""
        generation = self._coordinator.generation_if_stable()
        return None if generation is None or self._was_suspended else (generation.generation_id, generation.member_id)

    def assignment(self) -> frozenset[TopicPartition]:
        """Returns the partitions of this member."""
        return frozenset((tp.topic, tp.partition) for tp in self._subscription.assigned_partitions())

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the group's committed offsets. Partitions without one are missing."""
        return {partition: item.offset for partition, item in self._committed(partitions).items()}

    def committed_with_metadata(self, partition: TopicPartition) -> tuple[int, str] | None:
        """Returns the committed offset and metadata of a partition, or None if there is none. The partition need not be
        assigned to this member.
        """
        item = self._committed([partition]).get(partition)
        return None if item is None else (item.offset, item.metadata or "")

    def committed_metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Returns the metadata of the group's committed offsets. Partitions without an offset are missing."""
        return {partition: item.metadata or "" for partition, item in self._committed(partitions).items()}

    def _committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = [KafkaTopicPartition(*tp) for tp in partitions]
        with translating(f"reading the offsets of consumer group {self._settings.group_id}", _NEEDS):
            found = self._coordinator.fetch_committed_offsets(wanted, timeout_ms=_FETCH_TIMEOUT_MS)
        return {(tp.topic, tp.partition): item for tp, item in found.items() if item.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int = 5_000, metadata: str = "") -> None:
        """Commits offsets, with metadata. Raises NotAMemberError if this is no longer a member of the current
        generation.
        """
        committed = self.begin_commit(offsets, timeout_ms, dict.fromkeys(offsets, metadata))
        if not ended(committed, timeout_ms / 1000 + _SLACK_S):
            raise KafkaUnavailableError("no response to a commit of offsets")
        committed.result()

    def begin_commit(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int, metadata: Mapping[TopicPartition, str]
    ) -> Future[None]:
        """Commits without waiting. If the commit fails, `wake` is called. Wait for the future before the next join: a
        commit is sent with the generation at that time, which may be a later one.
        """
        wanted = {KafkaTopicPartition(*tp): OffsetAndMetadata(offset, metadata.get(tp, ""), -1)
                  for tp, offset in offsets.items()}
        committed: Future[None] = Future()

        async def commit() -> None:
            try:
                await self._coordinator._commit_offsets_sync_async(wanted, timeout_ms)  # noqa: SLF001
            except BaseException as error:  # includes the cancellation when the IO thread ends
                fail(committed, self._commit_error(error))
                self._coordinator.wake()
                if not isinstance(error, Exception):
                    raise
            else:
                complete(committed, None)

        self._net.call_soon_threadsafe(commit)
        return committed

    def _commit_error(self, error: BaseException) -> BaseException:
        if isinstance(error, NOT_A_MEMBER):
            self._coordinator.request_rejoin()
        if isinstance(error, (protocol.KafkaError, OSError)):
            return translated(error, f"committing offsets of consumer group {self._settings.group_id}", needs=_NEEDS)
        return error if isinstance(error, Exception) else ConnectError("the worker is stopping")

    def close(self) -> None:
        """Leaves the group, so that other members take over at once, and closes the connections."""
        self._coordinator.wake = lambda: None
        self._coordinator.leaving = True
        self._io.members.discard(self)
        try:
            self._leave()
        except RuntimeError:
            if not self._io.closed:  # otherwise the worker has stopped without waiting for this task
                raise

    def _leave(self) -> None:
        try:
            self._coordinator.close(autocommit=False, timeout_ms=_CLOSE_TIMEOUT_MS)
        except (protocol.KafkaError, OSError) as error:
            _logger.warning("Leaving consumer group %s failed: %s", self._settings.group_id, error)
        finally:
            self._release()

    def _release(self) -> None:
        if self._client is not None:
            self._net.call_soon_threadsafe(self._client.end)
        self._io.release(self._shared, self._topics)
