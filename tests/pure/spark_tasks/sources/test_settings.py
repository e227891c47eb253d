"""What source tasks take from the configurations of worker and connector."""

from __future__ import annotations

import pytest

from spark_tasks.errors import ConfigError
from spark_tasks.sources.boundaries import BoundaryKind
from spark_tasks.sources.settings import SourceSettings
from tests.rigs.exactly_once_tasks import Guard
from tests.rigs.tasks import context_with

CREATION = {"topic.creation.default.partitions": "5", "topic.creation.default.replication.factor": "3"}


def test_topics_are_created_unless_the_worker_forbids_it() -> None:
    dotted = {key.replace(".", "_"): value for key, value in CREATION.items()}
    allowed, forbidden = context_with(**dotted), context_with({"topic.creation.enable": "false"}, **dotted)
    assert SourceSettings.of(allowed).topics is not None
    assert SourceSettings.of(forbidden).topics is None


def test_a_source_with_a_guard_has_transactions() -> None:
    assert SourceSettings.of(context_with()).transactions is None
    found = SourceSettings.of(
        context_with({"offset.flush.interval.ms": "2000"}, Guard(), transaction_boundary="interval"))
    assert found.transactions is not None
    assert found.transactions.transactional_id == "group-c-1"
    assert (found.transactions.boundary.kind, found.transactions.boundary.interval_ms) == (BoundaryKind.INTERVAL, 2000)
    with pytest.raises(ConfigError, match="Invalid value 1 for configuration acks: exactly-once delivery requires all"):
        SourceSettings.of(context_with(None, Guard(), producer_override_acks="1"))
