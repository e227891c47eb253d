"""Fences the producers of a connector's former tasks, for the leader's herder (KIP-618).

Like Kafka's Admin.fenceProducers, it initializes each transactional id and does nothing else with it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from typing import Any

from actors.herder.effects import FenceProducers
from actors.herder.events import ProducersFenced
from actors.messages.correlation_ids import OpId
from actors.ticker import Ticker
from spark_tasks.config.client_properties import Kind, WorkerClients, client_properties, same_brokers
from spark_tasks.errors import ConnectError, counted, plugin_code
from storage.daemon_pool import DaemonPool
from storage.ids import Config, ConnectorName

_logger = logging.getLogger(__name__)

TIMEOUT_MS = 30_000  # of one producer
ROUND_MS = 60_000  # of a round
MAX_HUNG = 4  # rounds of a connector: each keeps a thread
MAX_ROUNDS = 256  # so that a few connectors whose clusters are unreachable do not delay the tasks of others
_AT_ONCE = 8
_CLIENTS: tuple[Kind, Kind] = ("admin", "producer")


class ProducerFencing:
    """Runs rounds of fencing, each on its own thread. `resolve` replaces the placeholders of config providers."""

    def __init__(self, clients: WorkerClients, resolve: Callable[[Config, ConnectorName], Mapping[str, str]],
                 tell: Callable[[Any], None], ticker: Ticker, *, round_ms: int = ROUND_MS) -> None:
        self._clients = clients
        self._resolve = resolve
        self._tell = tell
        self._ticker = ticker
        self._round_ms = round_ms
        self._lock = threading.Lock()
        self._open: dict[OpId, ConnectorName] = {}  # rounds without an outcome
        self._hung: dict[OpId, ConnectorName] = {}  # rounds that had begun and did not end within `round_ms`
        self._rounds = DaemonPool(MAX_ROUNDS, "fencing")

    def start(self, effect: FenceProducers) -> None:
        """Begins a round, which results in ProducersFenced within `round_ms` and fences nothing afterwards. No round
        is started while MAX_HUNG rounds of the connector hang. Raises RuntimeError if no thread can be started.
        """
        op, connector = effect.op, effect.connector
        with self._lock:
            hung = sum(other == connector for other in self._hung.values())
            self._open[op] = connector
        if hung >= MAX_HUNG:
            self._end(op, ConnectError(f"{hung} earlier rounds of zombie fencing are still blocked, perhaps in a "
                                       "config provider"))
            return
        try:
            round_ = self._rounds.submit(self._run, effect, time.monotonic() + self._round_ms / 1000)
        except RuntimeError:
            with self._lock:
                del self._open[op]
            raise
        at_ms = self._ticker.now_ms() + self._round_ms
        self._ticker.set(("fencing", op), at_ms, lambda: self._time_out(op, begun=not round_.cancel()))

    def _time_out(self, op: OpId, *, begun: bool) -> None:
        with self._lock:
            if op not in self._open:
                return
            if begun:
                self._hung[op] = self._open[op]
        self._end(op, TimeoutError(f"did not end within {self._round_ms} ms"))

    def _end(self, op: OpId, error: Exception | None) -> None:
        with self._lock:
            first = self._open.pop(op, None) is not None
        if first:
            self._tell(ProducersFenced(op, error))

    def close(self) -> None:
        """Drops rounds that have not begun."""
        self._rounds.close()

    def _run(self, effect: FenceProducers, until: float) -> None:
        error: Exception | None = None
        try:
            with plugin_code():
                self.fence(effect.connector, effect.config, effect.transactional_ids, until)
        except Exception as caught:  # noqa: BLE001 - config providers are plugins; after any error, tasks must not start
            error = caught
        self._ticker.cancel(("fencing", effect.op))
        self._end(effect.op, error)
        with self._lock:
            self._hung.pop(effect.op, None)

    def fence(self, connector: ConnectorName, config: Config, transactional_ids: Sequence[str],
              until: float = math.inf) -> None:
        """Fences the producers. Blocks; raises ConnectError if one of them could not be fenced. After `until`
        (time.monotonic), no more are fenced: tasks that were started later may be using their ids.
        """
        from spark_tasks.kafka.cluster import KafkaCluster  # noqa: PLC0415 - late, as it imports the data plane
        from spark_tasks.kafka.task_clients import connection_settings  # noqa: PLC0415

        resolved = self._resolve(config, connector)
        admin, producer = (client_properties(self._clients, resolved, kind) for kind in _CLIENTS)
        if not same_brokers(admin, producer):
            raise ConnectError(
                f"the connector's admin client is configured for {admin.get('bootstrap.servers')}, but its producers, "
                f"which have to be fenced, write to {producer.get('bootstrap.servers')}: set "
                "admin.override.bootstrap.servers (and the admin client's other settings for that cluster)"
            )
        cluster = KafkaCluster(connection_settings(admin))

        def fence_one(transactional_id: str) -> None:
            left_ms = (until - time.monotonic()) * 1000
            if left_ms <= 0:
                raise ConnectError("the round of zombie fencing has timed out")
            cluster.init_producer_id(transactional_id, deadline_ms=min(TIMEOUT_MS, left_ms))

        try:
            for_each(fence_one, transactional_ids)
        finally:
            cluster.close()
        _logger.info("Fenced %s of former tasks", counted(len(transactional_ids), "producer"),
                     extra={"heeler_about": connector})


def for_each(call: Callable[[str], object], items: Sequence[str]) -> None:
    """Calls a function for each item, a few at a time. Raises the error of one that failed, after which no others are
    begun.
    """
    failed = threading.Event()

    def call_unless_failed(item: str) -> None:
        if not failed.is_set():
            try:
                call(item)
            except BaseException:
                failed.set()
                raise

    pool = DaemonPool(_AT_ONCE, "fence-producer")
    futures = [pool.try_submit(call_unless_failed, item) for item in items]
    wait(futures)
    for future in futures:
        future.result()
