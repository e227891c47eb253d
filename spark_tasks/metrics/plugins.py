"""Metrics of plugins (KIP-877). Those that are recorded in a split return to the worker with the split's result.

Plugins use a PluginMetrics: connectors `context.metrics`, and the code of tasks (readers, writers, transforms,
converters) `plugin_metrics()`.
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Final, Literal

from spark_tasks.errors import ConnectError

_logger = logging.getLogger(__name__)

Kind = Literal["counter", "gauge", "summary"]
Labels = tuple[tuple[str, str], ...]
MAX_SERIES: Final = 1000  # of the plugins of one connector or task
LONGEST_VALUE: Final = 200  # of a label, in characters
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_LABEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,99}")
OURS = frozenset({"connector", "task", "worker", "quantile", "le"})  # reserved labels


@dataclass(frozen=True, slots=True)
class Series:
    """The identity of a series."""

    name: str
    kind: Kind
    labels: Labels = ()


@dataclass(slots=True)
class Figures:
    """Values by series: (value, 0) of a counter or gauge, (count, sum) of a summary. `helps`: descriptions by name."""

    values: dict[Series, tuple[float, float]] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    dropped: int = 0  # values dropped because of MAX_SERIES


class Counter:
    """A number that only increases."""

    def __init__(self, metrics: PluginMetrics, series: Series) -> None:
        self._metrics, self._series = metrics, series

    def inc(self, by: float = 1.0) -> None:
        """Adds `by`, which must be at least 0. Raises ConnectError."""
        if not by >= 0:
            raise ConnectError(f"the counter {self._series.name} cannot decrease: inc({by})")
        self._metrics.add(self._series, float(by), 0.0)  # numpy's numbers have another repr


class Gauge:
    """A number that increases and decreases. If several splits set it, the last one to end wins."""

    def __init__(self, metrics: PluginMetrics, series: Series) -> None:
        self._metrics, self._series = metrics, series

    def set(self, value: float) -> None:
        """Sets the current value."""
        self._metrics.put(self._series, float(value))


class Summary:
    """The count and the sum of values, such as durations in seconds or sizes in bytes."""

    def __init__(self, metrics: PluginMetrics, series: Series) -> None:
        self._metrics, self._series = metrics, series

    def observe(self, value: float) -> None:
        """Adds one value."""
        self._metrics.add(self._series, 1.0, float(value))


class PluginMetrics:
    """The metrics of the plugins of one connector or task. Thread-safe.

    Names are lowercase with underscores and should end in the unit (`_seconds`, `_bytes`). A metric is exported as
    `heeler_plugin_NAME`, with the labels connector, task and worker in addition to the plugin's own. Its methods raise
    ConnectError for names that Prometheus does not allow. Series beyond MAX_SERIES are dropped with one warning.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures = Figures()

    def counter(self, name: str, help: str = "", **labels: object) -> Counter:  # noqa: A002 - Prometheus' name
        """Returns a counter. Its exported name ends in `_total`."""
        return Counter(self, self._series(name.removesuffix("_total"), "counter", help, labels))

    def gauge(self, name: str, help: str = "", **labels: object) -> Gauge:  # noqa: A002
        """Returns a gauge."""
        return Gauge(self, self._series(name, "gauge", help, labels))

    def summary(self, name: str, help: str = "", **labels: object) -> Summary:  # noqa: A002
        """Returns a summary without quantiles."""
        return Summary(self, self._series(name, "summary", help, labels))

    def _series(self, name: str, kind: Kind, text: str, labels: Mapping[str, object]) -> Series:
        if not _NAME.fullmatch(name):
            raise ConnectError(f"{name!r} is not a valid metric name: use lowercase letters, digits and underscores")
        for label in labels:
            if not _LABEL.fullmatch(label) or label in OURS:
                raise ConnectError(f"{label!r} is not a valid label of the metric {name}: use letters, digits and "
                                   f"underscores, and none of {', '.join(sorted(OURS))}")
        self._describe(name, text)
        pairs = sorted((label, str(value)[:LONGEST_VALUE]) for label, value in labels.items())
        return Series(name, kind, tuple(pairs))

    def _describe(self, name: str, text: str) -> None:
        with self._lock:
            if text and len(self._figures.helps) < MAX_SERIES:  # whether it will have a value or not
                self._figures.helps.setdefault(name, text[:LONGEST_VALUE])

    def add(self, series: Series, first: float, second: float) -> None:
        """Adds to both values of a series."""
        if not (math.isfinite(first) and math.isfinite(second)):
            return  # the sum could never recover from NaN or infinity
        with self._lock:
            if self._has_room(series):
                before = self._figures.values.get(series, (0.0, 0.0))
                self._figures.values[series] = (before[0] + first, before[1] + second)

    def put(self, series: Series, value: float) -> None:
        """Sets a gauge."""
        with self._lock:
            if self._has_room(series):
                self._figures.values[series] = (value, 0.0)

    def _has_room(self, series: Series) -> bool:
        if series in self._figures.values or len(self._figures.values) < MAX_SERIES:
            return True
        if not self._figures.dropped:
            _logger.warning("A plugin has more than %d series of metrics; %s and others are dropped", MAX_SERIES,
                            series.name)
        self._figures.dropped += 1
        return False

    def merge(self, figures: Figures) -> None:
        """Adds the metrics of a split."""
        for name, text in figures.helps.items():
            self._describe(name, text)
        for series, (first, second) in figures.values.items():
            if series.kind == "gauge":
                self.put(series, first)
            else:
                self.add(series, first, second)
        self._figures.dropped += figures.dropped

    def replace(self, figures: Figures) -> None:
        """Replaces all metrics with those that the Java plugin host reports."""
        kept = dict(islice(figures.values.items(), MAX_SERIES))
        dropped = len(figures.values) - len(kept)
        with self._lock:
            if dropped and not self._figures.dropped:
                _logger.warning("A plugin has more than %d series of metrics; the others are dropped", MAX_SERIES)
            self._figures = Figures(kept, dict(islice(figures.helps.items(), MAX_SERIES)), dropped)

    def forget(self, gone: Iterable[Series]) -> None:
        """Removes series."""
        with self._lock:
            for series in gone:
                self._figures.values.pop(series, None)

    def figures(self) -> Figures:
        """Returns a copy of the current values."""
        with self._lock:
            return Figures(dict(self._figures.values), dict(self._figures.helps), self._figures.dropped)

    def take(self) -> Figures | None:
        """Returns the current values, which start again, or None if nothing was recorded."""
        with self._lock:
            if not self._figures.values:
                return None  # descriptions wait for their values
            taken, self._figures = self._figures, Figures()
        return taken

    def counted(self) -> Figures | None:
        """Returns a copy for a split's result, or None if nothing was recorded."""
        return self.figures() if self._figures.values else None


class _Local(threading.local):
    metrics: PluginMetrics | None = None


_local = _Local()


def plugin_metrics() -> PluginMetrics:
    """Returns the metrics of the task whose code this thread runs. Those of a split are exported when it has succeeded.
    In other threads, such as those that a plugin starts, returns metrics that are never exported.
    """
    if _local.metrics is None:
        _local.metrics = PluginMetrics()
    return _local.metrics


def work_for(metrics: PluginMetrics | None) -> None:
    """Makes `plugin_metrics` return these metrics in this thread."""
    _local.metrics = metrics


class counting:  # noqa: N801 - used as a function: with counting() as metrics:
    """A context manager that gives this thread new metrics, which it returns."""

    __slots__ = ("_before", "_metrics")

    def __enter__(self) -> PluginMetrics:
        self._before, self._metrics = _local.metrics, PluginMetrics()
        _local.metrics = self._metrics
        return self._metrics

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
                 ) -> None:
        _local.metrics = self._before
