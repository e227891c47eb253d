"""How many tasks a sink has (tasks.auto.*: its lag says it, up to tasks.max), and how heavy tasks are. Pure.

`tasks.max` stays a number, which Java workers of the group read; they skip the other keys and make that many tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_tasks.config.connector_keys import COMMON
from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type, Width, between
from spark_tasks.limits import MAX_TASKS

_DAY_MS = 86_400_000


def _key(order: int, name: str, kind: Type, default: Any, validator: Any, display: str, doc: str) -> ConfigKey:
    return ConfigKey(name, kind, default=default, validator=validator, display_name=display, doc=doc, group="Common",
                     order=20 + order, width=Width.SHORT, importance=Importance.MEDIUM)


SCALING = ConfigDef(
    _key(0, "tasks.auto", Type.BOOLEAN, False, None, "Tasks by lag",
         "Whether the number of a sink's tasks follows its lag, from tasks.auto.min up to tasks.max."),
    _key(1, "tasks.auto.min", Type.INT, 1, between(1, MAX_TASKS), "Fewest tasks", "How many tasks there are at least."),
    _key(2, "tasks.auto.lag", Type.LONG, 100_000, between(1, 2**62), "Lag of a task",
         "How many records behind the end of its topics a sink may be for each of its tasks; beyond it gets more."),
    _key(3, "tasks.auto.period.ms", Type.LONG, 60_000, between(1000, _DAY_MS), "Patience with lag",
         "For how many milliseconds a sink has to be behind, or up again, before its number of tasks changes."),
    _key(4, "tasks.weight", Type.INT, 1, between(1, 1000), "Weight of a task",
         "How heavy each task is beside those of other connectors: workers get tasks of about the same weight."),
)


def given(config: Mapping[str, Any]) -> bool:
    """Whether a connector's configuration says anything of it."""
    return any(name in config for name in SCALING.keys)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a connector's configuration says. `lag`: records for each task; `period_ms`: how long it has to last."""

    least: int
    most: int
    lag: int
    period_ms: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Bounds | None:
        """None where the number of tasks is not to follow the lag. Raises ConfigError."""
        if not given(config):
            return None
        values = SCALING.plus(COMMON.keys["tasks.max"]).parse(config)
        if not values["tasks.auto"]:
            return None
        most = values["tasks.max"]
        return cls(min(values["tasks.auto.min"], most), most, values["tasks.auto.lag"], values["tasks.auto.period.ms"])

    def clamped(self, tasks: int) -> int:
        """The number nearest to `tasks` that is allowed."""
        return max(self.least, min(self.most, tasks))


@dataclass(frozen=True, slots=True)
class Scale:
    """How many tasks there shall be; since when (ms) the lag has been too high, or low enough for fewer."""

    tasks: int
    high_since: int | None = None
    low_since: int | None = None


def unknown(scale: Scale) -> Scale:
    """The lag could not be measured: what it was before does not count."""
    return replace(scale, high_since=None, low_since=None)


def advance(scale: Scale, bounds: Bounds, lag: int, partitions: int, now_ms: int) -> Scale:
    """One measurement: `lag` records in all, in so many `partitions`.

    More tasks where each has had too much for a whole period: as many as the lag asks for, at most twice as many. Fewer
    where what is left has been little for a whole period: half as many at most, and so many that each has no more than
    half of what would bring one back. So a lag that stays as it is never has tasks come and go. More tasks than
    partitions would have nothing to read.
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
