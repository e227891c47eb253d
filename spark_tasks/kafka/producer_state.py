"""What a partition's leader knows of a producer (KIP-664)."""

from __future__ import annotations

from typing import Final

import kafka.errors as protocol
from kafka.protocol.admin import DescribeProducersRequest

from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.identity import ProducerIdentity

_SEQUENCES: Final = 1 << 31  # sequence numbers start again at 0


async def has_appended(
    cluster: KafkaCluster, node: int, partition: TopicPartition, producer: ProducerIdentity, sequence: int,
) -> bool:  # fmt: skip
    """Asks the leader whether it has appended a producer's record with this sequence number, or a later one. Raises
    the leader's error.

    A leader rejects a batch that it has already appended as out of order if it has forgotten it: in memory, it knows a
    producer's last five batches, but after a restart only the last one.
    """
    topic, number = partition
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[number])
    response = await cluster.io.send(DescribeProducersRequest(topics=[asked]), node, lane="producers")
    [found] = [part for one in response.topics for part in one.partitions]
    if found.error_code:
        raise protocol.for_code(found.error_code)(f"{topic}-{number}")
    return any(
        (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)
        and state.last_sequence >= 0
        and (state.last_sequence - sequence) % _SEQUENCES < _SEQUENCES // 2
        for state in found.active_producers
    )
