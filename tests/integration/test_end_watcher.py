"""The ends of partitions, requested in a fetch session with a real broker."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.fetch_session import FetchSession
from spark_tasks.kafka.records import decode
from spark_tasks.kafka.watcher import EndWatcher
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

SOON_S = 20.0


class Session(FetchSession):
    """One that the broker does not know as soon as a test adds something to its number or its epoch."""

    number = epoch = 0  # added to the next request
    granted = 0  # the number of the last request's session

    def request(self, *arguments: Any, **limits: Any) -> Any:
        request = super().request(*arguments, **limits)
        Session.granted = request.session_id
        request.session_id += Session.number
        request.session_epoch += Session.epoch
        Session.number = Session.epoch = 0
        return request


def test_the_watcher_continues_after_the_broker_forgets_its_fetch_session(
    kafka: Kafka, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task is woken only by its own partition, repeatedly, even if the broker no longer knows the session."""
    monkeypatch.setattr("spark_tasks.kafka.watcher.FetchSession", Session)
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
                held = watcher.records((topic_name, number), round_)
                if round_:  # before, it may have learned of the record while it asked for the ends
                    assert decode(held, start=round_).records.column("value").to_pylist() == [b"x"]
                assert watcher.records((topic_name, number), round_ + 1) == b""
            assert not woken[2].is_set()
            assert Session.granted != 0
            if round_ == 1:
                Session.number = 1
            elif round_ == 2:
                Session.epoch = 5
    finally:
        watcher.close()
