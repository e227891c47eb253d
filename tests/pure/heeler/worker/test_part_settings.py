"""What a worker's tasks take from its configuration."""

from __future__ import annotations

import pytest

from heeler.worker.part_settings import trial_settings, validation_settings
from tests.rigs.tasks import worker_settings
from tests.rigs.worker_configs import with_


def test_worker_settings_for_tasks_are_parsed() -> None:
    found = worker_settings({
        "session.timeout.ms": "7000", "offset.flush.interval.ms": "2000", "heeler.max.record.bytes": "20000",
        "topic.creation.enable": "FALSE", "consumer.fetch.min.bytes": "2", "ssl.truststore.type": "PEM",
        "value.converter": "x.Y", "value.converter.schemas.enable": "false", "rest.port": "1"})
    assert (found.group_id, found.session_timeout_ms, found.offset_flush_interval_ms) == ("group", 7000, 2000)
    assert (found.max_record_bytes, found.topic_creation) == (20_000, False)
    assert found.clients.properties == {
        "bootstrap.servers": "localhost:9", "consumer.fetch.min.bytes": "2", "ssl.truststore.type": "PEM"}
    assert found.converters == {
        "key.converter": "none", "value.converter": "x.Y", "value.converter.schemas.enable": "false"}


def test_worker_settings_for_validation_are_parsed() -> None:
    found = trial_settings({
        "group.id": "g", "exactly.once.source.support": " Enabled ", "spark.master": "spark://host:7077",
        "config.storage.topic": " configs ", "status.storage.topic": "statuses", "key.converter": "x.Y",
        "connector.client.config.override.policy": "None", "consumer.fetch.min.bytes": "2", "rest.port": "1"})
    assert (found.group_id, found.exactly_once, found.on_cluster) == ("g", True, True)
    assert found.internal_topics == {"configs", "statuses"}
    assert found.clients.policy.refusal("acks") is not None
    assert (found.clients.properties["consumer.fetch.min.bytes"], found.converters) == ("2", {"key.converter": "x.Y"})


@pytest.mark.parametrize(("settings", "once", "cluster", "refused"), [
    ({}, False, False, False), ({"exactly.once.source.support": "PREPARING"}, False, False, False),
    ({"exactly.once.source.support": "Enabled", "connector.client.config.override.policy": "None",
      "spark.master": "yarn"}, True, True, True),
])
def test_a_worker_validates_with_the_settings_that_it_has_parsed(
    settings: dict[str, str], once: bool, cluster: bool, refused: bool
) -> None:
    config = with_(settings)
    found = validation_settings(config)
    assert (found.exactly_once, found.on_cluster) == (once, cluster)
    assert found.clients is config.clients
    assert bool(found.clients.policy.refusal("acks")) is refused
    assert found == trial_settings(config.originals)


@pytest.mark.parametrize("support", ["preparing", "DISABLED"])
def test_a_trial_needs_no_worker_settings_for_its_validation(support: str) -> None:
    assert not trial_settings({"exactly.once.source.support": support}).exactly_once
    found = trial_settings({})
    assert (found.group_id, found.exactly_once, found.on_cluster, found.internal_topics) == (
        None, False, False, frozenset())
    assert found.clients.policy.refusal("acks") is None
