"""Recovery of kafka-python's own clients when all brokers have got other addresses."""

from __future__ import annotations

import time
from typing import Any, Final

from kafka.net.manager import KafkaConnectionManager
from typing_extensions import override

_ASK_S: Final = 10.0  # for an attempt, which is repeated while no broker can be reached


class RecoveringManager(KafkaConnectionManager):  # type: ignore[misc]
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
