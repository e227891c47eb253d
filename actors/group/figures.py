"""What the Kafka client of a worker's group membership counts, under the names that Java's client has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kafka.metrics import Metrics

__all__ = ["Figure", "Metrics", "figures"]
_HEARTBEAT: Final = "last-heartbeat-seconds-ago"


@dataclass(frozen=True, slots=True)
class Figure:
    """`group` and `attribute` as in Java's JMX; times in milliseconds where the attribute does not say otherwise."""

    group: str
    attribute: str
    text: str
    value: float


def figures(metrics: Metrics) -> Iterator[Figure]:
    """Those of the client as a whole, not of each broker. Any thread."""
    for name, metric in list(metrics.metrics.items()):
        if name.group in ("connect-metrics", "connect-coordinator-metrics") and not name.tags:
            value = float(metric.value())
            if name.name == _HEARTBEAT and value == math.inf:
                value = -1.0  # as in Java: there was none
            yield Figure(name.group, name.name, name.description or "", value)
