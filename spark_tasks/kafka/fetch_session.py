"""An incremental fetch session with one broker (KIP-227): after the first request, only changes are sent. Pure.

The broker remembers partitions and positions, and its response has only partitions with something new. If the broker
grants no session (it keeps a thousand), every request is a full one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import kafka.errors as protocol
from kafka.protocol.consumer import FetchRequest

TopicPartition = tuple[str, int]
_NONE, _FIRST = 0, 0  # session id and epoch of a request that asks for a session
LAST_EPOCH: Final = 2**31 - 1
_GONE: Final = frozenset({protocol.FetchSessionIdNotFoundError.errno, protocol.InvalidFetchSessionEpochError.errno})
_Partition = FetchRequest.FetchTopic.FetchPartition


class FetchSession:
    """Call `request`, then `answered`, or `lost` if no response came. One request at a time."""

    def __init__(self) -> None:
        self._id = _NONE
        self._epoch = _FIRST
        self._sent: dict[TopicPartition, int] = {}

    def request(
        self, positions: Mapping[TopicPartition, int], *, max_wait_ms: int, max_bytes: int, partition_bytes: int
    ) -> FetchRequest:
        """The request for these partitions and offsets, with limits on the bytes in total and for each partition."""
        full = self._epoch == _FIRST
        changed = {tp: at for tp, at in positions.items() if full or self._sent.get(tp) != at}
        gone = () if full else [tp for tp in self._sent if tp not in positions]
        self._sent = dict(positions)
        topics: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), offset in changed.items():
            topics[topic].append(_Partition(
                partition=partition, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
                partition_max_bytes=partition_bytes,
            ))
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

    def answered(self, error_code: int, session_id: int) -> bool:
        """Take the header of a response. False: the broker no longer has the session (it was restarted, or evicted the
        session), and the next request asks for a new one.
        """
        if error_code:
            self.lost()
            if error_code == protocol.FetchSessionIdNotFoundError.errno:
                self._id = _NONE
            return error_code not in _GONE
        self._id = session_id
        self._epoch = _FIRST if session_id == _NONE else 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        return True

    def lost(self) -> None:
        """It is unknown what the broker has received: the next request ends this session and asks for a new one."""
        self._epoch = _FIRST
