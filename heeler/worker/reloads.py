"""Values of config providers in configurations, and restarts of connectors whose values expire (KIP-297)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actors.ticker import Ticker
from spark_tasks.plugins.config_providers import ConfigProvider, ConfigTransformer
from storage.ids import ConnectorName


class Resolver:
    """Replaces the placeholders in a configuration; gets the connector's name if the connector is about to run.

    `restart` is called to restart a connector when a value has expired, unless `config.action.reload` is none.
    """

    def __init__(
        self, providers: Mapping[str, ConfigProvider], ticker: Ticker, restart: Callable[[ConnectorName], object]
    ) -> None:
        self._transformer = ConfigTransformer(providers, self._expire)
        self._ticker = ticker
        self._restart = restart

    def __call__(self, config: Mapping[str, Any], name: ConnectorName | None = None) -> Mapping[str, str]:
        """The configuration with the values. Raises ConfigError if a provider has no value."""
        return self._transformer.transform(config, name)

    def _expire(self, connector: str, path: str, ttl_ms: int) -> None:
        def restart() -> None:
            self._restart(ConnectorName(connector))

        self._ticker.set(("reload", connector, path), self._ticker.now_ms() + ttl_ms, restart)
