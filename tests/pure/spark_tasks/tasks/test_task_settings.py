"""What tasks take from the configurations of worker and connector, each parsed once."""

from __future__ import annotations

from typing import Any

import pytest

from spark_tasks.errors import ConfigError
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sources.boundaries import BoundaryKind
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.task import StartGuard, TaskContext
from tests.rigs.exactly_once_tasks import Guard
from tests.rigs.tasks import worker_settings

CREATION = {"topic.creation.default.partitions": "5", "topic.creation.default.replication.factor": "3"}


def context(
    worker: dict[str, str] | None = None, guard: StartGuard | None = None, **connector: str
) -> TaskContext:
    engine: Any = None
    named = {key.replace("_", "."): value for key, value in connector.items()}
    return TaskContext(
        connector_name="c", task=1, worker=worker_settings(worker or {}), connector=named, config=named, engine=engine,
        offsets=None, wake=lambda: None, topic_used=lambda _: None, guard=guard)


def test_worker_settings_for_tasks_are_parsed() -> None:
    found = worker_settings({
        "session.timeout.ms": "7000", "offset.flush.interval.ms": "2000", "heeler.max.record.bytes": "20000",
        "topic.creation.enable": "FALSE", "consumer.fetch.min.bytes": "2", "ssl.truststore.type": "PEM",
        "value.converter": "x.Y", "value.converter.schemas.enable": "false", "rest.port": "1"})
    assert (found.group_id, found.session_timeout_ms, found.offset_flush_interval_ms) == ("group", 7000, 2000)
    assert (found.max_record_bytes, found.topic_creation) == (20_000, False)
    assert found.clients == {
        "bootstrap.servers": "localhost:9", "consumer.fetch.min.bytes": "2", "ssl.truststore.type": "PEM"}
    assert found.converters == {
        "key.converter": "none", "value.converter": "x.Y", "value.converter.schemas.enable": "false"}


def test_sink_settings_of_the_connector_precede_the_workers() -> None:
    usual = SinkSettings.of(context(topics="t"))
    assert (usual.isolation, usual.reset, usual.max_poll_records) == ("read_uncommitted", "earliest", None)
    found = SinkSettings.of(context({"consumer.isolation.level": "read_committed", "consumer.max.poll.records": "9"},
                                    topics="t", consumer_override_max_poll_records="7"))
    assert (found.isolation, found.max_poll_records) == ("read_committed", 7)
    assert found.consumer.topics == ("t",)
    assert found.client["bootstrap_servers"] == ["localhost:9"]


@pytest.mark.parametrize(("connector", "message"), [
    ({"consumer_override_max_poll_records": "0"},
     "Invalid value 0 for configuration max.poll.records: must be a whole number of at least 1"),
    ({"consumer_override_isolation_level": "x"}, "Invalid value x for configuration isolation.level"),
    ({"producer_override_acks": "x"}, "Invalid value x for configuration acks"),
    ({"errors_tolerance": "some"}, "Invalid value some for configuration errors.tolerance"),
])
def test_defects_of_a_sink_are_reported(connector: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SinkSettings.of(context(topics="t", **connector))
    assert str(raised.value).startswith(message)


def test_topics_are_created_unless_the_worker_forbids_it() -> None:
    dotted = {key.replace(".", "_"): value for key, value in CREATION.items()}
    allowed, forbidden = context(**dotted), context({"topic.creation.enable": "false"}, **dotted)
    assert SourceSettings.of(allowed).topics is not None
    assert SourceSettings.of(forbidden).topics is None


def test_a_source_with_a_guard_has_transactions() -> None:
    assert SourceSettings.of(context()).transactions is None
    found = SourceSettings.of(context({"offset.flush.interval.ms": "2000"}, Guard(), transaction_boundary="interval"))
    assert found.transactions is not None
    assert found.transactions.transactional_id == "group-c-1"
    assert (found.transactions.boundary.kind, found.transactions.boundary.interval_ms) == (BoundaryKind.INTERVAL, 2000)
    with pytest.raises(ConfigError, match="Invalid value 1 for configuration acks: exactly-once delivery requires all"):
        SourceSettings.of(context(None, Guard(), producer_override_acks="1"))
