"""The result of a validation, as REST shows it: the definition and the value of each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_tasks.config.definition import ConfigKey, ConfigValue, Type, to_text
from spark_tasks.config.types import shown

_SEE_ALSO = (
    "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
)


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """One key. `definition` is None for a key that is not defined, `value` for a key that was not validated."""

    definition: Mapping[str, Any] | None
    value: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """The result for one configuration. `name`: the connector class as in the configuration.

    `error_count` is counted as in Kafka Connect: each error message of the connector's and of Connect's own keys, but
    only each key with errors of converters and client overrides.
    """

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the body of the REST response."""
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(self.groups),
            "configs": [{"definition": c.definition, "value": c.value} for c in self.configs],
        }

    def errors(self) -> list[str]:
        """Returns all error messages."""
        return [message for c in self.configs if c.value for message in c.value["errors"]]

    def message(self) -> str:
        """Returns the message of the response 400 to a request that creates or changes a connector."""
        return "\n".join((
            f"Connector configuration is invalid and contains the following {self.error_count} error(s):",
            *self.errors(),
            _SEE_ALSO,
        ))


def of_keys(
    name: str, keys: Mapping[str, ConfigKey], values: Iterable[ConfigValue], groups: Sequence[str]
) -> ConfigInfos:
    """Returns the infos of undefined keys, followed by all keys in the order of definition. A later value replaces an
    earlier one of the same name, because a connector may define one of Connect's keys, too.
    """
    by_name = {value.name: value for value in values}
    undefined = [ConfigInfo(None, _value(v, None)) for n, v in by_name.items() if n not in keys]
    defined = [
        ConfigInfo(key.info(), _value(by_name[n], key.type) if n in by_name else None) for n, key in keys.items()
    ]
    count = sum(len(value.errors) for value in by_name.values())
    return ConfigInfos(name, count, tuple(groups), (*undefined, *defined))


def under_prefix(keys: Mapping[str, ConfigKey], values: Iterable[ConfigValue], prefix: str) -> ConfigInfos:
    """Returns the infos of a converter's or a client's keys, with the prefix that they have in the connector's
    configuration. As in Kafka Connect, they are all visible, even if a converter's recommender hides some.
    """
    infos = []
    count = 0
    groups: dict[str, None] = {}
    for value in values:
        key = keys.get(value.name)
        definition = None if key is None else {**key.info(), "name": prefix + value.name}
        if key is not None and key.group is not None:
            groups[key.group] = None
        full = ConfigValue(prefix + value.name, value.value, value.recommended_values, value.errors)  # always visible
        count += bool(value.errors)
        infos.append(ConfigInfo(definition, _value(full, None if key is None else key.type)))
    return ConfigInfos("", count, tuple(groups), tuple(infos))


def merged(name: str, parts: Iterable[ConfigInfos]) -> ConfigInfos:
    """Merges several results into one."""
    known = list(parts)
    groups = dict.fromkeys(group for part in known for group in part.groups)
    configs = tuple(config for part in known for config in part.configs)
    return ConfigInfos(name, sum(part.error_count for part in known), tuple(groups), configs)


def _value(value: ConfigValue, kind: Type | None) -> dict[str, Any]:
    item = Type.STRING if kind in (None, Type.LIST) else kind
    return {
        "name": value.name,
        "value": _text(value.value, kind),
        "recommended_values": [_text(v, item) for v in value.recommended_values],
        "errors": list(value.errors),
        "visible": value.visible,
    }


def _text(value: Any, kind: Type | None) -> str | None:
    if value is None or kind is not None:
        return to_text(value, kind or Type.STRING)
    return shown(value)
