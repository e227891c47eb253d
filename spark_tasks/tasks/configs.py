"""Turns the result of a connector's `task_configs` into the task configurations for the config topic."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from spark_tasks.config.connector_keys import COMMON
from spark_tasks.config.definition import ConfigDef
from spark_tasks.config.masking import ALONE, ANYWHERE
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins.api import Connector
from spark_tasks.plugins.config_providers import ResolvedConfig, has_placeholder
from spark_tasks.plugins.connector_instance import ConnectorInstance

_logger = logging.getLogger(__name__)
_LIMITS = ConfigDef(COMMON.keys["tasks.max"], COMMON.keys["tasks.max.enforce"])
_COPIED = ("topics", "topics.regex")  # from the connector's configuration to that of a sink's tasks


class TooManyTasksError(ConnectError):
    """The connector generated more tasks than `tasks.max` allows (KIP-1004)."""

    permanent = True

    def __init__(self, connector: str, tasks: int, max_tasks: int) -> None:
        super().__init__(
            f"The connector {connector} has generated {tasks} tasks, which is greater than {max_tasks}, the maximum "
            "number of tasks it is configured to create. This is a bug in the connector; until it is fixed, "
            "tasks.max.enforce=false in its configuration permits it."
        )


def check_tasks_max(connector: str, tasks: int, config: Mapping[str, str]) -> None:
    """Raises TooManyTasksError if `tasks` exceeds `tasks.max`; only logs a warning if tasks.max.enforce is false.

    `config`: the connector's configuration, resolved. Also called before tasks start, because a worker of another
    version may have generated their configurations.
    """
    limits = _LIMITS.parse(config)
    if tasks <= limits["tasks.max"]:
        return
    error = TooManyTasksError(connector, tasks, limits["tasks.max"])
    if limits["tasks.max.enforce"]:
        raise error
    _logger.warning("%s", error)


def make_task_configs(
    connector: str, instance: Connector | ConnectorInstance, class_name: str, raw: Mapping[str, str],
    resolved: Mapping[str, str], wanted: int | None = None,
) -> tuple[dict[str, str], ...]:
    """Returns the task configurations of a connector, as they are written to the config topic.

    Asks the plugin, checks the number of tasks, adds the settings that all tasks need, and replaces secrets with their
    placeholders. `class_name`: the connector's class as REST shows it. `raw` and `resolved`: the connector's
    configuration with and without placeholders. `wanted`: the number of tasks to ask for, by default `tasks.max`.
    Raises TooManyTasksError, ConfigError if the result is not a list of mappings of strings, and the plugin's errors.
    """
    generated = instance.task_configs(wanted or _LIMITS.parse(resolved)["tasks.max"])
    if not isinstance(generated, Sequence):
        raise ConfigError(f"{connector}: task_configs must return a list of mappings, not a {type(generated).__name__}")
    check_tasks_max(connector, len(generated), resolved)
    secrets = {key for key, value in raw.items() if value is not None and has_placeholder(value)}
    extra = {key: resolved[key] for key in _COPIED if key in resolved}
    placeholders = resolved.placeholders if isinstance(resolved, ResolvedConfig) else {}

    def stored(key: str, value: str) -> str:
        if key in secrets:
            return raw[key]
        return value if raw.get(key) == value else _with_placeholders(value, placeholders)

    tasks = [{key: stored(key, value) for key, value in _checked(connector, config).items()} for config in generated]
    own_class = getattr(instance, "task_class", None) or task_class(class_name)
    added = {"task.class": own_class, **{k: raw[k] if k in secrets else v for k, v in extra.items()}}
    return tuple({**task, **added} for task in tasks)


def _with_placeholders(value: str, placeholders: Mapping[str, str]) -> str:
    """Replaces values of config providers in a value that the plugin composed (such as a URL with a password), so that
    it can be stored. The placeholders are resolved again when the task starts.
    """
    if len(value) >= ALONE and value in placeholders:
        return placeholders[value]
    for secret in sorted(placeholders, key=len, reverse=True):
        if len(secret) >= ANYWHERE:
            value = value.replace(secret, placeholders[secret])
    return value


def task_class(connector_class: str) -> str:
    """Returns the value of `task.class`. For the name of a Java connector class, it is that of Java's task class."""
    return connector_class.removesuffix("Connector") + "Task"


def _checked(connector: str, config: Any) -> Mapping[str, str]:
    if not isinstance(config, Mapping):
        raise ConfigError(f"{connector}: task_configs must return mappings, not a {type(config).__name__}")
    wrong = [key for key, value in config.items() if not isinstance(key, str) or not isinstance(value, str)]
    if wrong:
        raise ConfigError(f"{connector}: task_configs must return strings only; check {', '.join(map(str, wrong))}")
    return config
