"""Where a source connector's offsets are, if not on the worker's offsets topic alone (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.ids import TopicName


@dataclass(frozen=True, slots=True)
class OwnOffsets:
    """A connector's own offsets topic, in the cluster of its records; its clients' settings are kafka-python's."""

    topic: TopicName
    producer: Mapping[str, Any]
    consumer: Mapping[str, Any]
    admin: Mapping[str, Any]
