"""Fences the producers of a connector's former tasks, for the leader's herder (KIP-618).

Like Kafka's Admin.fenceProducers, it initializes each transactional id and does nothing else with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any

from actors.herder.effects import FenceProducers
from actors.herder.events import ProducersFenced
from spark_tasks.errors import ConnectError, plugin_code
from spark_tasks.kafka.client_properties import Kind, client_properties, same_brokers
from storage.daemon_pool import DaemonPool
from storage.ids import Config, ConnectorName

_logger = logging.getLogger(__name__)

TIMEOUT_MS = 30_000
_AT_ONCE = 8
_CLIENTS: tuple[Kind, Kind] = ("admin", "producer")


class ProducerFencing:
    """Runs rounds of fencing on a small pool of threads. `resolve` replaces the placeholders of config providers."""

    def __init__(self, worker: Mapping[str, str], resolve: Callable[[Config, ConnectorName], Mapping[str, str]],
                 tell: Callable[[Any], None]) -> None:
        self._worker = worker
        self._resolve = resolve
        self._tell = tell
        self._rounds = DaemonPool(4, "fencing")

    def start(self, effect: FenceProducers) -> None:
        """Begins a round; results in ProducersFenced."""
        self._rounds.submit(self._run, effect)

    def close(self) -> None:
        """Drops rounds that have not begun."""
        self._rounds.close()

    def _run(self, effect: FenceProducers) -> None:
        error: Exception | None = None
        try:
            with plugin_code():
                self.fence(effect.connector, effect.config, effect.transactional_ids)
        except Exception as caught:  # noqa: BLE001 - config providers are plugins; after any error, tasks must not start
            error = caught
        self._tell(ProducersFenced(effect.op, error))

    def fence(self, connector: ConnectorName, config: Config, transactional_ids: Sequence[str]) -> None:
        """Fences the producers. Blocks; raises ConnectError if one of them could not be fenced."""
        from spark_tasks.kafka.cluster import KafkaCluster  # noqa: PLC0415 - late, as it imports the data plane
        from spark_tasks.kafka.task_clients import connection_settings  # noqa: PLC0415

        resolved = self._resolve(config, connector)
        admin, producer = (client_properties(self._worker, resolved, kind) for kind in _CLIENTS)
        if not same_brokers(admin, producer):
            raise ConnectError(
                f"the connector's admin client is configured for {admin.get('bootstrap.servers')}, but its producers, "
                f"which have to be fenced, write to {producer.get('bootstrap.servers')}: set "
                "admin.override.bootstrap.servers (and the admin client's other settings for that cluster)"
            )
        cluster = KafkaCluster(connection_settings(admin))
        try:
            pool = DaemonPool(_AT_ONCE, "fence-producer")
            initialize = partial(cluster.init_producer_id, deadline_ms=TIMEOUT_MS)
            futures = [pool.submit(initialize, transactional_id) for transactional_id in transactional_ids]
            wait(futures)
            for future in futures:
                future.result()
        finally:
            cluster.close()
        _logger.info("%s: fenced %d producers of former tasks", connector, len(transactional_ids),
                     extra={"about": connector})
