"""How properties of Kafka's clients are parsed."""

from __future__ import annotations

from typing import Any

import pytest

from spark_tasks.config.client_properties import CONNECTION_NUMBERS
from spark_tasks.config.client_values import client_value, given_value
from spark_tasks.errors import ConfigError


@pytest.mark.parametrize(("name", "text", "value"), [
    ("session.timeout.ms", " +9000 ", 9000), ("exclude.internal.topics", "FALSE", False),
    ("isolation.level", "Read_Committed", "Read_Committed"), ("bootstrap.servers", "a:1, b:1,", ["a:1", "b:1", ""]),
])
def test_a_value_has_the_type_of_its_key(name: str, text: str, value: Any) -> None:
    assert client_value("consumer", {name: text}, name) == given_value("consumer", {name: text}, name) == value


@pytest.mark.parametrize("properties", [{}, {"session.timeout.ms": " "}])
def test_what_is_not_set_or_blank_has_kafkas_default(properties: dict[str, str]) -> None:
    assert client_value("consumer", properties, "session.timeout.ms") == 45_000
    assert given_value("consumer", properties, "session.timeout.ms") is None


@pytest.mark.parametrize(("name", "text", "why"), [
    ("session.timeout.ms", "soon", "Not a number of type INT"),
    ("session.timeout.ms", "0", "must be a whole number of at least 1"),
    ("request.timeout.ms", "-1", "must be a whole number of at least 0"),
    ("isolation.level", "x", "must be one of read_uncommitted, read_committed"),
    ("auto.offset.reset", "x", "must be one of earliest, latest, none, or by_duration:PnDTnHnMn.nS"),
    ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
])
def test_other_values_are_errors(name: str, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        client_value("consumer", {name: text}, name)
    assert str(raised.value) == f"Invalid value {text} for configuration {name}: {why}"


@pytest.mark.parametrize(("name", "allowed"), [
    ("acks", "all, -1, 1, 0"), ("compression.type", "none, gzip, snappy, lz4, zstd"),
])
def test_other_values_of_a_producer_are_errors(name: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Invalid value x for configuration {name}: must be one of {allowed}$"):
        client_value("producer", {name: "x"}, name)


def test_all_clients_have_the_keys_of_connections() -> None:
    for name in (*CONNECTION_NUMBERS, "client.dns.lookup", "security.protocol", "sasl.mechanism", "bootstrap.servers"):
        values = [given_value(client, {name: "1" if name in CONNECTION_NUMBERS else "SSL"}, name)
                  for client in ("producer", "consumer", "admin")]
        assert values[0] == values[1] == values[2] is not None
