"""Which settings of its clients a connector may override, according to the worker's policy (KIP-458)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spark_tasks.config.definition import ConfigError, parse_type
from spark_tasks.config.types import Type

_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_POLICY, _ALLOWLIST = "connector.client.config.override.policy", "connector.client.config.override.allowlist"
_CLASS = re.compile(r"org\.apache\.kafka\.connect\.connector\.policy\.(\w+)ConnectorClientConfigOverridePolicy")


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """`name`: as in messages. `allowed`: the settings of clients that connectors may override; None: all."""

    name: str = "All"
    allowed: frozenset[str] | None = None

    @classmethod
    def of(cls, worker: Mapping[str, str]) -> Self:
        """Parses the worker's properties: All (the default), None, Principal or Allowlist. Raises ConfigError for any
        other name.
        """
        given = worker.get(_POLICY, "All").strip()
        java = _CLASS.fullmatch(given)
        name = java[1] if java else given.removesuffix("ConnectorClientConfigOverridePolicy")
        match name.lower():
            case "all":
                return cls()
            case "none":
                return cls("None", frozenset())
            case "principal":
                return cls("Principal", frozenset(_PRINCIPAL))
            case "allowlist":
                return cls("Allowlist", frozenset(parse_type(_POLICY, worker.get(_ALLOWLIST, ""), Type.LIST)))
            case _:
                raise ConfigError(f"Invalid value {given} for configuration {_POLICY}: heeler does not support custom "
                                  "policy classes. Use All, None, Principal, or Allowlist, which allows the settings "
                                  f"in {_ALLOWLIST}")

    def refusal(self, key: str) -> str | None:
        """Returns an error if a client's setting may not be overridden, else None."""
        if self.allowed is None or key in self.allowed:
            return None
        return f"The '{self.name}' policy does not allow '{key}' to be overridden in the connector configuration."
