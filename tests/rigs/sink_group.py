"""A member of a consumer group, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future

from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import NotAMemberError


class MemberInMemory:
    """`stored`: the committed offsets with their metadata. `requests`: how often metadata were requested.
    `current`: the generation. `refuses`: whether the coordinator refuses commits.
    """

    def __init__(self, *assigned: TopicPartition) -> None:
        self.stored: dict[TopicPartition, tuple[int, str]] = {}
        self.requests = 0
        self.current: tuple[int, str] | None = (3, "member")
        self.refuses = False
        self._assigned = frozenset(assigned)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._assigned

    def generation(self) -> tuple[int, str] | None:
        return self.current

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.stored[tp][0] for tp in partitions if tp in self.stored}

    def committed_metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        self.requests += 1
        return {tp: self.stored[tp][1] for tp in partitions if tp in self.stored}

    def commit(self, offsets: Mapping[TopicPartition, int], _timeout_ms: int, text: str) -> None:
        self.stored |= {partition: (offset, text) for partition, offset in offsets.items()}

    def begin_commit(
        self, offsets: Mapping[TopicPartition, int], _timeout_ms: int, texts: Mapping[TopicPartition, str]
    ) -> Future[None]:
        response: Future[None] = Future()
        if self.refuses:
            response.set_exception(NotAMemberError("another generation"))
        else:
            self.stored |= {partition: (offset, texts.get(partition, "")) for partition, offset in offsets.items()}
            response.set_result(None)
        return response
