"""Keys and values of an offsets topic, as Kafka Connect writes them, and which keys mean the same partition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NewType

from spark_tasks.errors import json_kind
from storage.ids import ConnectorName
from storage.log.java_json import dumps, loads

Identity = NewType("Identity", str)
"""A source partition in a normalized form, independent of the order of its fields and of its JSON text."""


class PartitionKey(NamedTuple):
    """A parsed key."""

    connector: ConnectorName
    partition: Mapping[str, Any]
    identity: Identity


def identity(partition: Mapping[str, Any]) -> Identity:
    """The normalized form of a partition. Raises TypeError if it cannot be written as JSON."""
    # Through JSON, so that what this worker writes and what it reads back are equal (bytes, tuples).
    return Identity(json.dumps(json.loads(dumps(partition)), sort_keys=True))


def offset_key(connector: ConnectorName, partition: Mapping[str, Any]) -> bytes:
    """The key of a new partition, as Java would write a map with the fields in this order."""
    return dumps([connector, partition])


def offset_value(offset: Mapping[str, Any] | None) -> bytes | None:
    """The value of an offset; None is a tombstone."""
    return None if offset is None else dumps(offset)


def parse_key(data: bytes | None) -> PartitionKey:
    """Parses a key. Raises ValueError for a key that is not in Kafka Connect's format."""
    key = None if data is None else loads(data)
    if not isinstance(key, list) or len(key) != 2 or not isinstance(key[0], str) or not isinstance(key[1], dict):
        raise ValueError("its key is not [connector name, {partition}]")
    try:
        meaning = Identity(json.dumps(key[1], sort_keys=True, allow_nan=False))
    except ValueError:  # 1e999 is read as Infinity, which is written as a string
        meaning = identity(key[1])
    return PartitionKey(ConnectorName(key[0]), key[1], meaning)


def parse_value(data: bytes) -> Mapping[str, Any] | None:
    """The offset in a value; None for null. Raises ValueError if it is neither an object nor null."""
    value = loads(data)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"an offset must be an object, not {json_kind(value)}")
    return value
