"""The keys of transformations and predicates. Each alias has keys for its type and version, and those of its plugin."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_tasks.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigValue,
    Importance,
    Type,
    Width,
    parse_type,
)
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.validation.plugin_keys import (
    Apart,
    RecommendedValues,
    add_version_error,
    check_class,
    config_def_of,
    examiner_of,
    has_third_party_functions,
    lookup,
    version_error,
)

_logger = logging.getLogger(__name__)
_IMPLICIT = ConfigDef(  # of every transformation; they replace keys of the same names of the plugin (KIP-585)
    ConfigKey("predicate", Type.STRING, default=None,
              doc="The alias of the predicate that selects the records to transform."),
    ConfigKey("negate", Type.BOOLEAN, default=False,
              doc="Whether to transform the records that the predicate does not match instead."),
)


@dataclass(frozen=True, slots=True)
class Link:
    """An alias in `transforms` or `predicates`."""

    list_key: str
    alias: str
    kind: Kind

    @property
    def prefix(self) -> str:
        """The prefix of the keys of this alias."""
        return f"{self.list_key}.{self.alias}."

    @property
    def type_key(self) -> str:
        """The key with the plugin's class."""
        return self.prefix + "type"

    @property
    def version_key(self) -> str:
        """The key with the plugin's version."""
        return self.prefix + "plugin.version"


def links(props: Mapping[str, Any]) -> list[Link]:
    """Returns the distinct aliases, transformations first. Raises ConfigError."""
    listed = []
    for list_key, kind in (("transforms", Kind.TRANSFORMATION), ("predicates", Kind.PREDICATE)):
        aliases = parse_type(list_key, props.get(list_key), Type.LIST) or []
        listed += [Link(list_key, alias, kind) for alias in dict.fromkeys(aliases)]
    return listed


def chain_def(link: Link, props: Mapping[str, Any], plugins: Plugins) -> ConfigDef:
    """Returns the keys of one alias; only its type and version if the plugin is unknown or cannot be used."""
    group = f"{link.list_key.capitalize()}: {link.alias}"
    word = link.kind.interface
    plugin = lookup(plugins, link.kind, props.get(link.type_key), props.get(link.version_key))
    versions = tuple(plugins.versions(plugin)) if plugin else ()
    definition = ConfigDef(
        ConfigKey(link.type_key, Type.CLASS, importance=Importance.HIGH, group=group, order=0, width=Width.LONG,
                  display_name=f"{word} type for {link.alias}",
                  recommender=RecommendedValues(tuple(plugins.names(link.kind))),
                  doc=f"The plugin of {word.lower()} '{link.alias}'."),
        ConfigKey(link.version_key, Type.STRING, default=versions[-1] if versions else None, group=group, order=1,
                  importance=Importance.HIGH, width=Width.LONG, display_name=f"{word} version for {link.alias}",
                  recommender=RecommendedValues(versions),
                  doc="The required version, or range of versions, of the plugin."),
    )
    if plugin is None or version_error(plugins, plugin, props.get(link.version_key)):
        return definition
    try:
        own = config_def_of(plugin) or ConfigDef()
    except ConfigError as e:
        _logger.warning("%s", e)  # check_link adds the error to the type key
        return definition
    if has_third_party_functions(own):  # which check_link has called elsewhere
        own = own.without_functions()
    if link.kind is Kind.TRANSFORMATION:
        own = _IMPLICIT.plus(*(key for key in own.keys.values() if key.name not in _IMPLICIT))
    return definition.embed(link.prefix, group, own, order=2)


def check_link(link: Link, props: Mapping[str, Any], plugins: Plugins, values: Mapping[str, ConfigValue],
               apart: Apart) -> None:
    """Adds errors of the alias's plugin to the values."""
    negate, predicate = link.prefix + "negate", link.prefix + "predicate"
    type_value = values[link.type_key]
    if link.kind is Kind.TRANSFORMATION and negate in props and predicate not in props:
        type_value.errors.append(
            f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
        )
    version = props.get(link.version_key)
    plugin = check_class(type_value, link.kind, plugins, version)
    if plugin is None:
        return
    add_version_error(plugins, plugin, type_value, values[link.version_key])
    try:
        examine = examiner_of(plugin, apart)
    except ConfigError as e:
        type_value.errors.append(f"Error getting config definition from {link.kind.interface}: {e}")
        return
    if examine is not None and not version_error(plugins, plugin, version):
        own = {key.removeprefix(link.prefix): text for key, text in props.items() if key.startswith(link.prefix)}
        java = hasattr(plugin.cls, "examine")
        _add(values, link.prefix, (one for one in examine(own) if java or one.name not in _IMPLICIT))


def _add(values: Mapping[str, ConfigValue], prefix: str, found: Iterable[ConfigValue]) -> None:
    for one in found:
        value = values.get(prefix + one.name)
        if value is not None:
            # heeler has already reported the first one if the value is missing or has the wrong type.
            value.errors += one.errors[1:] if value.errors else one.errors
            value.recommended_values, value.visible = one.recommended_values, one.visible
