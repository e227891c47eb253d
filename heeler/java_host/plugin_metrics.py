"""Converts the metrics of Java plugins (KIP-877) to the worker's metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from spark_tasks.metrics.plugins import LONGEST_VALUE, OURS, Figures, Kind, PluginMetrics, Series

_OF_THE_ROW: Final = frozenset({"connector", "task"})
_LONGEST_NAME: Final = 100
_COUNTED: Final = "_total"


def figures(reported: Iterable[Mapping[str, Any]]) -> Figures:
    """The figures of reported metrics. Each has a name, help, tags, and a number as "value" or anything else as "text",
    which becomes a label of a series with the value 1. Characters that Prometheus does not allow in names become
    underscores; a metric whose name ends in total is a counter.
    """
    found = Figures()
    for metric in reported:
        name = _plain(str(metric["name"]))
        if not name:
            continue
        labels = {_label(str(key)): _short(value) for key, value in metric["tags"].items() if key not in _OF_THE_ROW}
        value = 1.0
        if "value" in metric:
            value = float(metric["value"])
        else:
            labels[_label(name)] = _short(metric["text"])
        kind: Kind = "counter" if name.endswith(_COUNTED) and "value" in metric else "gauge"
        shown = name.removesuffix(_COUNTED) if kind == "counter" else name
        found.values[Series(shown, kind, tuple(sorted(labels.items())))] = (value, 0.0)
        if metric["help"]:
            found.helps.setdefault(shown, _short(metric["help"]))
    return found


class ChainFigures:
    """Adds the metrics of a task's chains in one host to the task's metrics; each executor has its own chain. As for
    Python plugins, counters are added up, and a gauge shows the last value.
    """

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics
        self._chains: dict[int, Figures] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """Handles an event of the host: metrics or chainEnded. One thread at a time."""
        chain = int(event["chain"])
        before = self._chains.pop(chain, Figures())
        if event["op"] == "chainEnded":
            return
        now = self._chains[chain] = figures(event["values"])
        fresh = {series: (max(0.0, first - before.values.get(series, (0.0, 0.0))[0]), 0.0)
                 if series.kind == "counter" else (first, second) for series, (first, second) in now.values.items()}
        self._metrics.forget(series for series in before.values if series.kind == "gauge" and series not in now.values)
        self._metrics.merge(Figures(fresh, now.helps))


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)[:_LONGEST_NAME]


def _label(name: str) -> str:
    plain = _plain(name).lstrip("_") or "label"
    return f"tag_{plain}" if plain in OURS or plain[0].isdigit() else plain


def _short(value: object) -> str:
    return str(value)[:LONGEST_VALUE]
