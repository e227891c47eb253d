"""Metrics of the Kafka client of a worker's group membership, by the names of Java's client.

kafka-python measures rates, sizes and times. This module adds totals, the time that the selector waits, and failed
rebalances.
"""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.metrics import Metrics
from kafka.metrics.measurable_stat import AbstractMeasurableStat
from kafka.metrics.stats import Avg, Count, Rate, Total
from kafka.metrics.stats.rate import TimeUnit
from kafka.metrics.stats.sensor import Sensor
from typing_extensions import override

CLIENT: Final = "connect-metrics"
NODE: Final = "connect-node-metrics"
COORDINATOR: Final = "connect-coordinator-metrics"
_HEARTBEAT: Final = "last-heartbeat-seconds-ago"
_FAILED: Final = "failed-rebalance"


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric. `group` and `attribute` are the names in Java's JMX. `text`: its description. Times are in
    milliseconds unless the attribute names another unit. `tags`: labels; metrics of a single broker have `node_id`.
    """

    group: str
    attribute: str
    text: str
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


class _Recordings(AbstractMeasurableStat):  # type: ignore[misc]
    """Counts how often a value was recorded."""

    def __init__(self) -> None:
        self._count = 0

    def record(self, _config: object, _value: float, _now: float) -> None:
        self._count += 1

    def measure(self, _config: object, _now: float) -> float:
        return float(self._count)


# Metrics to add to the library's sensors: (sensor, attribute, description, sum or number of the recorded values).
_TOTALS: Final = (
    ("connections-closed", "connection-close-total", "Connections closed.", _Recordings),
    ("connections-created", "connection-creation-total", "Connections made.", _Recordings),
    ("bytes-sent-received", "network-io-total", "Reads and writes on all connections.", _Recordings),
    ("bytes-sent", "outgoing-byte-total", "Bytes sent.", Total),
    ("bytes-sent", "request-total", "Requests sent (writes to a connection).", _Recordings),
    ("bytes-received", "incoming-byte-total", "Bytes received.", Total),
    ("bytes-received", "response-total", "Responses received (reads from a connection).", _Recordings),
)
_OF_GROUP: Final = (
    ("heartbeat-latency", "heartbeat-total", "Heartbeats.", _Recordings),
    ("join-latency", "join-total", "Joins of the group.", _Recordings),
    ("sync-latency", "sync-total", "Syncs of the group.", _Recordings),
)


class ClientMetrics(Metrics):  # type: ignore[misc]
    """kafka-python's metrics registry, with totals added to its sensors."""

    def __init__(self) -> None:
        super().__init__()
        self._failed = self.sensor(_FAILED)
        self._add(self._failed, "failed-rebalance-total", COORDINATOR, "Rebalances that failed.", _Recordings())
        self._add(self._failed, "failed-rebalance-rate-per-hour", COORDINATOR, "Rebalances per hour that failed.",
                  Rate(TimeUnit.HOURS, Count()))

    @override
    def sensor(self, name: str, *args: Any, **more: Any) -> Sensor:
        """Returns the sensor of this name. If it is new, adds the totals."""
        known = self.get_sensor(name)
        sensor = super().sensor(name, *args, **more)
        if known is None:
            node, _, total = name.rpartition(".")  # "node-1.bytes-sent"
            for sensor_name, attribute, text, stat in _TOTALS:
                if sensor_name == total:
                    self._add(sensor, attribute, f"{NODE}.{node}" if node else CLIENT, text, stat())
            for sensor_name, attribute, text, stat in _OF_GROUP:
                if sensor_name == name:
                    self._add(sensor, attribute, COORDINATOR, text, stat())
        return sensor

    def _add(self, sensor: Sensor, attribute: str, group: str, text: str, stat: AbstractMeasurableStat) -> None:
        sensor.add(self.metric_name(attribute, group, text), stat)

    def failed(self) -> None:
        """Counts a failed rebalance: a JoinGroup or SyncGroup request failed."""
        self._failed.record()

    def selector(self) -> selectors.BaseSelector:
        """Returns a selector for the client that measures how long it waits."""
        return _Selector(self)


class _Selector(selectors.DefaultSelector):
    """Measures the time in `select` (io-wait) and the time between two calls of it (io), in nanoseconds."""

    def __init__(self, metrics: ClientMetrics) -> None:
        super().__init__()
        self._waits, self._works = metrics.sensor("io-wait"), metrics.sensor("io")
        add = metrics._add  # noqa: SLF001 - the selector belongs to its registry
        add(self._waits, "select-rate", CLIENT, "Network waits per second.", Rate(sampled_stat=Count()))
        add(self._waits, "select-total", CLIENT, "Network waits.", _Recordings())
        for sensor, what, text in ((self._waits, "io-wait", "waiting for the network"),
                                   (self._works, "io", "reading, writing and handling responses")):
            add(sensor, f"{what}-time-ns-avg", CLIENT, f"Average time spent {text}, in nanoseconds.", Avg())
            add(sensor, f"{what}-time-ns-total", CLIENT, f"Total time spent {text}, in nanoseconds.", Total())
            add(sensor, f"{what}-ratio", CLIENT, f"Fraction of the client thread's time spent {text}.",
                Rate(TimeUnit.NANOSECONDS))
        self._since: int | None = None

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begun = time.perf_counter_ns()
        if self._since is not None:
            self._works.record(begun - self._since)
        ready = super().select(timeout)
        self._since = time.perf_counter_ns()
        self._waits.record(self._since - begun)
        return ready


def figures(metrics: Metrics) -> Iterator[Figure]:
    """Yields the metrics of the client as a whole and of each broker. Any thread."""
    for name, metric in list(metrics.metrics.items()):
        group, _, node = name.group.partition(".")
        if group not in (CLIENT, NODE, COORDINATOR, "kafka-metrics-count") or name.tags:
            continue
        value = float(metric.value())
        if name.name == _HEARTBEAT and value == math.inf:
            value = -1.0  # as in Java: there has been no heartbeat yet
        yield Figure(group, name.name, name.description or "", value, {"node_id": node} if node else {})
