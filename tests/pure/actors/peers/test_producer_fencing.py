"""Rounds of fencing that fail before a broker is asked."""

from __future__ import annotations

import queue
import sys
from typing import Any

from actors.herder.effects import FenceProducers
from actors.herder.events import ProducersFenced
from actors.messages.correlation_ids import OpId
from actors.peers.producer_fencing import ProducerFencing
from storage.ids import ConnectorName


def test_a_config_provider_that_exits_fails_the_round() -> None:
    """Without the outcome, the herder would wait for the round forever, and all tasks of the connector with it."""
    said: queue.Queue[Any] = queue.Queue()
    fencing = ProducerFencing({}, lambda *_: sys.exit(3), said.put)
    fencing.start(FenceProducers(OpId(1), ConnectorName("c"), {}, ("id",)))
    ended = said.get(timeout=20)
    assert isinstance(ended, ProducersFenced)
    assert (ended.op, str(ended.error)) == (1, "the plugin raised SystemExit: 3")
    fencing.close()
