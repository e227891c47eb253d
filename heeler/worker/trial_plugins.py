"""The plugins of a trial (`heeler try`, `heeler run`, POST /connectors/try). Trials run only Python plugins; Java
plugins are known by name, so that a trial of one fails with a clear message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from heeler.java_host.runtime import JavaRuntime
from heeler.java_host.settings import JavaHostSettings
from heeler.worker.keys.worker import HOST_KEYS
from heeler.worker.part_settings import trial_settings
from spark_tasks.config.connector_keys import aliases
from spark_tasks.config.types import Type, parse_type
from spark_tasks.errors import ConfigError
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.plugins.advice import READ_AT_START
from spark_tasks.plugins.chain_cut import is_java
from spark_tasks.validation.connector import validate_connector

_UNNAMED = "trial"  # a connector need not have a name to be tried
_CONVERTERS = {"key.converter": Kind.CONVERTER, "value.converter": Kind.CONVERTER,
               "header.converter": Kind.HEADER_CONVERTER}


def plugins_for_trial(
    worker: Mapping[str, str], config: Mapping[str, str], where_found: str = READ_AT_START
) -> Plugins:
    """The plugins in the folders of the worker's `plugin.path`. A connector's own does not count: whoever may create
    connectors would choose the code that the worker runs. `where_found`: see Plugins.

    Raises ConfigError if a plugin is in a jar, and with all messages if a worker would refuse the configuration;
    PluginNotFoundError; and any error that a plugin's validation raises.
    """
    folders = parse_type("plugin.path", worker.get("plugin.path", ""), Type.LIST)
    java = JavaRuntime(JavaHostSettings.of(HOST_KEYS.parse(worker), {}), folders)
    try:
        plugins = Plugins(folders, others=java.found, complaints=java.complaints, passed_over=java.passed_over,
                          where_found=where_found)
        for key, kind, name in _named(worker, config):
            plugin = plugins.get(kind, name)
            if plugin is not None and is_java(plugin):
                raise ConfigError(f"{key}: {plugin.name} is a Java plugin. A trial runs only Python plugins; create "
                                  "the connector on a worker to run it")
    finally:
        java.close()
    _validate(plugins, worker, config)
    return plugins


def _validate(plugins: Plugins, worker: Mapping[str, str], config: Mapping[str, str]) -> None:
    infos = validate_connector({"name": _UNNAMED, **config}, plugins=plugins, worker=trial_settings(worker))
    if infos.error_count:
        raise ConfigError("\n  ".join(("The configuration is invalid:", *infos.errors())))


def _named(worker: Mapping[str, str], config: Mapping[str, str]) -> Iterator[tuple[str, Kind, str]]:
    """Key, kind and name of each plugin that a connector uses."""
    yield "connector.class", Kind.CONNECTOR, config.get("connector.class", "")
    for key, kind in _CONVERTERS.items():
        yield key, kind, config.get(key) or worker.get(key, "")
    for part, kind in (("transforms", Kind.TRANSFORMATION), ("predicates", Kind.PREDICATE)):
        for alias in aliases(config, part):
            yield f"{part}.{alias}.type", kind, config.get(f"{part}.{alias}.type", "")
