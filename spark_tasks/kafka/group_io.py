"""The IO thread that all group members of a worker's sink tasks share, and their clients."""

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

_STOP_TIMEOUT_MS: Final = 3_000  # for the thread, which may be in the middle of a step
COMMIT_PAUSE_S: Final = 0.5  # limits the work that is repeated after a crash
COMMITS_PER_S: Final = 40.0
HEARTBEATS_PER_S: Final = 100.0


class _Net(Loop):
    """A loop that can end while clients are open. The library's `close` would wait for their metadata requests, which
    would be retried forever on the closed selector.
    """

    def end(self, timeout_ms: int) -> bool:
        """Ends the thread. Callers that wait, and later calls, get an error. Returns False if the thread has not ended
        within the timeout.
        """
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
    """The shared IO thread, which starts with the first member."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._net: _Net | None = None
        self._closed = False
        self._clients: dict[tuple[object, ...], GroupClient] = {}
        self.members: WeakSet[Any] = WeakSet()

    def net(self) -> Loop:
        """Returns the running loop. Raises ConnectError after `close`."""
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
        """Returns the client that members with these settings share, and the metadata view of a new member, which the
        caller has to `release`. `every_topic`: the member subscribes to a pattern and needs the names of all topics.
        """
        net, key = self.net(), (settings_key(settings), every_topic, create_topics)
        with self._lock:
            client = self._clients.get(key)
            if client is None:
                client = GroupClient(net, settings, every_topic=every_topic, create_topics=create_topics)
                self._clients[key] = client
            return client, Topics(client.metadata)

    def release(self, client: GroupClient, member: Topics) -> None:
        """Removes a member that has left. Closes the connections after the last one."""
        with self._lock:
            if not client.metadata.release(member):
                return
            self._clients = {key: one for key, one in self._clients.items() if one is not client}
            net = self._net
        if net is not None:
            net.call_soon_threadsafe(client.close)

    @property
    def heartbeat_pause_s(self) -> float:
        """The minimum time between two heartbeats of a member. Limits the thread's load, as `commit_pause_s`."""
        return len(self.members) / HEARTBEATS_PER_S

    @property
    def commit_pause_s(self) -> float:
        """The minimum time between two commits of a member: COMMIT_PAUSE_S, or more with many members, since all of
        them together commit at most COMMITS_PER_S times a second. This leaves the thread time for joins and heartbeats.
        """
        return max(COMMIT_PAUSE_S, len(self.members) / COMMITS_PER_S)

    @property
    def closed(self) -> bool:
        """Whether the thread has been ended. Members can then no longer be used."""
        return self._closed

    def close(self) -> None:
        """Ends the thread. Members of tasks that did not stop in time do not leave their group; the group removes them
        when their sessions time out.
        """
        with self._lock:
            net, self._net, self._closed = self._net, None, True
        if net is None:
            return
        if not net.end(_STOP_TIMEOUT_MS):
            _logger.warning("The IO thread of the sinks' consumer groups did not end within %d ms", _STOP_TIMEOUT_MS)
