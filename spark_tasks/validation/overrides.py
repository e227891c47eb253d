"""Validates a connector's client overrides (producer.override.*, …), according to the worker's policy (KIP-458)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from spark_tasks.config.client_keys import client_config_def
from spark_tasks.config.definition import ConfigError, ConfigValue, parse_type
from spark_tasks.config.types import Type
from spark_tasks.config.unsupported import refused
from spark_tasks.kafka.client_properties import Kind, client_properties
from spark_tasks.validation.infos import ConfigInfos, under_prefix

_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_POLICY = "connector.client.config.override.policy"
_CLASS = re.compile(r"org\.apache\.kafka\.connect\.connector\.policy\.(\w+)ConnectorClientConfigOverridePolicy")

Policy = Callable[[str], str | None]
"""Returns an error if a client's setting may not be overridden, else None."""


def policy_of(worker: Mapping[str, str]) -> Policy:
    """Returns the policy in the worker's properties: All (the default), None, Principal or Allowlist. Raises
    ConfigError for any other name.
    """
    given = worker.get(_POLICY, "All").strip()
    java = _CLASS.fullmatch(given)
    name = java[1] if java else given.removesuffix("ConnectorClientConfigOverridePolicy")
    match name.lower():
        case "all":
            return lambda _: None
        case "none":
            return _only((), "None")
        case "principal":
            return _only(_PRINCIPAL, "Principal")
        case "allowlist":
            allowed = parse_type(_POLICY, worker.get("connector.client.config.override.allowlist", ""), Type.LIST)
            return _only(tuple(allowed), "Allowlist")
        case _:
            raise ConfigError(f"Invalid value {given} for configuration {_POLICY}: heeler does not support custom "
                              "policy classes. Use All, None, Principal, or Allowlist, which allows the settings in "
                              "connector.client.config.override.allowlist")


def _only(allowed: tuple[str, ...], name: str) -> Policy:
    def check(key: str) -> str | None:
        if key in allowed:
            return None
        return f"The '{name}' policy does not allow '{key}' to be overridden in the connector configuration."

    return check


def validate_overrides(client: Kind, policy: Policy, props: Mapping[str, Any], worker: Mapping[str, str]
                       ) -> ConfigInfos:
    """Validates the overrides of one kind of client. `props`: the connector's configuration."""
    prefix = f"{client}.override."
    keys = client_config_def(client).keys
    given = {key: str(value) for key, value in props.items() if value is not None}
    insecure = refused(client_properties(worker, given, client))
    values = []
    for full, raw in props.items():
        if not full.startswith(prefix) or full == prefix:
            continue
        value = ConfigValue(full.removeprefix(prefix), raw)
        try:
            if value.name in keys:
                value.value = parse_type(value.name, raw, keys[value.name].type)
        except ConfigError as e:
            # Java responds with status 500 and this message; an error of the key does not hide other errors.
            value.value = None
            value.errors.append(str(e))
        if forbidden := policy(value.name):
            value.errors.append(forbidden)
        elif value.name == "security.protocol":  # with it, settings of the worker may have to be rejected
            value.errors += [why for key, why in insecure.items() if prefix + key not in given]
        elif value.name in insecure:
            value.errors.append(insecure[value.name])
        values.append(value)
    return under_prefix(keys, values, prefix)


def clients_of(props: Mapping[str, Any], *, sink: bool, exactly_once_worker: bool) -> list[Kind]:
    """Returns the clients that a connector with this configuration uses."""
    dead_letters = bool((props.get("errors.deadletterqueue.topic.name") or "").strip())
    creates_topics = not sink and any(key.startswith("topic.creation.") for key in props)
    own_offsets = not sink and (exactly_once_worker or bool((props.get("offsets.storage.topic") or "").strip()))
    uses: dict[Kind, bool] = {
        "producer": not sink or dead_letters,
        "consumer": sink or own_offsets,
        "admin": (sink and dead_letters) or creates_topics or own_offsets,
    }
    return [client for client, used in uses.items() if used]
