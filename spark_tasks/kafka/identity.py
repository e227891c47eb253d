"""Who appends: the producer id and epoch that a broker checks sequences and fencing by (KIP-98)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Given out by `KafkaCluster.init_producer_id`, once by the owner; whoever appends for the owner gets a copy."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
