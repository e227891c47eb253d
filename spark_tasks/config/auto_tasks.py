"""`tasks.max=auto` with its bound, `tasks.auto.max=8`: as REST takes and shows it, and as it is stored. Pure.

Stored is the number, `tasks.max=8` beside `tasks.auto.max=8`: a Java worker of the group can read that (ADR 0043).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

MAX: Final = "tasks.max"
MOST: Final = "tasks.auto.max"
AUTO: Final = "auto"
Text = TypeVar("Text", str, str | None)


def stored(config: Mapping[str, Text]) -> dict[str, Text]:
    """A connector's configuration with the number in place of `auto`; unchanged if there is no bound."""
    most = config.get(MOST)
    return {**config, MAX: most} if most is not None and config.get(MAX) == AUTO else {**config}


def as_put(config: Mapping[str, str]) -> Mapping[str, str]:
    """What `stored` was given."""
    most = config.get(MOST)
    return {**config, MAX: AUTO} if most is not None and config.get(MAX) == most else config
