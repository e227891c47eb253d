"""What sink tasks take from the configurations of worker and connector."""

from __future__ import annotations

import pytest

from spark_tasks.config.masking import hide_passwords
from spark_tasks.errors import ConfigError
from spark_tasks.sinks.settings import SinkSettings
from tests.rigs.tasks import context_with


def test_sink_settings_of_the_connector_precede_the_workers() -> None:
    usual = SinkSettings.of(context_with(topics="t"))
    assert (usual.isolation, usual.reset, usual.max_poll_records) == ("read_uncommitted", "earliest", None)
    found = SinkSettings.of(context_with(
        {"consumer.isolation.level": "read_committed", "consumer.max.poll.records": "9"}, topics="t",
        consumer_override_max_poll_records="7"))
    assert (found.isolation, found.max_poll_records) == ("read_committed", 7)
    assert found.consumer.topics == ("t",)
    assert found.client["bootstrap_servers"] == ["localhost:9"]


@pytest.mark.parametrize(("connector", "message"), [
    ({"consumer_override_max_poll_records": "0"},
     "Invalid value 0 for configuration max.poll.records: must be a whole number of at least 1"),
    ({"consumer_override_isolation_level": "x"}, "Invalid value x for configuration isolation.level"),
    ({"producer_override_acks": "x", "errors_deadletterqueue_topic_name": "d"},
     "Invalid value x for configuration acks"),
    ({"errors_tolerance": "some"}, "Invalid value some for configuration errors.tolerance"),
])
def test_defects_of_a_sink_are_reported(connector: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SinkSettings.of(context_with(topics="t", **connector))
    assert str(raised.value).startswith(message)


def test_overrides_of_clients_that_a_sink_does_not_use_do_not_matter() -> None:
    """Only those of clients that it uses are validated, and may be refused."""
    overrides = {f"{client}_override_{key}": "x" for client in ("producer", "admin") for key in ("acks", "client_id")}
    worker = {"connector.client.config.override.policy": "None"}
    assert SinkSettings.of(context_with(worker, topics="t", **overrides)).errors.client == {}
    with pytest.raises(ConfigError, match="not allowed"):
        SinkSettings.of(context_with(worker, topics="t", errors_deadletterqueue_topic_name="d", **overrides))


def test_letters_know_the_secrets_of_their_connector() -> None:
    hide_passwords("c", {"producer.override.ssl.key.password": "s3cr3t-4711"}, object)
    queue = {"errors_deadletterqueue_topic_name": "d"}
    assert "s3cr3t-4711" in SinkSettings.of(context_with(topics="t", **queue)).errors.secrets
    assert SinkSettings.of(context_with(topics="t")).errors.secrets == ()
