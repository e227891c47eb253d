"""How many tasks a sink has (with tasks.max=auto or tasks.auto its lag decides), and how heavy tasks are. Pure.

Java workers of the group read the number in `tasks.max`, ignore the other keys, and make that many tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_tasks.config.auto_tasks import AUTO_MAX
from spark_tasks.config.connector_keys import COMMON
from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Rule, Type, Width, between
from spark_tasks.limits import MAX_TASKS

_DAY_MS = 86_400_000


def _key(order: int, name: str, kind: Type, default: Any, validator: Any, display: str, doc: str) -> ConfigKey:
    return ConfigKey(name, kind, default=default, validator=validator, display_name=display, doc=doc, group="Common",
                     order=20 + order, width=Width.SHORT, importance=Importance.MEDIUM)


SCALING = ConfigDef(
    _key(0, "tasks.auto", Type.BOOLEAN, False, None, "Tasks by lag",
         "Whether the number of a sink's tasks follows its lag, from tasks.auto.min up to tasks.max."),
    _key(1, AUTO_MAX, Type.INT, None,
         Rule(f"unset or from 1 to {MAX_TASKS}", lambda v: v is None or 1 <= v <= MAX_TASKS), "Maximum number of tasks",
         "With tasks.max=auto: the maximum number of tasks. The lag determines their number, from tasks.auto.min up."),
    _key(2, "tasks.auto.min", Type.INT, 1, between(1, MAX_TASKS), "Minimum number of tasks",
         "The minimum number of tasks."),
    _key(3, "tasks.auto.lag", Type.LONG, 100_000, between(1, 2**62), "Lag of a task",
         "The lag per task, in records, above which a sink gets more tasks."),
    _key(4, "tasks.auto.period.ms", Type.LONG, 60_000, between(1000, _DAY_MS), "Lag period",
         "How long the lag must stay high, or low, before the number of tasks changes, in milliseconds."),
    _key(5, "tasks.weight", Type.INT, 1, between(1, 1000), "Weight of a task",
         "How heavy each task is compared with other connectors' tasks: all workers get about the same total weight."),
)


def is_configured(config: Mapping[str, Any]) -> bool:
    """Returns whether a connector's configuration has any of these keys."""
    return any(name in config for name in SCALING.keys)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A connector's tasks.auto settings. `min_tasks`, `max_tasks`: limits of the number of tasks. `lag`: the highest
    lag in records per task; `period_ms`: for how long the lag must be higher or lower before the number changes.
    """

    min_tasks: int
    max_tasks: int
    lag: int
    period_ms: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Bounds | None:
        """Parses a connector's configuration. Returns None unless tasks.auto is true. Raises ConfigError."""
        if not is_configured(config):
            return None
        values = SCALING.plus(COMMON.keys["tasks.max"]).parse(config)
        if not values["tasks.auto"] and values[AUTO_MAX] is None:
            return None
        max_tasks = values["tasks.max"]
        min_tasks = min(values["tasks.auto.min"], max_tasks)
        return cls(min_tasks, max_tasks, values["tasks.auto.lag"], values["tasks.auto.period.ms"])

    def clamped(self, tasks: int) -> int:
        """Returns the allowed number of tasks that is nearest to `tasks`."""
        return max(self.min_tasks, min(self.max_tasks, tasks))


@dataclass(frozen=True, slots=True)
class Scale:
    """The wanted number of tasks, and since when (ms) the lag is too high for it, or low enough for fewer tasks."""

    tasks: int
    high_since: int | None = None
    low_since: int | None = None


def unknown(scale: Scale) -> Scale:
    """Returns the state after a failed measurement of the lag, which restarts the periods."""
    return replace(scale, high_since=None, low_since=None)


def advance(scale: Scale, bounds: Bounds, lag: int, partitions: int, now_ms: int) -> Scale:
    """Returns the state after a measurement of `lag` records in total in `partitions` partitions.

    When the lag per task has been above `bounds.lag` for a whole period, the number of tasks increases to what the lag
    requires, but at most to twice the number. When the lag has been low for a whole period, the number decreases: at
    most by half, and only so far that each task has at most half of `bounds.lag`. So the number never oscillates while
    the lag is constant. There are no more tasks than partitions, except that there are always `bounds.min_tasks`.
    """
    max_tasks = max(bounds.min_tasks, min(bounds.max_tasks, partitions))
    tasks = min(scale.tasks, max_tasks)
    enough = -(-lag // bounds.lag)  # tasks with at most `bounds.lag` records each
    enough_at_half = -(-2 * lag // bounds.lag)  # tasks with at most half of that
    if lag > bounds.lag * tasks and tasks < max_tasks:
        since = now_ms if scale.high_since is None else scale.high_since
        if now_ms - since < bounds.period_ms:
            return Scale(tasks, high_since=since)
        return Scale(min(max_tasks, 2 * tasks, enough))
    if tasks > bounds.min_tasks and enough_at_half < tasks:
        since = now_ms if scale.low_since is None else scale.low_since
        if now_ms - since < bounds.period_ms:
            return Scale(tasks, low_since=since)
        return Scale(max(bounds.min_tasks, (tasks + 1) // 2, enough_at_half))
    return Scale(tasks)
