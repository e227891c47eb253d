"""Finds the keys of a configuration that hold secrets: by their names, and by the plugins' PASSWORD keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from heeler.cli.client.responses import as_config, as_list, as_object
from heeler.cli.client.rest_client import RestError, path_of
from heeler.cli.configs.masks import Mask, mask_of
from heeler.cli.console.safe_text import safe

if TYPE_CHECKING:
    from heeler.cli.client.session import ClusterSession

_UNKNOWN: Final = (404, 400)
"""404: no such plugin, or the worker is older than Kafka 3.2. 400: the worker has no keys for this kind of plugin."""
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_CHAINS: Final = ("transforms", "predicates")


class SecretKeys:
    """Asks the worker once for the definitions of each plugin's keys."""

    def __init__(self, session: ClusterSession) -> None:
        self._session = session
        self._known: dict[str, frozenset[str]] = {}

    def mask(self, config: Mapping[str, str], extra_keys: Collection[str] = ()) -> Mask:
        """Returns a function that hides the secrets of this config; `extra_keys`: more keys that are secret."""
        return mask_of(config, secret_keys={*self.keys_of(config), *extra_keys})

    def keys_of(self, config: object) -> frozenset[str]:
        """The PASSWORD keys of the connector and of its converters, transforms and predicates; those of plugins that
        the worker does not know are not among them. Raises ConnectErrors: without the keys, secrets would be shown.
        """
        found = _plugins_of(as_config(config, "a connector's config"))
        return frozenset(prefix + key for prefix, plugin in found for key in self._password_keys(plugin))

    def _password_keys(self, plugin: str) -> frozenset[str]:
        if plugin not in self._known:
            self._known[plugin] = self._asked_for(plugin)
        return self._known[plugin]

    def _asked_for(self, plugin: str) -> frozenset[str]:
        try:
            keys = self._session.call("GET", path_of("connector-plugins", plugin, "config"))
        except RestError as error:
            if error.status not in _UNKNOWN:
                raise RestError(error.status, f"{error.message} (while looking up which keys of {safe(plugin)} are "
                                "passwords, in order to hide them)") from error
            return frozenset()
        definitions = [as_object(key, "a key's definition") for key in as_list(keys, "a plugin's keys")]
        return frozenset(str(key.get("name")) for key in definitions if key.get("type") == "PASSWORD")


def _plugins_of(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The prefix of each plugin's keys, and its class; without plugins that have no keys in this config."""
    classes = {"": config.get("connector.class"), **{f"{key}.": config.get(key) for key in _CONVERTERS}}
    for chain in _CHAINS:
        for name in config.get(chain, "").split(","):
            prefix = f"{chain}.{name.strip()}."
            classes[prefix] = config.get(f"{prefix}type")
    for prefix, plugin in classes.items():
        if plugin and any(key.startswith(prefix) and key != f"{prefix}type" for key in config):
            yield prefix, plugin
