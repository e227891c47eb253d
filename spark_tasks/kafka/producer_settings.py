"""Translates the properties of Java's producer to the settings of heeler's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_tasks.errors import ConfigError
from spark_tasks.kafka.task_clients import connection_settings, number

_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """`client`: kafka-python's connection settings. `appender`: keyword arguments of the Appender. `idempotent`:
    whether it needs a producer id.
    """

    client: Mapping[str, Any]
    appender: Mapping[str, Any]
    idempotent: bool

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ProducerSettings:
        """Parses the properties of a producer. Raises ConfigError."""
        options, idempotent = appender_options(properties)
        return cls(connection_settings(properties), options, idempotent)


def appender_options(properties: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
    """Returns keyword arguments of the Appender, and whether the producer is idempotent.

    It is idempotent unless `enable.idempotence` is false or `acks` is not `all`. A producer that is not idempotent
    writes duplicates when a response of a broker is late. (Kafka Connect's producers are not idempotent by default, to
    support brokers older than 0.11.)
    """
    acks = properties.get("acks", "all").strip().lower()
    if acks not in _ACKS:
        raise ConfigError(f"Invalid value {acks} for configuration acks: expected one of {', '.join(_ACKS)}")
    compression = properties.get("compression.type", "none").strip().lower()
    if compression not in _COMPRESSIONS:
        allowed = ", ".join(_COMPRESSIONS)
        raise ConfigError(f"Invalid value {compression} for configuration compression.type: expected one of {allowed}")
    options: dict[str, Any] = {"acks": _ACKS[acks], "compression": None if compression == "none" else compression}
    options["max_request_bytes"] = number(properties, "max.request.size", 1_048_576, 1)
    in_flight = number(properties, "max.in.flight.requests.per.connection", 5, 1)
    wanted = properties.get("enable.idempotence", "true").strip().lower() != "false"
    idempotent = wanted and acks in ("all", "-1")
    options["in_flight"] = min(in_flight, 5) if idempotent else in_flight
    if properties.get("delivery.timeout.ms"):
        options["delivery_timeout_ms"] = float(number(properties, "delivery.timeout.ms", 120_000, 1))
    return options, idempotent
