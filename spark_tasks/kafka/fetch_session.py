"""An incremental fetch session with one broker (KIP-227): after the first request, only changes are sent.

The broker remembers partitions and offsets, and its response has only partitions with something new. If the broker
creates no session (it keeps at most max.incremental.fetch.session.cache.slots, by default 1000), every request has all
partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import kafka.errors as protocol
from kafka.protocol.consumer import FetchRequest

TopicPartition = tuple[str, int]
_NO_SESSION, _INITIAL_EPOCH = 0, 0  # the session id and epoch of a request for a new session
MAX_EPOCH: Final = 2**31 - 1
_LOST: Final = frozenset({protocol.FetchSessionIdNotFoundError.errno, protocol.InvalidFetchSessionEpochError.errno})
_Partition = FetchRequest.FetchTopic.FetchPartition


class FetchSession:
    """The client's side of a session. Call `request`, then `handle_response`, or `handle_error` if there was no
    response. Only one request may be in flight.
    """

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._sent: dict[TopicPartition, int] = {}
        self._parts: dict[TopicPartition, Any] = {}  # of requests, to be used again: it takes long to create hundreds

    def request(
        self, positions: Mapping[TopicPartition, int], *, max_wait_ms: int, max_bytes: int, partition_bytes: int
    ) -> FetchRequest:
        """Returns the request for these partitions and offsets. `max_bytes` limits the response, `partition_bytes` the
        records of each partition in it.
        """
        full = self._epoch == _INITIAL_EPOCH
        changed = {tp: at for tp, at in positions.items() if full or self._sent.get(tp) != at}
        gone = () if full else [tp for tp in self._sent if tp not in positions]
        self._sent = dict(positions)
        for tp in self._parts.keys() - positions.keys():
            del self._parts[tp]
        topics: dict[str, list[Any]] = defaultdict(list)
        for tp, offset in changed.items():
            part = self._parts.get(tp)
            if part is None:
                part = self._parts[tp] = _Partition(
                    partition=tp[1], current_leader_epoch=-1, last_fetched_epoch=-1)
            part.fetch_offset, part.partition_max_bytes = offset, partition_bytes
            topics[tp[0]].append(part)
        forgotten: dict[str, list[int]] = defaultdict(list)
        for topic, partition in gone:
            forgotten[topic].append(partition)
        return FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=0,
            session_id=self._id, session_epoch=self._epoch,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=parts) for topic, parts in topics.items()],
            forgotten_topics_data=[FetchRequest.ForgottenTopic(topic=topic, partitions=parts)
                                   for topic, parts in forgotten.items()],
            rack_id="", min_version=4, max_version=12,
        )

    def handle_response(self, error_code: int, session_id: int) -> bool:
        """Processes the error code and session id of a response. Returns False if the broker no longer has the session
        (it was restarted, or has evicted the session); the next request then asks for a new one.
        """
        if error_code:
            self.handle_error()
            if error_code == protocol.FetchSessionIdNotFoundError.errno:
                self._id = _NO_SESSION
            return error_code not in _LOST
        self._id = session_id
        if session_id == _NO_SESSION:
            self._epoch = _INITIAL_EPOCH
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return True

    def handle_error(self) -> None:
        """Makes the next request end this session and ask for a new one: it is unknown what the broker has received."""
        self._epoch = _INITIAL_EPOCH
        self._parts = {}  # a lost request may still have them
