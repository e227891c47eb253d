"""What a log over Kafka holds on to where Kafka does not answer."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from storage.log.topic_log import KafkaTopicLog


class DeafProducer:
    """Connects, and never hears of the topic."""

    made: list[DeafProducer]

    def __init__(self, **_: Any) -> None:
        self.closed = False
        self.made.append(self)

    def partitions_for(self, topic: str) -> None:
        raise KafkaTimeoutError(topic)

    def send(self, topic: str, **_: Any) -> None:
        raise KafkaTimeoutError(topic)

    def close(self, **_: Any) -> None:
        self.closed = True


def test_sends_that_fail_share_one_producer_which_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.log.topic_log.KafkaProducer", DeafProducer)
    monkeypatch.setattr(DeafProducer, "made", [], raising=False)
    log = KafkaTopicLog("t", {"bootstrap_servers": ["127.0.0.1:1"]}, nullcontext(), client_id="test")
    for _ in range(3):
        with pytest.raises(KafkaTimeoutError):
            log.send(b"k", b"v").result(0)
    log.stop()
    assert [producer.closed for producer in DeafProducer.made] == [True]


def test_who_asks_for_the_end_is_told_when_the_log_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KafkaTopicLog("t", {"bootstrap_servers": ["127.0.0.1:1"]}, nullcontext(), client_id="test")
    asking, stopped = threading.Event(), threading.Event()

    def no_answer(done: Future[None], _deadline: float) -> None:
        assert threading.current_thread().daemon, "the process could not end before Kafka answers"
        asking.set()
        stopped.wait(10)
        done.cancel()

    monkeypatch.setattr(log, "_find_end", no_answer)
    under_way, waiting = log.read_to_end(), log.read_to_end()
    assert asking.wait(10)
    log.stop()
    for future in (waiting, log.read_to_end()):
        with pytest.raises(CancelledError):
            future.result(0)
    stopped.set()
    with pytest.raises(CancelledError):
        under_way.result(10)


def test_a_defect_reaches_who_asks_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KafkaTopicLog("t", {"bootstrap_servers": ["127.0.0.1:1"]}, nullcontext(), client_id="test")
    monkeypatch.setattr(log, "_find_end", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        log.read_to_end().result(10)
    log.stop()
