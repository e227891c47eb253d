"""Connectors are restarted when the time to live of a provided value is over."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection

from actors.ticker import Ticker
from heeler.worker import providers
from heeler.worker.reloads import Resolver
from spark_tasks.plugins.config_providers import ConfigData, ConfigProvider
from storage.ids import ConnectorName

CONFIG = {"password": "${vault:path:key}"}


class Vault(ConfigProvider):
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        return ConfigData(dict.fromkeys(keys or (), f"{path}!"), ttl_ms=20)


def test_connectors_that_use_a_placeholder_are_restarted() -> None:
    ticker = Ticker()  # not started: no value has lived its time before it was used three times
    asked: queue.Queue[str] = queue.Queue()
    resolve = Resolver({"vault": Vault()}, ticker, asked.put)
    assert resolve(CONFIG) == {"password": "path!"}  # a validation: nothing is at work
    resolve({**CONFIG, "config.action.reload": "none"}, ConnectorName("never"))
    for _ in range(3):
        resolve(CONFIG, ConnectorName("c"))
    ticker.start()
    assert asked.get(timeout=10) == "c"
    resolve(CONFIG, ConnectorName("d"))
    assert asked.get(timeout=10) == "d", "three uses of one value are one restart"
    ticker.stop()


def test_all_providers_are_closed_even_if_one_hangs_or_throws(monkeypatch, caplog) -> None:
    monkeypatch.setattr(providers, "CLOSE_S", 0.05)
    closed: list[str] = []
    free = threading.Event()

    class Closing(Vault):
        def __init__(self, close: Callable[[], object]) -> None:
            self.close = close  # type: ignore[method-assign, assignment]

    providers.close_providers({
        "hangs": Closing(free.wait), "throws": Closing(lambda: 1 / 0), "closes": Closing(lambda: closed.append("c"))})
    free.set()
    assert closed == ["c"]
    assert "Could not close the config provider throws" in caplog.text
