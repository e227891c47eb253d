"""The values of properties of Kafka's clients, parsed as client_keys.py defines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_tasks.config.client_keys import client_config_def
from spark_tasks.config.client_properties import Kind
from spark_tasks.config.types import parse_type


def client_value(client: Kind, properties: Mapping[str, str], name: str) -> Any:
    """Returns the value of a client's property, or Kafka's default if it is not set or blank. Raises ConfigError."""
    value = given_value(client, properties, name)
    return client_config_def(client).keys[name].default if value is None else value


def given_value(client: Kind, properties: Mapping[str, str], name: str) -> Any:
    """Returns the value of a client's property, or None if it is not set or blank. Raises ConfigError."""
    text = properties.get(name, "")
    if not text.strip():
        return None
    key = client_config_def(client).keys[name]
    value = parse_type(name, text, key.type)
    if key.validator is not None:
        key.validator(name, value)
    return value
