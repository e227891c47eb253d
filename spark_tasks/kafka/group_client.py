"""Metadata and connections that the group members of a worker share.

With hundreds of small sink tasks, a separate client for each would cost more than all their other work: each would find
the brokers, request metadata, and wake the IO thread for each heartbeat. Only JoinGroup and SyncGroup requests use a
connection of the member's own: a broker handles the requests of a connection one by one, and a JoinGroup waits for the
other members.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

import kafka.errors as protocol
from kafka.cluster import ClusterMetadata
from kafka.consumer.subscription_state import SubscriptionState
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest
from kafka.util import ensure_valid_topic_name
from typing_extensions import override

from spark_tasks.errors import ConfigError
from spark_tasks.java.bounded_match import TOO_SLOW
from spark_tasks.kafka.connections import UNBOUNDED_IN_FLIGHT, Loop, Manager

_METADATA_BACKOFF_MS: Final = 1_000  # the metadata of a missing topic is requested until the topic exists
_PATTERN_BACKOFF_MS: Final = 100  # shorter, as each join first waits for the names of all topics
_MATCH_S: Final = 0.1  # the longest time for matching the name of a topic
_MATCHES_S: Final = 2.0  # the longest time for all topics, in addition to the usual time
_USUAL_MATCH_S: Final = 0.001
_MAX_MATCHES: Final = 10_000
_REBOOTSTRAP_S: Final = 10.0  # how often to ask the bootstrap servers while no broker is connected


class _Metadata(ClusterMetadata):  # type: ignore[misc]
    """The metadata of the topics of all members."""

    def __init__(self, net: Loop, *, every_topic: bool, **configs: Any) -> None:
        super().__init__(**configs)
        self.net = net
        self.config["retry_backoff_ms"] = _PATTERN_BACKOFF_MS if every_topic else _METADATA_BACKOFF_MS
        self.need_all_topic_metadata = every_topic
        self._wanted: dict[object, frozenset[str]] = {}
        self._wanted_lock = threading.Lock()
        self._requested: set[str] = set()
        self._failed = False
        self.covered: frozenset[str] = frozenset()  # topics with metadata or an error in the last response

    def set_topics_of(self, member: object, topics: Collection[str]) -> Future:
        """Replaces the topics of one member. The future completes when there is metadata for them."""
        for topic in topics:
            ensure_valid_topic_name(topic)
        with self._wanted_lock:
            self._wanted[member] = frozenset(topics)
            self._topics = set().union(*self._wanted.values())
        return Future().success(self) if self.covered.issuperset(topics) else self.request_update()

    def release(self, member: object) -> bool:
        """Removes a member. Returns whether it was the last one."""
        with self._wanted_lock:
            self._wanted.pop(member, None)
            self._topics = set().union(*self._wanted.values())
            return not self._wanted

    @override
    def metadata_request(self) -> Any:
        self._requested = set(self._topics)
        return super().metadata_request()

    @override
    def update_metadata(self, metadata: Any) -> None:
        if metadata.brokers:
            self._failed = False
            self.covered = frozenset(self._requested)
        super().update_metadata(metadata)

    @override
    def add_coordinator(self, *arguments: Any, **keywords: Any) -> Any:
        node = super().add_coordinator(*arguments, **keywords)
        self._coordinators.clear()  # the library would keep each group for good, and nothing reads it
        return node

    @override
    def failed_update(self, exception: Any) -> None:
        self._failed = True
        super().failed_update(exception)

    @override
    def ttl(self) -> float:
        """Returns the milliseconds until the next request: 0 if a topic was added while the last one was in flight."""
        left: float = super().ttl()
        return left if self._failed or self.covered.issuperset(self._topics) else 0


class Topics:
    """One member's view of the shared metadata, with the member's own topics. The member counts from the construction
    until `GroupIo.release`.
    """

    def __init__(self, metadata: _Metadata) -> None:
        self._metadata = metadata
        self.set_topics(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metadata, name)

    @property
    def unauthorized_topics(self) -> frozenset[str]:
        """Topics that this member may not read."""
        refused: set[str] = self._metadata.unauthorized_topics
        return self.wanted & refused

    @property
    def is_covered(self) -> bool:
        """Whether a response has covered all of its topics."""
        return bool(self._metadata.need_all_topic_metadata or self._metadata.covered.issuperset(self.wanted))

    def set_topics(self, topics: Collection[str]) -> Future:
        """Sets the member's topics, as kafka-python's ClusterMetadata.set_topics."""
        self.wanted: frozenset[str] = frozenset(topics)
        return self._metadata.set_topics_of(self, topics)

    def add_listener(self, listener: Any) -> None:
        """Adds a listener, on the IO thread, which also calls it."""
        self._metadata.net.call_soon_threadsafe(lambda: self._metadata.add_listener(listener))

    def remove_listener(self, listener: Any) -> None:
        """Removes a listener, on the IO thread."""
        self._metadata.net.call_soon_threadsafe(lambda: self._metadata.remove_listener(listener))


class GroupClient:
    """The metadata and connections that members with the same settings share."""

    def __init__(self, net: Loop, settings: Mapping[str, Any], *, every_topic: bool, create_topics: bool) -> None:
        self.settings = {"client_id": "connector-consumers", **settings}
        self.metadata = _Metadata(
            net, every_topic=every_topic, **{**settings, "allow_auto_create_topics": create_topics})
        self._net = net
        self._manager: Manager | None = None
        self._bootstrapped_at = float("-inf")

    async def connect(self, topics: Topics, timeout_ms: float) -> None:
        """Finds the brokers and waits for the metadata of a member's topics. On the IO thread. Raises KafkaError,
        OSError.
        """
        manager, deadline = self.manager, time.monotonic() + timeout_ms / 1000
        if not manager.bootstrapped or self._is_disconnected(manager):
            self._bootstrapped_at = time.monotonic()
            await manager.wait_for(manager.bootstrap_async(timeout_ms), timeout_ms)
        while not topics.is_covered:
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                raise protocol.KafkaTimeoutError("no broker responds")
            try:
                await manager.wait_for(self.metadata.request_update(), left_ms)
            except protocol.KafkaError:
                if not topics.is_covered:  # otherwise it is an error of a topic, which may not exist yet
                    raise

    @property
    def manager(self) -> Manager:
        """The shared connections. On the IO thread."""
        if self._manager is None:
            settings = {**self.settings, "max_in_flight_requests_per_connection": UNBOUNDED_IN_FLIGHT}
            self._manager = Manager(self._net, **settings)
            self._manager.cluster = self.metadata
            self.metadata.attach(self._manager)
        return self._manager

    def _is_disconnected(self, manager: Manager) -> bool:
        """Returns whether no known broker is connected, so that the bootstrap servers should be asked (KIP-899)."""
        connected = any(connection.connected for connection in manager._conns.values())  # noqa: SLF001
        return not connected and time.monotonic() - self._bootstrapped_at > _REBOOTSTRAP_S

    def close(self) -> None:
        """Closes the connections. On the IO thread."""
        if self._manager is not None:
            self._manager.close()


class MemberClient(KafkaNetClient):  # type: ignore[misc]
    """The client that kafka-python's coordinator of a member uses. `client_id`: the member's client id in the group; ""
    means that of the settings. Create it on the IO thread.
    """

    def __init__(self, shared: GroupClient, net: Loop, topics: Topics, client_id: str) -> None:
        self.topics = topics
        own = {**shared.settings, "client_id": client_id} if client_id else shared.settings
        self._own = Manager(net, **own)
        super().__init__(net=net, manager=_MemberManager(shared.manager, self._own, self.topics))

    def disconnect(self) -> None:
        """Closes the member's own connection until the next join. On the IO thread."""
        for connection in list(self._own._conns.values()):  # noqa: SLF001
            connection.close()

    def end(self) -> None:
        """Closes the member's own connection for good. On the IO thread."""
        self._own.close()


class _MemberManager:
    """Sends requests that wait for other members over the member's own connection, all others over the shared one."""

    def __init__(self, shared: Manager, own: Manager, topics: Topics) -> None:
        self._shared = shared
        self._own = own
        self.cluster = topics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None) -> Future:
        """Sends a request; see the class."""
        if not isinstance(request, JoinGroupRequest | SyncGroupRequest):
            return self._shared.send(request, node_id, request_timeout_ms)
        own = self._own
        if own.closed:
            return Future().failure(protocol.KafkaConnectionError("the member has left"))
        own.broker_version_data = self._shared.broker_version_data
        own.cluster._coordinator_brokers[node_id] = self._shared.cluster.broker_metadata(node_id)  # noqa: SLF001
        try:  # without a metadata request: the shared client has the metadata
            own.get_connection(node_id, refresh_metadata_on_err=False)
        except protocol.NodeNotReadyError as error:
            return Future().failure(error)
        return own.send(request, node_id, request_timeout_ms)


class TopicPattern:
    """The topics whose whole name matches a regular expression.

    It is matched on the thread that all members share. If that takes too long, as with nested repetitions, no other
    topic is tried, and `too_slow` is the topic that it was matched with.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern: Any = pattern  # of the library `regex`, whose methods have timeouts
        self._left_s = _MATCHES_S
        self._known = lru_cache(_MAX_MATCHES)(self._matches)
        self.too_slow: str | None = None

    def match(self, topic: str) -> bool:
        """Returns whether the topic matches; the method that kafka-python calls."""
        return self.too_slow is None and self._known(topic)

    def check(self) -> None:
        """Raises ConfigError if no more topics are tried."""
        if self.too_slow is not None:
            raise ConfigError(f"with the topic {self.too_slow}, topics.regex {TOO_SLOW}, or set topics")

    def _matches(self, topic: str) -> bool:
        begun = time.monotonic()
        try:
            return self._pattern.fullmatch(topic, timeout=_MATCH_S) is not None
        except TimeoutError:
            self.too_slow = topic
            return False
        finally:
            self._left_s += _USUAL_MATCH_S - (time.monotonic() - begun)
            if self._left_s < 0:
                self.too_slow = topic


def subscribe_to_pattern(subscription: SubscriptionState, pattern: TopicPattern, listener: Any) -> None:
    """Subscribes to the topics that match. kafka-python compiles a text, with Python's syntax."""
    subscription.subscribe(pattern=".", listener=listener)
    subscription.subscribed_pattern = pattern
