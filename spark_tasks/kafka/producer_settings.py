"""Translates the properties of Java's producer to the settings of heeler's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_tasks.config.client_keys import ACKS
from spark_tasks.config.client_values import client_value, given_value
from spark_tasks.kafka.task_clients import connection_settings


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """`client`: kafka-python's connection settings. `appender`: keyword arguments of the Appender. `idempotent`:
    whether it needs a producer id. `max_block_ms`: how long records may wait for their topic.
    """

    client: Mapping[str, Any]
    appender: Mapping[str, Any]
    idempotent: bool
    max_block_ms: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ProducerSettings:
        """Parses the properties of a producer. Raises ConfigError."""
        options, idempotent = appender_options(properties)
        block_ms = client_value("producer", properties, "max.block.ms")
        return cls(connection_settings(properties), options, idempotent, block_ms)


def appender_options(properties: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
    """Returns keyword arguments of the Appender, and whether the producer is idempotent.

    It is idempotent unless `enable.idempotence` is false or `acks` is not `all`. A producer that is not idempotent
    writes duplicates when a response of a broker is late. (Kafka Connect's producers are not idempotent by default, to
    support brokers older than 0.11.)
    """
    value = partial(client_value, "producer", properties)
    acks, compression = ACKS[value("acks").lower()], value("compression.type").lower()
    options: dict[str, Any] = {"acks": acks, "compression": None if compression == "none" else compression}
    options["max_request_bytes"] = value("max.request.size")
    in_flight = value("max.in.flight.requests.per.connection")
    idempotent = value("enable.idempotence") and acks == ACKS["all"]
    options["in_flight"] = min(in_flight, 5) if idempotent else in_flight
    timeout_ms = given_value("producer", properties, "delivery.timeout.ms")
    if timeout_ms is not None:
        options["delivery_timeout_ms"] = float(timeout_ms)
    return options, idempotent
