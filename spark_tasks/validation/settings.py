"""The worker's settings that the validation of connectors needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_tasks.config.client_properties import WorkerClients


@dataclass(frozen=True, slots=True)
class ValidationSettings:
    """`group_id`: None if it is not known, in a trial. `internal_topics`: the topics in which the group keeps its
    state. `exactly_once`: exactly.once.source.support is enabled (KIP-618). `on_cluster`: executors run on other
    machines. `clients`, `converters`: as in the WorkerSettings of tasks.
    """

    group_id: str | None = None
    internal_topics: frozenset[str] = frozenset()
    exactly_once: bool = False
    on_cluster: bool = False
    clients: WorkerClients = field(default_factory=WorkerClients)
    converters: Mapping[str, str] = field(default_factory=dict)
