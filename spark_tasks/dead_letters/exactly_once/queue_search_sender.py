"""Writes each dead letter once, if letters name their records in their context headers: searches the queue for those
that earlier attempts have written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.plans import QueueEnds, QueueSearchPlan, QueueSearchResult
from spark_tasks.dead_letters.exactly_once.sender import ExactlyOnceSender
from spark_tasks.dead_letters.letters import DeadLetters
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import OffsetOutOfRangeError
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.shared_clusters import shared_cluster

_SEARCH_MS: Final = 20_000  # without progress; then the batch is repeated


class QueueSearchSender(ExactlyOnceSender):
    """Searches the queue from the ends in the plan to its current ends."""

    def __init__(self, handling: ErrorHandling, place: TopicPartition, plan: QueueSearchPlan) -> None:
        super().__init__(handling, place, plan.transactional_id)
        self._since = plan.since

    @override
    def _search(self, cluster: KafkaCluster) -> bool:
        ends = _ends(cluster, self._handling.queue)
        found = already_written(cluster, self._handling, self._place, self._since, ends)
        self._found, self.known = found, QueueSearchResult(ends, max(found, default=-1))
        return True


def queue_ends(handling: ErrorHandling) -> QueueEnds:
    """Returns the current ends of the queue. Raises ConnectErrors of Kafka."""
    return _ends(shared_cluster(handling.client), handling.queue)


def _ends(cluster: KafkaCluster, queue: str) -> QueueEnds:
    partitions = [(queue, number) for number in cluster.partitions(queue)]
    ends = cluster.offsets(partitions, "latest")
    return tuple(ends[partition] for partition in partitions)


def already_written(
    cluster: KafkaCluster, handling: ErrorHandling, place: TopicPartition, since: QueueEnds, ends: QueueEnds
) -> set[int]:
    """Returns the offsets of the partition's records that have a letter between `since` and `ends`."""
    topic, partition = place
    offsets_with_letter = set[int]()
    for number, end in enumerate(ends):
        start = since[number] if number < len(since) else 0  # the queue has got more partitions
        for raw in _read(cluster, handling.queue, number, start, end):
            letters = DeadLetters.of(raw)
            matches = pc.and_(pc.equal(letters.connector, handling.connector), pc.equal(letters.topic, topic))
            matches = pc.and_(matches, pc.equal(letters.partition, partition))
            matches = pc.and_(matches, pc.is_valid(letters.offset))
            offsets_with_letter.update(letters.offset.filter(pc.fill_null(matches, False)).to_pylist())
    return offsets_with_letter


def _read(cluster: KafkaCluster, queue: str, number: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yields committed letters only: the transaction of an earlier attempt has ended. Waits for those of others."""
    try:
        yield from read_range(cluster, queue, number, start, end, isolation="read_committed", timeout_ms=_SEARCH_MS)
    except OffsetOutOfRangeError as error:
        if error.log_start <= start:
            raise
        yield from _read(cluster, queue, number, error.log_start, end)  # the queue's retention
