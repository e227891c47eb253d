"""Figures that plugins count themselves (KIP-877): on the worker, and in splits, whose figures come with their result.

`context.metrics` of a connector and `plugin_metrics()` of whatever runs for a task (readers, writers, transforms,
converters) are a PluginMetrics.
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
MOST_SERIES: Final = 1000  # of one connector's or task's plugins
LONGEST_VALUE: Final = 200  # most characters of a label's value
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_LABEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,99}")
OURS = frozenset({"connector", "task", "worker", "quantile", "le"})  # reserved labels


@dataclass(frozen=True, slots=True)
class Series:
    """One series' identity."""

    name: str
    kind: Kind
    labels: Labels = ()


@dataclass(slots=True)
class Figures:
    """Values by series: one number for a counter or a gauge, count and sum for a summary. `helps`: the author's
    description of each name.
    """

    values: dict[Series, tuple[float, float]] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    dropped: int = 0  # values dropped because of MOST_SERIES


class Counter:
    """Only goes up."""

    def __init__(self, metrics: PluginMetrics, series: Series) -> None:
        self._metrics, self._series = metrics, series

    def inc(self, by: float = 1.0) -> None:
        """Add `by`, which is at least 0."""
        if not by >= 0:
            raise ConnectError(f"the counter {self._series.name} cannot go down: inc({by})")
        self._metrics.add(self._series, by, 0.0)


class Gauge:
    """A number that goes up and down. In splits, the value set by the split that ended last counts."""

    def __init__(self, metrics: PluginMetrics, series: Series) -> None:
        self._metrics, self._series = metrics, series

    def set(self, value: float) -> None:
        """Set the current value."""
        self._metrics.put(self._series, float(value))


class Summary:
    """The number of values and their sum, such as times in seconds or sizes in bytes."""

    def __init__(self, metrics: PluginMetrics, series: Series) -> None:
        self._metrics, self._series = metrics, series

    def observe(self, value: float) -> None:
        """Add one value."""
        self._metrics.add(self._series, 1.0, float(value))


class PluginMetrics:
    """The figures of one connector's or task's plugins. Any thread.

    A name is lower case with underscores, ends in its unit (`_seconds`, `_bytes`), and is shown as
    `heeler_plugin_NAME` with the labels connector, task and worker beside the plugin's own. ConnectError for names that
    Prometheus does not allow. At most MOST_SERIES series: values of others are dropped, which is logged once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures = Figures()

    def counter(self, name: str, help: str = "", **labels: object) -> Counter:  # noqa: A002 - Prometheus' own word
        """A counter; a `_total` is added to its name where it has none."""
        return Counter(self, self._series(name.removesuffix("_total"), "counter", help, labels))

    def gauge(self, name: str, help: str = "", **labels: object) -> Gauge:  # noqa: A002
        """A gauge."""
        return Gauge(self, self._series(name, "gauge", help, labels))

    def summary(self, name: str, help: str = "", **labels: object) -> Summary:  # noqa: A002
        """A summary without quantiles."""
        return Summary(self, self._series(name, "summary", help, labels))

    def _series(self, name: str, kind: Kind, text: str, labels: Mapping[str, object]) -> Series:
        if not _NAME.fullmatch(name):
            raise ConnectError(f"{name!r} cannot be the name of a metric: lower case letters, digits and underscores")
        for label in labels:
            if not _LABEL.fullmatch(label) or label in OURS:
                raise ConnectError(f"{label!r} cannot be a label of the metric {name}: letters, digits and "
                                   f"underscores, and none of {', '.join(sorted(OURS))}")
        with self._lock:
            if text:
                self._figures.helps.setdefault(name, text[:LONGEST_VALUE])
        pairs = sorted((label, str(value)[:LONGEST_VALUE]) for label, value in labels.items())
        return Series(name, kind, tuple(pairs))

    def add(self, series: Series, first: float, second: float) -> None:
        """Add to both values of a series."""
        if not (math.isfinite(first) and math.isfinite(second)):
            return  # NaN or infinity would spoil the sum forever
        with self._lock:
            if self._has_room(series):
                before = self._figures.values.get(series, (0.0, 0.0))
                self._figures.values[series] = (before[0] + first, before[1] + second)

    def put(self, series: Series, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            if self._has_room(series):
                self._figures.values[series] = (value, 0.0)

    def _has_room(self, series: Series) -> bool:
        if series in self._figures.values or len(self._figures.values) < MOST_SERIES:
            return True
        if not self._figures.dropped:
            _logger.warning("a plugin has more than %d series of metrics; %s and others are dropped", MOST_SERIES,
                            series.name)
        self._figures.dropped += 1
        return False

    def take_in(self, figures: Figures) -> None:
        """Add what a split has counted."""
        for name, text in figures.helps.items():
            self._figures.helps.setdefault(name, text)
        for series, (first, second) in figures.values.items():
            if series.kind == "gauge":
                self.put(series, first)
            else:
                self.add(series, first, second)
        self._figures.dropped += figures.dropped

    def replace(self, figures: Figures) -> None:
        """Replace all figures, by those that another runtime has counted."""
        kept = dict(islice(figures.values.items(), MOST_SERIES))
        dropped = len(figures.values) - len(kept)
        with self._lock:
            if dropped and not self._figures.dropped:
                _logger.warning("a plugin has more than %d series of metrics; %d are dropped", MOST_SERIES, dropped)
            self._figures = Figures(kept, dict(figures.helps), dropped)

    def forget(self, gone: Iterable[Series]) -> None:
        """Show these series no longer."""
        with self._lock:
            for series in gone:
                self._figures.values.pop(series, None)

    def figures(self) -> Figures:
        """A copy."""
        with self._lock:
            return Figures(dict(self._figures.values), dict(self._figures.helps), self._figures.dropped)

    def counted(self) -> Figures | None:
        """A copy for a split's result, or None if there is nothing."""
        return self.figures() if self._figures.values else None


class _Local(threading.local):
    metrics: PluginMetrics | None = None


_local = _Local()


def plugin_metrics() -> PluginMetrics:
    """The metrics of the task that this thread works for; in any other thread (one that a plugin started, a test)
    metrics that are not shown. A split's figures are shown once it has succeeded.
    """
    if _local.metrics is None:
        _local.metrics = PluginMetrics()
    return _local.metrics


def work_for(metrics: PluginMetrics | None) -> None:
    """From now on this thread counts into these metrics."""
    _local.metrics = metrics


class counting:  # noqa: N801 - reads as a word: with counting() as metrics:
    """Gives this thread new metrics for the duration of the block."""

    __slots__ = ("_before", "_metrics")

    def __enter__(self) -> PluginMetrics:
        self._before, self._metrics = _local.metrics, PluginMetrics()
        _local.metrics = self._metrics
        return self._metrics

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
                 ) -> None:
        _local.metrics = self._before
