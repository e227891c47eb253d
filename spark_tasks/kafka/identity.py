"""The producer id and epoch by which a broker checks sequence numbers and fences producers (KIP-98)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Obtained by the owner from `KafkaCluster.init_producer_id`; executors that append for the owner get a copy."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
