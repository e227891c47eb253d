"""The number of a task in its configuration, for sources whose tasks each read another part of the data."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskNumber:
    """The task with this index, from 0, of `count` tasks."""

    index: int
    count: int

    @classmethod
    def taken(cls, connector: str, options: MutableMapping[str, Any]) -> TaskNumber:
        """Takes the number out of a task's configuration. `connector`: the prefix of its keys."""
        index, count = _keys(connector)
        return cls(int(options.pop(index, 0)), int(options.pop(count, 1)))


def numbered(connector: str, config: Mapping[str, str], count: int) -> Sequence[Mapping[str, str]]:
    """Returns the configurations of `count` tasks, each with its number."""
    index, total = _keys(connector)
    return [{**config, index: str(number), total: str(count)} for number in range(count)]


def _keys(connector: str) -> tuple[str, str]:
    return f"{connector}.task.index", f"{connector}.task.count"
