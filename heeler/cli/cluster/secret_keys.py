"""Finds the keys of a configuration that hold secrets: by their names, and by the plugins' PASSWORD keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from heeler.cli.cluster.plan import Mask, mask_of
from heeler.cli.cluster.responses import as_config, as_list, as_object
from heeler.cli.rest_client import RestError, path_of

if TYPE_CHECKING:
    from heeler.cli.cluster.session import ClusterSession


class SecretKeys:
    """Asks the worker once for the definitions of each plugin's keys."""

    def __init__(self, session: ClusterSession) -> None:
        self._session = session
        self._known: dict[str, frozenset[str]] = {}

    def mask(self, config: Mapping[str, str], extra_keys: Collection[str] = ()) -> Mask:
        """Returns a function that hides the secrets of this config; `extra_keys`: more keys that are secret."""
        return mask_of(config, secret_keys={*self.keys_of(config), *extra_keys})

    def keys_of(self, config: object) -> frozenset[str]:
        """The PASSWORD keys of the connector's plugins; empty if the worker does not know the plugin."""
        plugin = as_config(config, "a connector's config").get("connector.class")
        if plugin is None:
            return frozenset()
        if plugin not in self._known:
            self._known[plugin] = self._password_keys(plugin)
        return self._known[plugin]

    def _password_keys(self, plugin: str) -> frozenset[str]:
        try:
            keys = self._session.call("GET", path_of("connector-plugins", plugin, "config"))
        except RestError:  # removed since, or the worker is older than Kafka 3.2
            return frozenset()
        definitions = [as_object(key, "a key's definition") for key in as_list(keys, "a plugin's keys")]
        return frozenset(str(key.get("name")) for key in definitions if key.get("type") == "PASSWORD")
