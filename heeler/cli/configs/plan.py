"""The changes that make a cluster equal to its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from heeler.cli.configs.masks import Config, Mask
from spark_tasks.config.masking import MASK

_CHANGED: Final = f"{MASK} (changed)"


class Action(Enum):
    """The kind of change to a connector."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key's value; None where the key is absent."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one connector, with the keys that change, sorted."""

    name: str
    action: Action
    keys: tuple[KeyChange, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """For --output json and yaml."""
        keys = [{"key": k.key, "before": k.before, "after": k.after} for k in self.keys]
        return {"name": self.name, "action": self.action.value, "keys": keys}


def plan(wanted: Mapping[str, Config], there: Mapping[str, Config], *, prune: bool = False) -> list[Change]:
    """The changes from the existing configs (`there`) to the wanted ones, by name; deletions come last, and only with
    `prune`.
    """
    changes = [_change(name, config, there.get(name)) for name, config in sorted(wanted.items())]
    gone = sorted(there.keys() - wanted.keys()) if prune else []
    return [*changes, *(Change(name, Action.DELETE) for name in gone)]


def masked(change: Change, mask: Mask) -> Change:
    """The change with its secrets hidden; two different hidden values are marked as different."""
    keys = []
    for k in change.keys:
        before = None if k.before is None else mask(k.key, k.before)
        after = None if k.after is None else mask(k.key, k.after)
        if before == after:
            after = _CHANGED if after == MASK else f"{after} (changed; partly hidden)"
        keys.append(KeyChange(k.key, before, after))
    return Change(change.name, change.action, tuple(keys))


def counts(changes: Iterable[Change]) -> str:
    """A summary in words: 1 to create, 2 to change, 3 unchanged."""
    words = {Action.CREATE: "to create", Action.CHANGE: "to change", Action.DELETE: "to delete",
             Action.NONE: "unchanged"}
    actions = [change.action for change in changes]
    return ", ".join(f"{actions.count(action)} {word}" for action, word in words.items() if action in actions)


def _change(name: str, config: Config, before: Config | None) -> Change:
    old: Config = before if before is not None else {}
    keys = tuple(KeyChange(key, old.get(key), config.get(key)) for key in sorted(old.keys() | config.keys())
                 if old.get(key) != config.get(key))
    if before is None:
        return Change(name, Action.CREATE, keys)
    return Change(name, Action.CHANGE if keys else Action.NONE, keys)
