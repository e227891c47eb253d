"""Which settings of its clients a connector may override, according to the worker's policy (KIP-458)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from spark_tasks.config.definition import ConfigError, parse_type
from spark_tasks.config.types import Type

OVERRIDES = "connector.client.config.override."
"""The prefix of the worker's properties that define the policy."""
_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_POLICY, _ALLOWLIST = "connector.client.config.override.policy", "connector.client.config.override.allowlist"
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
            allowed = parse_type(_POLICY, worker.get(_ALLOWLIST, ""), Type.LIST)
            return _only(tuple(allowed), "Allowlist")
        case _:
            raise ConfigError(f"Invalid value {given} for configuration {_POLICY}: heeler does not support custom "
                              "policy classes. Use All, None, Principal, or Allowlist, which allows the settings in "
                              f"{_ALLOWLIST}")


def _only(allowed: tuple[str, ...], name: str) -> Policy:
    def check(key: str) -> str | None:
        if key in allowed:
            return None
        return f"The '{name}' policy does not allow '{key}' to be overridden in the connector configuration."

    return check
