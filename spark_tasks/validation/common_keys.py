"""Kafka Connect's keys for one connector, with defaults, recommendations and checks that depend on the worker's
plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_tasks.config.definition import ConfigDef, ConfigKey, ConfigValue
from spark_tasks.plugins import Kind, Plugin, Plugins
from spark_tasks.plugins.third_party import is_third_party
from spark_tasks.validation.plugin_keys import (
    Apart,
    RecommendedValues,
    add_version_error,
    call_here,
    check_class,
    lookup,
    version_error,
)
from spark_tasks.validation.settings import ValidationSettings

CONVERTERS = {
    "key.converter": Kind.CONVERTER,
    "value.converter": Kind.CONVERTER,
    "header.converter": Kind.HEADER_CONVERTER,
}
SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True, slots=True)
class Subject:
    """The connector to validate: its plugin and resolved properties, the worker's plugins and settings, and what calls
    third parties' functions.
    """

    plugin: Plugin
    props: Mapping[str, str | None]
    plugins: Plugins
    worker: ValidationSettings
    apart: Apart = call_here

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of the plugin, apart if it is a third party's."""
        return (self.apart if is_third_party(function) else call_here)(self.plugin.cls, function, *arguments)

    @property
    def is_sink(self) -> bool:
        """Whether the connector is a sink."""
        return self.plugin.type == "sink"


def base_def(subject: Subject, static: ConfigDef, *, with_worker: bool = True) -> ConfigDef:
    """Returns the keys `static` with the connector's version as a default and, if `with_worker`, also the worker's
    converters.
    """
    changed = {}
    versions = subject.plugins.versions(subject.plugin)
    key = static.keys["connector.plugin.version"]
    changed[key.name] = replace(key, default=versions[-1], recommender=RecommendedValues(tuple(versions)))
    for name, kind in CONVERTERS.items():
        changed.update(_converter_keys(subject, static, name, kind, with_worker=with_worker))
    return ConfigDef(*(changed.get(name, key) for name, key in static.keys.items()))


def _converter_keys(
    subject: Subject, static: ConfigDef, name: str, kind: Kind, *, with_worker: bool
) -> dict[str, ConfigKey]:
    fallback = SIMPLE_HEADERS if kind is Kind.HEADER_CONVERTER else None
    default = lookup(subject.plugins, kind, subject.worker.converters.get(name, fallback)) if with_worker else None
    chosen = lookup(subject.plugins, kind, subject.props[name]) if subject.props.get(name) is not None else default
    class_key, version_key = static.keys[name], static.keys[f"{name}.plugin.version"]
    versions = tuple(subject.plugins.versions(chosen)) if chosen else ()
    given = subject.props.get(name)
    known = chosen is not None or (given is not None and subject.plugins.search(given) is not None)
    names = tuple(subject.plugins.names(kind))
    return {
        class_key.name: replace(class_key, default=default and default.name, recommender=RecommendedValues(names)),
        version_key.name: replace(
            version_key, default=versions[-1] if versions else None, recommender=RecommendedValues(versions, show=known)
        ),
    }


def check_base(subject: Subject, values: Mapping[str, ConfigValue]) -> None:
    """Adds errors of converters and plugin versions to the values."""
    wrong = version_error(subject.plugins, subject.plugin, subject.props.get("connector.plugin.version"))
    if wrong:
        values["connector.class"].errors.append(wrong)
        values["connector.plugin.version"].errors.append(wrong)
    for name, kind in CONVERTERS.items():
        plugin = check_class(values[name], kind, subject.plugins)
        if plugin is not None and subject.props.get(name) is not None:
            add_version_error(subject.plugins, plugin, values[name], values[f"{name}.plugin.version"])


def note_nulls(props: Mapping[str, Any], values: dict[str, ConfigValue]) -> None:
    """Adds an error for each null. (In a PATCH request null removes a key, but it is not a valid value.)"""
    for name, value in props.items():
        if value is None:
            entry = values.setdefault(name, ConfigValue(name))
            entry.errors.append("Null value can not be supplied as the configuration value.")
