"""Removes values of config providers from the result of a configuration's validation."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_tasks.config.masking import MASK, Secrets
from spark_tasks.plugins.config_providers import ResolvedConfig
from spark_tasks.validation.infos import ConfigInfo, ConfigInfos

# Keys whose values become parts of the names of other keys.
_NAMES = ("transforms", "predicates", "topic.creation.groups")


class ProviderValues:
    """The values that config providers gave to a configuration. `raw`: the configuration with placeholders; `props`:
    with values.
    """

    def __init__(self, raw: Mapping[str, str | None], props: Mapping[str, Any]) -> None:
        self._raw = raw
        self._props = props
        self._by_key = props.given if isinstance(props, ResolvedConfig) else {}
        values = list(itertools.chain.from_iterable(self._by_key.values()))
        self._secrets = Secrets.of([*values, *(item for value in values for item in value.split(","))])

    def masked(self, error: Exception) -> Exception:
        """Returns the error, or a masked copy if its message contains any of the values."""
        return self._secrets.masked(error) if self._by_key else error

    def hidden(self, infos: ConfigInfos) -> ConfigInfos:
        """Returns the infos with placeholders instead of values, and with masked messages."""
        if not self._by_key:
            return infos
        name = self._raw.get("connector.class") if "connector.class" in self._by_key else infos.name
        named = any(key in self._by_key for key in _NAMES)
        configs = tuple(self._masked_info(info) if named else self._in_messages(info) for info in infos.configs)
        groups = tuple(map(self._secrets.mask, infos.groups)) if named else infos.groups
        return replace(infos, name=name or "", groups=groups, configs=configs)

    def _in_messages(self, info: ConfigInfo) -> ConfigInfo:
        if info.value is None:
            return info
        key = info.value["name"]
        shown = self._raw[key] if key in self._by_key else info.value["value"]
        hidden = {
            **info.value, "value": shown, "errors": [self._message(text) for text in info.value["errors"]],
            "recommended_values": [text and self._secrets.mask(text) for text in info.value["recommended_values"]],
        }
        return replace(info, value=hidden)

    def _message(self, text: str) -> str:
        for key in self._by_key:  # at this position even a very short value can be hidden
            text = text.replace(f"Invalid value {self._props[key]} for ", f"Invalid value {MASK} for ")
        return self._secrets.mask(text)

    def _masked_info(self, info: ConfigInfo) -> ConfigInfo:
        info = self._in_messages(info)
        definition, value = self._masked(info.definition), self._masked(info.value)
        if value is not None and info.value is not None and info.value["name"] in self._by_key:
            value["value"] = info.value["value"]
        return ConfigInfo(definition, value)

    def _masked(self, data: Any) -> Any:
        """Returns the same data with all string values masked."""
        if isinstance(data, str):
            return self._secrets.mask(data)
        if isinstance(data, Mapping):
            return {key: self._masked(value) for key, value in data.items()}
        return [self._masked(item) for item in data] if isinstance(data, (list, tuple)) else data
