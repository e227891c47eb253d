"""Replaces placeholders with the values of config providers, and restarts connectors whose values expire (KIP-297)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actors.ticker import Ticker
from spark_tasks.plugins.config_providers import ConfigProvider, ConfigTransformer
from storage.ids import ConnectorName


class Resolver:
    """Replaces the placeholders in a configuration.

    `restart` is called with the name of a connector of which a value has expired, unless `config.action.reload` is
    none.
    """

    def __init__(
        self, providers: Mapping[str, ConfigProvider], ticker: Ticker, restart: Callable[[ConnectorName], object]
    ) -> None:
        self._transformer = ConfigTransformer(providers, self._expire)
        self._ticker = ticker
        self._restart = restart

    def __call__(self, config: Mapping[str, Any], name: ConnectorName | None = None) -> Mapping[str, str]:
        """The configuration with the values. `name`: the connector, if it is about to run with the values; its restart
        is scheduled then. Raises ConfigError if a provider has no value.
        """
        return self._transformer.transform(config, name)

    def _expire(self, connector: str, path: str, ttl_ms: int) -> None:
        def restart() -> None:
            self._restart(ConnectorName(connector))

        self._ticker.set(("reload", connector, path), self._ticker.now_ms() + ttl_ms, restart)
