"""The producer id and epoch with which brokers check sequence numbers and fence producers (KIP-98)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The result of `KafkaCluster.init_producer_id`. Executors that append for its owner get a copy."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
