"""Where partitions end, asked in a fetch session with a real broker."""

from __future__ import annotations

import threading

import pytest

from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.watcher import EndWatcher
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

SOON_S = 20.0


def test_a_session_goes_on_whatever_the_broker_forgets(kafka: Kafka, topic_name: str) -> None:
    """Each task is woken by its own partition alone, on and on, also where the broker knows the session no more."""
    kafka.create(topic_name, 3)
    watcher = EndWatcher(KafkaCluster({"bootstrap_servers": kafka.servers}))
    woken = [threading.Event() for _ in range(3)]
    try:
        for round_ in range(4):
            for number, event in enumerate(woken):
                at = round_ if number < 2 else 0
                assert watcher.arm(number, {(topic_name, number): at}, "read_uncommitted", event.set) or event.is_set()
            for number in (0, 1):
                kafka.send(topic_name, ["x"], partition=number)
                assert woken[number].wait(SOON_S)
                woken[number].clear()
            assert not woken[2].is_set()
            (session,) = watcher._sessions.values()
            assert session._id != 0
            if round_ == 1:
                session._id += 1
            elif round_ == 2:
                session._epoch += 5
    finally:
        watcher.close()
