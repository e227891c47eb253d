"""Validates a connector's whole configuration, for PUT …/config/validate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spark_tasks.config import restart_policy, scaling
from spark_tasks.config.connector_keys import COMMON, SINK, SOURCE
from spark_tasks.config.definition import ConfigDef, ConfigError, ConfigValue
from spark_tasks.config.masking import hide_passwords
from spark_tasks.config.types import shown
from spark_tasks.plugins import Kind, PluginNotFoundError, Plugins, PluginVersionError
from spark_tasks.plugins.third_party import is_third_party
from spark_tasks.validation.chain import chain_def, check_link, links
from spark_tasks.validation.common_keys import CONVERTERS, Subject, base_def, check_base, note_nulls
from spark_tasks.validation.infos import ConfigInfos, merged, of_keys, under_prefix
from spark_tasks.validation.overrides import clients_of, validate_overrides
from spark_tasks.validation.plugin_keys import (
    Apart,
    call_here,
    config_def_of,
    examiner_of,
    has_third_party_functions,
    lookup,
)
from spark_tasks.validation.provider_values import ProviderValues
from spark_tasks.validation.rules import check_scaling, check_sink, check_source
from spark_tasks.validation.runtimes import check_runtimes
from spark_tasks.validation.settings import ValidationSettings

Resolve = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Replaces the placeholders of config providers; raises ConfigError."""


class NoConnectorClassError(ConfigError):
    """The configuration has no connector.class."""


class NoConfigDefError(ConfigError):
    """The connector's class does not say which configuration it has. As in Kafka Connect, that is a bad request."""


def validate_connector(
    config: Mapping[str, str | None],
    *,
    plugins: Plugins,
    worker: ValidationSettings,
    resolve: Resolve = dict,
    stage: Callable[[str], None] = lambda _: None,
    apart: Apart = call_here,
) -> ConfigInfos:
    """Returns every key with its value and errors. Runs plugin code, which may hang or raise.

    `apart` calls functions of third parties. `resolve` replaces placeholders. `stage` is called with a description of
    the next step, for the message of a timeout. The result does not contain values of config providers. (In Kafka
    Connect it does, so that a client of REST can read any secret that the worker can.) Raises NoConnectorClassError,
    PluginNotFoundError (unknown connector class), ConfigError (invalid placeholder).
    """
    stage("resolving transformed configuration properties for the connector")
    props = resolve(config)
    given = ProviderValues(config, props)
    try:
        return given.hidden(_validated(config, props, plugins, worker, stage, apart))
    except Exception as error:
        masked = given.masked(error)
        if masked is error:
            raise
        raise masked from None


def _validated(
    config: Mapping[str, str | None], props: Mapping[str, Any], plugins: Plugins, worker: ValidationSettings,
    stage: Callable[[str], None], apart: Apart,
) -> ConfigInfos:
    name = props.get("connector.class")
    if name is None:
        pairs = ", ".join(f"{key}={shown(value)}" for key, value in config.items())
        raise NoConnectorClassError(f"Connector config {{{pairs}}} contains no connector type")
    stage("loading the connector's plugin")
    version = props.get("connector.plugin.version")
    try:
        subject = Subject(plugins.find(Kind.CONNECTOR, name, version), props, plugins, worker, apart)
    except (PluginVersionError, ConfigError):
        return _unfit_version(name, Subject(plugins.find(Kind.CONNECTOR, name), props, plugins, worker))
    hide_passwords(None, props, subject.plugin.cls)
    kind = "sink" if subject.is_sink else "source"
    stage(f"validating {kind} connector-specific properties for the connector")
    definition, values = _framework(subject)
    stage("performing multi-property validation for the connector")
    own_def, own_values = _own(subject)
    stage("validating the connector's converters and client overrides")
    parts = [
        of_keys(
            name,
            {**definition.keys, **own_def.keys},
            [*values.values(), *own_values.values()],
            list(dict.fromkeys((*definition.groups, *own_def.groups))),
        )
    ]
    clients = clients_of(props, sink=subject.is_sink, exactly_once_worker=worker.exactly_once)
    parts += [validate_overrides(client, props, worker) for client in clients]
    return merged(name, [*parts, *_converters(subject, values)])


def _unfit_version(name: str, subject: Subject) -> ConfigInfos:
    """Validates only the common keys, because the required version of the connector does not exist (KIP-891)."""
    definition = base_def(subject, COMMON, with_worker=False)
    values = definition.validate_all(subject.props)
    check_base(subject, values)
    note_nulls(subject.props, values)
    return of_keys(name, definition.keys, values.values(), definition.groups)


def _framework(subject: Subject) -> tuple[ConfigDef, dict[str, ConfigValue]]:
    chain = links(subject.props)
    definition = base_def(subject, SINK if subject.is_sink else SOURCE)
    if restart_policy.is_configured(subject.props):  # otherwise the keys are exactly Kafka Connect's
        definition = definition.plus(restart_policy.CONNECTOR)
    if scaling.is_configured(subject.props):
        definition = definition.plus(scaling.SCALING)
    definition = definition.plus(*(chain_def(link, subject.props, subject.plugins) for link in chain))
    values = definition.validate_all(subject.props)
    check_base(subject, values)
    for link in chain:
        check_link(link, subject.props, subject.plugins, values, subject.apart)
    (check_sink if subject.is_sink else check_source)(subject, values)
    check_scaling(subject, values)
    check_runtimes(subject, chain, values)
    note_nulls(subject.props, values)
    return definition, values


def _own(subject: Subject) -> tuple[ConfigDef, dict[str, ConfigValue]]:
    """Validates the plugin's own keys and, if all are valid, calls its `validate`."""
    definition = config_def_of(subject.plugin)
    if definition is None:
        raise NoConfigDefError(f"{subject.plugin.name} has no config_def: set it in the class, to ConfigDef() if the "
                               "connector has no settings of its own")
    if (examine := getattr(subject.plugin.cls, "examine", None)) is not None:  # a Java plugin, which the host validates
        found = {v.name: v for v in examine({k: text for k, text in subject.props.items() if text is not None})}
        note_nulls({key: value for key, value in subject.props.items() if key in found}, found)
        return definition, found
    foreign = is_third_party(subject.plugin.cls.validate) or has_third_party_functions(definition)
    call, plugin = subject.apart if foreign else call_here, subject.plugin
    values: dict[str, ConfigValue] = call(plugin.cls, _own_values, plugin.name, plugin.cls, dict(subject.props))
    return definition, values


def _own_values(name: str, connector: type[Any], props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
    values: dict[str, ConfigValue] = connector.config_def.validate_all(props)
    note_nulls({key: value for key, value in props.items() if key in values}, values)
    if any(value.errors for value in values.values()):
        return values
    given = {key: value for key, value in props.items() if value is not None}
    returned = connector.validate(given)
    if not isinstance(returned, Mapping):
        raise ConfigError(f"{name}.validate() returns a {type(returned).__name__}; it must return lists of messages by "
                          "key, {} if there are none")
    for key, messages in returned.items():
        errors = [messages] if isinstance(messages, str) else messages
        values.setdefault(key, ConfigValue(key, given.get(key))).errors.extend(errors)
    return values


def _converters(subject: Subject, values: Mapping[str, ConfigValue]) -> Iterator[ConfigInfos]:
    """Validates the keys of the converters that the connector sets, not those of the worker's converters."""
    for key in ("header.converter", "key.converter", "value.converter"):
        if subject.props.get(key) is None or values[key].errors:
            continue
        version = subject.props.get(f"{key}.plugin.version")
        plugin = lookup(subject.plugins, CONVERTERS[key], subject.props[key], version)
        definition = None if plugin is None else config_def_of(plugin)
        if plugin is None or definition is None:
            continue
        prefix = key + "."
        own = {k.removeprefix(prefix): v for k, v in subject.props.items() if k.startswith(prefix)}
        own.setdefault("converter.type", key.partition(".")[0])
        examine = examiner_of(plugin, subject.apart) or definition.validate
        yield under_prefix(definition.keys, examine(own), prefix)


def plugin_config(plugins: Plugins, name: str, version: str | None = None) -> list[dict[str, Any]]:
    """Returns the body of GET /connector-plugins/{name}/config: the plugin's keys and, for a connector, the common
    ones.

    Raises PluginNotFoundError, and ConfigError if no version of the plugin meets `version`, or for a config provider.
    """
    plugin = plugins.search(name)
    if plugin is None:
        raise PluginNotFoundError(f"Unknown plugin {name}.")
    if plugin.kind is Kind.CONFIG_PROVIDER:
        raise ConfigError(f"Invalid plugin class {name}. Valid types are sink, source, converter, header_converter, "
                          "transformation, predicate.")
    try:
        chosen = plugins.find(plugin.kind, plugin.name, version)
    except PluginVersionError as error:
        raise ConfigError(str(error)) from error
    own = config_def_of(chosen) or ConfigDef()
    if chosen.kind is not Kind.CONNECTOR:
        return own.key_infos()
    subject = Subject(chosen, {}, plugins, ValidationSettings())
    common = base_def(subject, SINK if subject.is_sink else SOURCE, with_worker=False)
    # A connector that defines a common key itself, such as errors.tolerance, describes it better.
    return own.key_infos() + [info for info in common.key_infos() if info["name"] not in own]
