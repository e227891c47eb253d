"""The end of the IO thread that sinks' consumer groups share, while a client is open."""

from __future__ import annotations

import threading

import pytest
from kafka.errors import InvalidTopicError
from kafka.net.wakeup_notifier import WakeupNotifier

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.kafka.group_settings import ConsumerSettings
from spark_tasks.kafka.membership import GroupConsumer

TIMEOUT_S = 20


def test_the_io_thread_ends_although_a_client_keeps_sending_requests():
    """kafka-python's metadata loop does so: it treats the error of a closed selector as temporary."""
    io, over, busy, free = GroupIo(), threading.Event(), threading.Event(), threading.Event()
    net = io.net()
    again = WakeupNotifier(net)

    async def ask() -> None:
        while not over.is_set():
            try:
                await again(60)
            except RuntimeError:
                continue

    async def hold_up() -> None:
        busy.set()
        free.wait(TIMEOUT_S)

    net.call_soon_threadsafe(ask)
    net.call_soon_threadsafe(hold_up)
    busy.wait(TIMEOUT_S)
    again.notify()  # it is its turn next
    [thread] = [thread for thread in threading.enumerate() if thread.name == "kafka-io-heeler-sinks"]
    end = threading.Thread(target=io.close)
    end.start()
    end.join(0.1)
    free.set()
    end.join(TIMEOUT_S)
    ended = not end.is_alive() and not thread.is_alive()
    over.set()
    assert ended
    with pytest.raises(ConnectError):
        io.net()


def test_a_member_that_could_not_be_created_is_removed():
    io, client = GroupIo(), {"bootstrap_servers": "127.0.0.1:1"}
    with pytest.raises((ValueError, InvalidTopicError)):
        GroupConsumer(ConsumerSettings("g", client, ("no name",)), io, lambda: None)
    shared, topics = io.client(client, every_topic=False, create_topics=True)
    assert shared.metadata.release(topics), "the last one"
    io.close()
