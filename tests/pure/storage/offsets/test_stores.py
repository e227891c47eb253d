"""Reading a connector's offsets, and readers that no longer need them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_tasks.errors import StartCancelledError
from storage.ids import ConnectorName
from storage.offsets.stores import ConnectorOffsetStore, OffsetTopic
from tests.rigs.memory_log import MemoryTopic, MemoryTopicLog


def test_a_read_that_is_no_longer_needed_ends() -> None:
    kafka = MemoryTopic("offsets")
    kafka.append([(b'["a",{"file":"x"}]', b'{"pos":1}')])
    topic = OffsetTopic(MemoryTopicLog(kafka))  # which nobody starts: it never gets to its end
    store = ConnectorOffsetStore(ConnectorName("a"), topic)
    waiting = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(lambda: (waiting.set(), store.read()))
        waiting.wait(10)
        assert not read.done()
        store.stop_reading()
        with pytest.raises(StartCancelledError):
            read.result(10)
    with pytest.raises(StartCancelledError):
        store.read()
