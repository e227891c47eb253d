"""The IO thread that all group consumers of a worker share, and their clients."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakSet

import kafka.errors as protocol

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.connections import Loop
from spark_tasks.kafka.group_client import GroupClient, Topics
from spark_tasks.kafka.shared_clusters import settings_key

_logger = logging.getLogger(__name__)

_STOP_TIMEOUT_MS: Final = 3_000  # for the thread, which may have a step to end
COMMIT_PAUSE_S: Final = 0.5  # bounds what a crash repeats
COMMITS_PER_S: Final = 100.0
HEARTBEATS_PER_S: Final = 100.0


class _Net(Loop):
    """Ends although clients are open: their metadata loops would repeat for ever what a closed selector refuses, and
    `close` would wait for them.
    """

    def end(self, timeout_ms: int) -> bool:
        """Whoever waits, or comes later, gets an error. False if the thread did not end in time."""
        thread, self._stop = self._io_thread, True
        self.wakeup()
        thread.join(timeout_ms / 1000)
        if thread.is_alive():
            return False
        self._closed = True
        for task in list(self._pending_tasks):
            self.cancel(task)
        self._fail_pending_waiters(protocol.KafkaConnectionError("the worker is stopping"))
        for end in (self._wakeup_r, self._wakeup_w, self._selector):
            end.close()
        return True


class GroupIo:
    """The IO thread that all group consumers of a worker share; starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._net: _Net | None = None
        self._closed = False
        self._clients: dict[tuple[object, ...], GroupClient] = {}
        self.members: WeakSet[Any] = WeakSet()

    def net(self) -> Loop:
        """The running IO loop. ConnectError after `close`."""
        with self._lock:
            if self._closed:
                raise ConnectError("the worker is stopping")
            if self._net is None:
                self._net = _Net(client_id="heeler-sinks", slow_task_threshold_secs=1.0)
                self._net.start()
            return self._net

    def client(
        self, settings: Mapping[str, Any], *, every_topic: bool, create_topics: bool
    ) -> tuple[GroupClient, Topics]:
        """What members with these settings share, and the view of the new one, which has to be released. `every_topic`:
        members that subscribe to a pattern need the names of all topics.
        """
        net, key = self.net(), (settings_key(settings), every_topic, create_topics)
        with self._lock:
            found = self._clients.get(key)
            if found is None:
                found = GroupClient(net, settings, every_topic=every_topic, create_topics=create_topics)
                self._clients[key] = found
            return found, Topics(found.metadata)

    def release(self, client: GroupClient, member: Topics) -> None:
        """A member has left; with the last one the connections are closed."""
        with self._lock:
            if not client.metadata.release(member):
                return
            self._clients = {key: one for key, one in self._clients.items() if one is not client}
            net = self._net
        if net is not None:
            net.call_soon_threadsafe(client.close)

    @property
    def heartbeat_pause_s(self) -> float:
        """How long a member should wait between two heartbeats at least, for the same reason as `commit_pause_s`."""
        return len(self.members) / HEARTBEATS_PER_S

    @property
    def commit_pause_s(self) -> float:
        """How long a member should wait between two commits, so that the thread has time for joins and heartbeats: all
        members together commit COMMITS_PER_S times a second at most, one alone every COMMIT_PAUSE_S.
        """
        return max(COMMIT_PAUSE_S, len(self.members) / COMMITS_PER_S)

    @property
    def closed(self) -> bool:
        """Whether the thread was ended; consumers cannot do anything any more."""
        return self._closed

    def close(self) -> None:
        """End the thread. Consumers that are open still, of tasks that did not stop in time, are cut off: the group
        notices when their sessions end.
        """
        with self._lock:
            net, self._net, self._closed = self._net, None, True
        if net is None:
            return
        if not net.end(_STOP_TIMEOUT_MS):
            _logger.warning("The IO thread of the sinks' consumer groups did not end within %d ms", _STOP_TIMEOUT_MS)
