"""A source connector's own offsets topic, in addition to the worker's (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.ids import TopicName


@dataclass(frozen=True, slots=True)
class OwnOffsets:
    """A connector's own offsets topic, in the cluster of its records, with kafka-python's settings for its clients."""

    topic: TopicName
    producer: Mapping[str, Any]
    consumer: Mapping[str, Any]
    admin: Mapping[str, Any]
