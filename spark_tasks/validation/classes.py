"""Keys whose value is a plugin: whether it exists, with the right kind and version, and what to recommend."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigError, ConfigValue, Recommender, invalid
from spark_tasks.plugins import Kind, Plugin, PluginNotFoundError, Plugins, PluginVersionError


@dataclass(frozen=True, slots=True)
class Values(Recommender):
    """Recommends the same values, and is visible or not, whatever the other keys' values are."""

    values: tuple[Any, ...]
    show: bool = True

    @override
    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self.values

    @override
    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self.show


def lookup(plugins: Plugins, kind: Kind, name: str | None, version: str | None = None) -> Plugin | None:
    """The plugin in the newest version that fits, or, if none does, in its newest (then `version_error` is not None).
    None if the name is None or unknown.
    """
    if name is None:
        return None
    for wanted in (version, None):
        with suppress(PluginNotFoundError, ConfigError):
            return plugins.get(kind, name, wanted)
    return None


def check_class(value: ConfigValue, kind: Kind, plugins: Plugins, version: str | None = None) -> Plugin | None:
    """Replace the name in the value by the class name that REST shows, and add errors to the value.

    Returns the plugin if it can be used.
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
    except PluginNotFoundError as e:  # several have the name, or it cannot be imported
        reason = str(e)
    return str(invalid(key, name, reason))


def version_error(plugins: Plugins, plugin: Plugin, version: str | None) -> str | None:
    """An error if no version of the plugin fits (KIP-891), else None."""
    try:
        plugins.get(plugin.kind, plugin.name, version)
    except (PluginVersionError, ConfigError) as e:
        return str(e)
    return None


def add_version_error(plugins: Plugins, plugin: Plugin, named: ConfigValue, version: ConfigValue) -> None:
    """Add an error about the version to both keys."""
    wrong = version_error(plugins, plugin, version.value)
    if wrong:
        named.errors.append(wrong)
        version.errors.append(wrong)


def config_def_of(plugin: Plugin) -> ConfigDef | None:
    """The plugin's own keys. Raises ConfigError if `config_def` is not a ConfigDef."""
    definition = getattr(plugin.cls, "config_def", None)
    if definition is None or isinstance(definition, ConfigDef):
        return definition
    raise ConfigError(f"{plugin.name}.config_def must be a ConfigDef, not a {type(definition).__name__}")
