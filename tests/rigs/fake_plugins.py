"""How Java's file connectors and its herder respond to configs and offsets, as far as the golden responses need it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from actors.errors import BadRequestError

FILE = "org.apache.kafka.connect.file."
CLASSES = {
    name: (FILE + f"FileStream{kind}Connector", kind.lower())
    for kind in ("Source", "Sink")
    for name in (f"FileStream{kind}", f"FileStream{kind}Connector", FILE + f"FileStream{kind}Connector")
}


def validation_key(config: Mapping[str, Any]) -> str:
    """A config as a key."""
    return repr(sorted(config.items(), key=lambda item: item[0]))


def kind_of(config: Mapping[str, Any]) -> str:
    """Source or sink; BadRequestError if the class is missing or unknown."""
    if "connector.class" not in config:
        items = sorted(config.items(), key=lambda item: item[0] != "name")
        shown = ", ".join(f"{key}={'null' if value is None else value}" for key, value in items)
        raise BadRequestError(f"Connector config {{{shown}}} contains no connector type")
    if config["connector.class"] not in CLASSES:
        raise BadRequestError("Failed to find any class that implements Connector and which name matches "
                              f"{config['connector.class']}, available connectors are: …")
    return CLASSES[config["connector.class"]][1]


def check_config(config: Mapping[str, Any]) -> None:
    """BadRequestError with all errors of a config."""
    kind, errors, name = kind_of(config), [], config.get("name", "")
    if not name:
        errors.append(f"Invalid value {name} for configuration name: String may not be empty")
    if re.search(r"[\x00-\x1f]", name):
        controls = ", ".join(str(ord(c)) for c in name if ord(c) < 32)
        errors.append(f"Invalid value {name} for configuration name: String may not contain control sequences but had "
                      f"the following ASCII chars: {controls}")
    if config.get("tasks.max", "1") == "0":
        errors.append("Invalid value 0 for configuration tasks.max: Value must be at least 1")
    if kind == "source" and "topic" not in config:
        errors.append('Missing required configuration "topic" which has no default value.')
    if kind == "sink" and "topics" not in config:
        errors += ["Must configure one of topics or topics.regex"] * 2
    size = config.get("batch.size") or "1"
    if not size.isdigit():
        errors.append(f"Invalid value {size} for configuration batch.size: Not a number of type INT")
    if errors:
        lines = "\n".join(errors)
        raise BadRequestError(
            f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{lines}\n"
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`")


def check_sink_offset(partition: Any, offset: Any) -> None:
    if partition is None:
        raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
    if not {"kafka_topic", "kafka_partition"} <= partition.keys():
        raise BadRequestError("The partition for a sink connector offset must contain the keys 'kafka_topic' and "
                              "'kafka_partition'")
    if partition["kafka_topic"] is None:
        raise BadRequestError("Kafka topic names must be valid strings and may not be null")
    if not str(partition["kafka_partition"]).isdigit():
        raise BadRequestError("Failed to parse the following Kafka partition value in the provided offsets: "
                              f"'{partition['kafka_partition']}'. Partition values for sink connectors need to be "
                              "integers.")
    if offset is not None and "kafka_offset" not in offset:
        raise BadRequestError("The offset for a sink connector should either be null or contain the key "
                              "'kafka_offset'")
    if offset is not None and not str(offset["kafka_offset"]).isdigit():
        raise BadRequestError("Failed to parse the following Kafka offset value in the provided offsets: "
                              f"'{offset['kafka_offset']}'. Offset values for sink connectors need to be integers.")
