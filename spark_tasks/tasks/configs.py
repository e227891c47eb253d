"""Turns what a connector's `task_configs` returns into the task configurations for the config topic."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_tasks.config.connector_keys import COMMON
from spark_tasks.config.definition import ConfigDef
from spark_tasks.config.masking import ALONE, ANYWHERE
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins.config_providers import ResolvedConfig

if TYPE_CHECKING:
    from spark_tasks.plugins.api import Connector

log = logging.getLogger(__name__)
_PLACEHOLDER = re.compile(r"\$\{[^}]*?:[^}]*?\}")  # of a config provider (KIP-297)
_LIMITS = ConfigDef(COMMON.keys["tasks.max"], COMMON.keys["tasks.max.enforce"])
_COPIED = ("topics", "topics.regex")  # a sink's tasks need to know what to read


class TooManyTasksError(ConnectError):
    """More tasks than `tasks.max` (KIP-1004); a retry will not help."""

    permanent = True

    def __init__(self, connector: str, tasks: int, most: int) -> None:
        super().__init__(
            f"The connector {connector} has generated {tasks} tasks, which is greater than {most}, the maximum number "
            "of tasks it is configured to create. This is a defect of the connector; until it is fixed, "
            "tasks.max.enforce=false in its configuration permits it."
        )


def check_tasks_max(connector: str, tasks: int, config: Mapping[str, str]) -> None:
    """Raise TooManyTasksError if the connector has more tasks than `tasks.max`; log a warning if that is permitted.

    `config`: the connector's, resolved. Called also before tasks start, as an older worker may have made them.
    """
    limits = _LIMITS.parse(config)
    if tasks <= limits["tasks.max"]:
        return
    error = TooManyTasksError(connector, tasks, limits["tasks.max"])
    if limits["tasks.max.enforce"]:
        raise error
    log.warning("%s", error)


def make_task_configs(
    connector: str, instance: Connector, class_name: str, raw: Mapping[str, str], resolved: Mapping[str, str],
    wanted: int | None = None,
) -> tuple[dict[str, str], ...]:
    """Ask the plugin, check the number of tasks, add what tasks need, and replace secrets by their placeholders.

    `class_name`: the connector's as REST shows it; `raw` and `resolved`: its configuration; `wanted`: the wanted number
    of tasks, by default `tasks.max`. Raises TooManyTasksError, ConfigError if the plugin does not return a list of
    mappings of texts, and whatever the plugin raises.
    """
    answered = instance.task_configs(wanted or _LIMITS.parse(resolved)["tasks.max"])
    if not isinstance(answered, Sequence):
        raise ConfigError(f"{connector}: task_configs must return a list of mappings, not a {type(answered).__name__}")
    check_tasks_max(connector, len(answered), resolved)
    secrets = {key for key, value in raw.items() if value is not None and _PLACEHOLDER.search(value)}
    extra = {key: resolved[key] for key in _COPIED if key in resolved}
    back = resolved.placeholders if isinstance(resolved, ResolvedConfig) else {}

    def stored(key: str, value: str) -> str:
        if key in secrets:
            return raw[key]
        return value if raw.get(key) == value else _put_back(value, back)

    tasks = [{key: stored(key, value) for key, value in _checked(connector, config).items()} for config in answered]
    own_class = getattr(instance, "task_class", None) or task_class(class_name)
    added = {"task.class": own_class, **{k: raw[k] if k in secrets else v for k, v in extra.items()}}
    return tuple({**task, **added} for task in tasks)


def _put_back(value: str, placeholders: Mapping[str, str]) -> str:
    """A value that a plugin made with a provider's value (a URL with a password, for example), with placeholders, so
    that it can be stored. They are resolved again when the task starts.
    """
    if len(value) >= ALONE and value in placeholders:
        return placeholders[value]
    for given in sorted(placeholders, key=len, reverse=True):
        if len(given) >= ANYWHERE:
            value = value.replace(given, placeholders[given])
    return value


def task_class(connector_class: str) -> str:
    """The class name for `task.class`; for the name of a Java connector that of its task in Java."""
    return connector_class.removesuffix("Connector") + "Task"


def _checked(connector: str, config: Any) -> Mapping[str, str]:
    if not isinstance(config, Mapping):
        raise ConfigError(f"{connector}: task_configs must return mappings, not a {type(config).__name__}")
    wrong = [key for key, value in config.items() if not isinstance(key, str) or not isinstance(value, str)]
    if wrong:
        raise ConfigError(f"{connector}: task_configs must return text, which {', '.join(map(str, wrong))} is not")
    return config
