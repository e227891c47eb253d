"""How many tasks a sink has (with tasks.max=auto or tasks.auto its lag decides), and how heavy tasks are. Pure.

Java workers of the group read the number in `tasks.max`, ignore the other keys, and make that many tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_tasks.config.auto_tasks import MOST
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
    _key(1, MOST, Type.INT, None, Rule(f"unset or from 1 to {MAX_TASKS}", lambda v: v is None or 1 <= v <= MAX_TASKS),
         "Most tasks",
         "With tasks.max=auto: the largest number of tasks, between which and tasks.auto.min it follows the lag."),
    _key(2, "tasks.auto.min", Type.INT, 1, between(1, MAX_TASKS), "Fewest tasks", "The least number of tasks."),
    _key(3, "tasks.auto.lag", Type.LONG, 100_000, between(1, 2**62), "Lag of a task",
         "The lag, in records for each of its tasks, above which a sink gets more tasks."),
    _key(4, "tasks.auto.period.ms", Type.LONG, 60_000, between(1000, _DAY_MS), "Lag period",
         "For how many milliseconds the lag has to be high, or low, before the number of tasks changes."),
    _key(5, "tasks.weight", Type.INT, 1, between(1, 1000), "Weight of a task",
         "How heavy each task is compared with other connectors' tasks: all workers get about the same total weight."),
)


def given(config: Mapping[str, Any]) -> bool:
    """Whether a connector's configuration has any of these keys."""
    return any(name in config for name in SCALING.keys)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A connector's settings. `lag`: records for each task; `period_ms`: for how long it has to be high or low."""

    least: int
    most: int
    lag: int
    period_ms: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Bounds | None:
        """From a connector's configuration; None if its number of tasks does not follow its lag. Raises ConfigError."""
        if not given(config):
            return None
        values = SCALING.plus(COMMON.keys["tasks.max"]).parse(config)
        if not values["tasks.auto"] and values[MOST] is None:
            return None
        most = values["tasks.max"]
        return cls(min(values["tasks.auto.min"], most), most, values["tasks.auto.lag"], values["tasks.auto.period.ms"])

    def clamped(self, tasks: int) -> int:
        """The allowed number of tasks nearest to `tasks`."""
        return max(self.least, min(self.most, tasks))


@dataclass(frozen=True, slots=True)
class Scale:
    """The wanted number of tasks, and since when (ms) the lag has been too high for it, or low enough for fewer."""

    tasks: int
    high_since: int | None = None
    low_since: int | None = None


def unknown(scale: Scale) -> Scale:
    """The lag could not be measured: periods start again."""
    return replace(scale, high_since=None, low_since=None)


def advance(scale: Scale, bounds: Bounds, lag: int, partitions: int, now_ms: int) -> Scale:
    """The state after a measurement: `lag` records in all, in so many `partitions`.

    After a whole period of more than `bounds.lag` records a task there are more tasks: as many as the lag needs, at
    most twice as many. After a whole period of a low lag there are fewer: at least half as many, and so many that each
    has at most half of `bounds.lag`. So a constant lag never makes the number go up and down. There are never more
    tasks than partitions, as those would have nothing to read.
    """
    most = max(bounds.least, min(bounds.most, partitions))
    tasks = min(scale.tasks, most)
    enough = -(-lag // bounds.lag)
    comfortable = -(-2 * lag // bounds.lag)
    if lag > bounds.lag * tasks and tasks < most:
        since = now_ms if scale.high_since is None else scale.high_since
        if now_ms - since < bounds.period_ms:
            return Scale(tasks, high_since=since)
        return Scale(min(most, 2 * tasks, enough))
    if tasks > bounds.least and comfortable < tasks:
        since = now_ms if scale.low_since is None else scale.low_since
        if now_ms - since < bounds.period_ms:
            return Scale(tasks, low_since=since)
        return Scale(max(bounds.least, (tasks + 1) // 2, comfortable))
    return Scale(tasks)
