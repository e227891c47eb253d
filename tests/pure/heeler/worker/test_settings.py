"""What a worker's tasks take from its configuration."""

from __future__ import annotations

from tests.rigs.tasks import worker_settings


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
