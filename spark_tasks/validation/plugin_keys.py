"""Validates keys whose value is a plugin: its existence, kind and version. Recommends plugins and versions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigError, ConfigValue, Recommender, invalid
from spark_tasks.config.validators import functions_of
from spark_tasks.plugins import Kind, Plugin, PluginNotFoundError, Plugins, PluginVersionError
from spark_tasks.plugins.third_party import is_third_party

Apart = Callable[..., Any]
"""Calls a function that runs code of a third party's plugin where it cannot harm the worker. Arguments: the plugin's
class, the function, and the function's arguments.
"""


def call_here(_plugin: type[Any], function: Callable[..., Any], *arguments: Any) -> Any:
    """The Apart where there is no worker that could be harmed."""
    return function(*arguments)


@dataclass(frozen=True, slots=True)
class RecommendedValues(Recommender):
    """Recommends fixed values and has a fixed visibility, independent of other keys."""

    values: tuple[Any, ...]
    show: bool = True

    @override
    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self.values

    @override
    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self.show


def lookup(plugins: Plugins, kind: Kind, name: str | None, version: str | None = None) -> Plugin | None:
    """Returns the plugin in the newest version that meets `version` or, if none does, in its newest version
    (`version_error` then returns an error). Returns None if the name is None or unknown.
    """
    if name is None:
        return None
    for wanted in (version, None):
        with suppress(PluginNotFoundError, ConfigError):
            return plugins.get(kind, name, wanted)
    return None


def check_class(value: ConfigValue, kind: Kind, plugins: Plugins, version: str | None = None) -> Plugin | None:
    """Replaces the name in the value with the class name that REST shows, and adds errors to the value. Returns the
    plugin if it can be used, else None.
    """
    name = value.value
    if name is None:
        return None
    plugin = lookup(plugins, kind, name, version)
    if plugin is None:
        _explain(value, kind, plugins)
        return None
    value.value = plugin.name
    if inspect.isabstract(plugin.cls):
        value.errors.append("This class is abstract and cannot be created.")
        return None
    return plugin


def _explain(value: ConfigValue, kind: Kind, plugins: Plugins) -> None:
    name = value.value
    nested = [n for n in plugins.names(kind) if n.startswith(f"{name}$")]
    other = None if nested else plugins.search(name)
    if nested:
        value.errors.append(f"This class is abstract and cannot be created. Did you mean {', '.join(nested)}?")
    elif other is not None:
        value.value = other.name
        value.errors.append(f"Class class {other.name} does not implement the {kind.interface} interface")
    else:
        value.value = None
        value.errors.append(_not_found(value.name, name, kind, plugins))


def _not_found(key: str, name: str, kind: Kind, plugins: Plugins) -> str:
    reason = f"Class {name} could not be found.\n{plugins.advice(kind, name)}"
    try:
        plugins.get(kind, name)
    except PluginNotFoundError as e:  # several plugins have the name, or its module cannot be imported
        reason = str(e)
    return str(invalid(key, name, reason))


def version_error(plugins: Plugins, plugin: Plugin, version: str | None) -> str | None:
    """Returns an error if no version of the plugin meets `version` (KIP-891), else None."""
    try:
        plugins.get(plugin.kind, plugin.name, version)
    except (PluginVersionError, ConfigError) as e:
        return str(e)
    return None


def add_version_error(plugins: Plugins, plugin: Plugin, named: ConfigValue, version: ConfigValue) -> None:
    """Adds an error of the version to both keys."""
    wrong = version_error(plugins, plugin, version.value)
    if wrong:
        named.errors.append(wrong)
        version.errors.append(wrong)


def config_def_of(plugin: Plugin) -> ConfigDef | None:
    """Returns the plugin's own keys, or None. Raises ConfigError if `config_def` is not a ConfigDef."""
    definition = getattr(plugin.cls, "config_def", None)
    if definition is None or isinstance(definition, ConfigDef):
        return definition
    raise ConfigError(f"{plugin.name}.config_def must be a ConfigDef, not a {type(definition).__name__}")


def examiner_of(plugin: Plugin, apart: Apart) -> Callable[[Mapping[str, Any]], list[ConfigValue]] | None:
    """Returns what validates a plugin's keys elsewhere: those of a Java plugin its host, those that a third party's
    functions validate `apart`. Returns None for all others.
    """
    examine: Callable[[Mapping[str, Any]], list[ConfigValue]] | None = getattr(plugin.cls, "examine", None)
    if examine is not None:
        return examine
    definition = config_def_of(plugin)
    if definition is None or not has_third_party_functions(definition):
        return None
    return partial(apart, plugin.cls, _values_of, plugin.cls)


def has_third_party_functions(definition: ConfigDef) -> bool:
    """Returns whether a third party has written a validator or recommender of a key."""
    return any(is_third_party(function) for key in definition.keys.values()
               for function in (*functions_of(key.validator), *filter(None, [key.recommender])))


def _values_of(plugin: type[Any], props: Mapping[str, Any]) -> list[ConfigValue]:
    values: list[ConfigValue] = plugin.config_def.validate(props)
    return values
