"""Settings for automatic restarts of what has failed or stalled: errors.restart.* and task.progress.timeout.ms.

The worker's properties apply to all connectors; a connector's configuration overrides them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_tasks.backoff import doubled
from spark_tasks.config.definition import (
    Check,
    ConfigDef,
    ConfigKey,
    Importance,
    OneOf,
    Type,
    Validator,
    Width,
    between,
)

OFF, FAILED, ALL = "none", "failed", "all"
PROGRESS_TIMEOUT = "task.progress.timeout.ms"
_DAY_MS = 86_400_000
_ERRORS = "Error Handling"

# name, type, the worker's default, validator, display name, documentation
_KEYS: Sequence[tuple[str, Type, Any, Validator, str, str]] = (
    ("errors.restart.policy", Type.STRING, OFF, OneOf(OFF, FAILED, ALL), "Restart Policy",
     ("What to restart automatically: none; failed: failed connectors and tasks; all: also stalled ones "
      "(task.progress.timeout.ms). Permanent errors, such as rejected credentials, never cause a restart.")),
    ("errors.restart.limit", Type.INT, 10, between(1, 1000), "Restart Limit",
     "The maximum number of automatic restarts of a connector or task within errors.restart.period.ms."),
    ("errors.restart.period.ms", Type.LONG, 3_600_000, between(1000, 30 * _DAY_MS), "Restart Period",
     "The period of errors.restart.limit, in milliseconds. After a period without a failure, pauses are short again."),
    ("errors.restart.backoff.initial.ms", Type.LONG, 1000, between(0, _DAY_MS), "First Pause Before a Restart",
     "The pause before the first restart, in milliseconds; it doubles with each further restart."),
    ("errors.restart.backoff.max.ms", Type.LONG, 300_000, between(0, _DAY_MS), "Longest Pause Before a Restart",
     "The maximum pause before a restart, in milliseconds."),
    (PROGRESS_TIMEOUT, Type.LONG, 300_000, between(0, 7 * _DAY_MS), "Progress Timeout",
     ("The time in one batch (of a connector: in one call of it), in milliseconds, after which a task is reported as "
      "stalled, with the place where it hangs; 0: never.")),
)


def _unset_or(validator: Validator) -> Check:
    def check(name: str, value: Any) -> None:
        if value is not None:
            validator(name, value)

    return Check(check, str(validator))


WORKER = ConfigDef(*(
    ConfigKey(name, kind, default=default, validator=validator, importance=Importance.MEDIUM,
              doc=f"{doc} A connector's configuration overrides this.")
    for name, kind, default, validator, _, doc in _KEYS))

CONNECTOR = ConfigDef(*(
    ConfigKey(name, kind, default=None, validator=_unset_or(validator), importance=Importance.MEDIUM,
              doc=f"{doc} Unset: the worker's setting.", display_name=display, group=_ERRORS, order=20 + order,
              width=Width.SHORT)
    for order, (name, kind, _, validator, display, doc) in enumerate(_KEYS)))


def is_configured(config: Mapping[str, Any]) -> bool:
    """Returns whether a connector's configuration has any of these keys."""
    return any(name in config for name in CONNECTOR.keys)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The settings of one connector and its tasks. `failed`, `stalled`: whether to restart what has failed or stalled.
    `limit`: the maximum number of restarts in `period_ms`. `first_ms`, `longest_ms`: the first and the longest pause.
    """

    failed: bool = False
    stalled: bool = False
    limit: int = 10
    period_ms: int = 3_600_000
    first_ms: int = 1000
    longest_ms: int = 300_000

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> RestartPolicy:
        """Returns the policy that the `settings` of a connector describe."""
        policy = values["errors.restart.policy"]
        return cls(policy != OFF, policy == ALL, values["errors.restart.limit"], values["errors.restart.period.ms"],
                   values["errors.restart.backoff.initial.ms"], values["errors.restart.backoff.max.ms"])

    def counted_restarts(self, restarts: Sequence[int], now_ms: int) -> tuple[int, ...]:
        """Returns the restarts (ms) that count toward the limit and the next pause, oldest first."""
        return tuple(at for at in restarts if now_ms - self.period_ms < at)[-self.limit:]

    def next_ms(self, restarts: Sequence[int], now_ms: int) -> int:
        """Returns when to restart a connector or task that has failed now. `restarts`: when it was restarted before,
        oldest first. All times in ms.
        """
        counted = self.counted_restarts(restarts, now_ms)
        pause = doubled(self.first_ms, len(counted), self.longest_ms)
        if len(counted) < self.limit:
            return now_ms + pause
        return max(now_ms + pause, counted[0] + self.period_ms)


def settings(worker: Mapping[str, Any], connector: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that apply to a connector. `worker`: the worker's values of WORKER. Raises ConfigError."""
    parsed = CONNECTOR.parse({name: connector[name] for name in CONNECTOR.keys if connector.get(name) is not None})
    return {name: worker[name] if value is None else value for name, value in parsed.items()}
