"""Decides when kafka-python's connection managers reconnect, and where to if all brokers have new addresses."""

from __future__ import annotations

import time
from typing import Any, Final

from kafka.net.manager import KafkaConnectionManager
from typing_extensions import override

_ASK_S: Final = 10.0  # for an attempt, which is repeated while no broker can be reached


class PausingManager(KafkaConnectionManager):  # type: ignore[misc]
    """Pauses for longer and longer before it connects again to a broker that closes connections as soon as it has
    accepted them, as proxies do whose broker is down. The library takes such a connection for a success. It connected
    again after 50 ms, with each client of a worker, which took half a CPU.
    """

    @override
    async def _connect(
        self, node: Any, conn: Any, reset_backoff_on_connect: bool = True, timeout_at: float | None = None
    ) -> None:
        before = self._backoff.get(node.node_id)
        await super()._connect(node, conn, reset_backoff_on_connect=False, timeout_at=timeout_at)
        if not reset_backoff_on_connect:
            return  # the library's bootstrap counts its failures itself
        if conn.init_future.succeeded():
            self.reset_backoff(node.node_id)
        elif conn.init_future.failed() and self._backoff.get(node.node_id) == before:
            self.update_backoff(node.node_id)


class RecoveringManager(PausingManager):
    """Asks the bootstrap servers again while none of the known brokers can be reached (KIP-899). The library asks them
    only at the start, and would try the former addresses forever.
    """

    _asking: Any = None

    @override
    def least_loaded_node(self) -> Any:
        node = super().least_loaded_node()
        if node is None and self.bootstrapped and (self._asking is None or self._asking.is_done):
            # Not its `bootstrap_async`: until that has succeeded, clients would wait for it instead of noticing that
            # they are cut off.
            self._asking = self.call_soon(self._do_bootstrap, time.monotonic() + _ASK_S)
        return node
