"""Converts `tasks.max=auto` between the form in the REST API and the form in the config topic. Pure.

The REST API has `tasks.max=auto` with a bound, for example `tasks.auto.max=8`. The config topic has the number instead,
`tasks.max=8` and `tasks.auto.max=8`, so that Java workers of the group can read it (ADR 0043).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

MAX: Final = "tasks.max"
AUTO_MAX: Final = "tasks.auto.max"
AUTO: Final = "auto"
Text = TypeVar("Text", str, str | None)


def stored(config: Mapping[str, Text]) -> dict[str, Text]:
    """Returns a connector's configuration with the number instead of `auto`; unchanged if there is no bound."""
    max_tasks = config.get(AUTO_MAX)
    return {**config, MAX: max_tasks} if max_tasks is not None and config.get(MAX) == AUTO else {**config}


def as_put(config: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the configuration that was passed to `stored`."""
    max_tasks = config.get(AUTO_MAX)
    return {**config, MAX: AUTO} if max_tasks is not None and config.get(MAX) == max_tasks else config
