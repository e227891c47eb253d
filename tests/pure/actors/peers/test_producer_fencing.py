"""Rounds of fencing that fail or hang before a broker is asked."""

from __future__ import annotations

import itertools
import queue
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from actors.herder.effects import FenceProducers
from actors.herder.events import ProducersFenced
from actors.messages.correlation_ids import OpId
from actors.peers.producer_fencing import MAX_HUNG, ProducerFencing, for_each
from actors.ticker import Ticker
from spark_tasks.config.client_properties import WorkerClients
from spark_tasks.errors import ConnectError
from spark_tasks.kafka import cluster
from storage.ids import ConnectorName
from tests.rigs.support import no_thread, wait_until

WITHIN_S = 20.0


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    made = Ticker()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def said() -> queue.Queue[Any]:
    return queue.Queue()


def effect(op: int, connector: str = "c") -> FenceProducers:
    return FenceProducers(OpId(op), ConnectorName(connector), {}, ("id",))


def test_a_config_provider_that_exits_fails_the_round(ticker: Ticker, said: queue.Queue[Any]) -> None:
    """Without the outcome, the herder would wait for the round forever, and all tasks of the connector with it."""
    fencing = ProducerFencing(WorkerClients(), lambda *_: sys.exit(3), said.put, ticker)
    fencing.start(effect(1))
    ended = said.get(timeout=WITHIN_S)
    assert isinstance(ended, ProducersFenced)
    assert (ended.op, str(ended.error)) == (1, "the plugin raised SystemExit: 3")
    fencing.close()


def test_rounds_that_hang_end_and_delay_no_others(ticker: Ticker, said: queue.Queue[Any]) -> None:
    release = threading.Event()
    begun: queue.Queue[str] = queue.Queue()

    def resolve(_: object, name: str) -> Any:
        begun.put(name)
        if name.startswith("bad"):
            release.wait(WITHIN_S)
        raise ConnectError(f"resolved {name}")

    fencing = ProducerFencing(WorkerClients(), resolve, said.put, ticker, round_ms=300)
    for op in range(10):
        fencing.start(effect(op, f"bad{op}"))
    assert {begun.get(timeout=WITHIN_S) for _ in range(10)} == {f"bad{op}" for op in range(10)}
    ended = [said.get(timeout=WITHIN_S) for _ in range(10)]
    assert {(one.op, str(one.error)) for one in ended} == {(op, "did not end within 300 ms") for op in range(10)}
    fencing.start(effect(10, "good"))
    assert str(said.get(timeout=WITHIN_S).error) == "resolved good"
    release.set()
    fencing.close()


def test_a_round_that_is_over_fences_nothing_and_blocks_no_later_one(
    ticker: Ticker, said: queue.Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that were started after its failure may be using the ids."""
    release, fenced, closed = threading.Event(), queue.Queue[str](), queue.Queue[None]()
    known = SimpleNamespace(init_producer_id=lambda name, **_: fenced.put(name), close=lambda: closed.put(None))
    monkeypatch.setattr(cluster, "KafkaCluster", lambda _: known)

    def resolve(config: Any, _: object) -> Any:
        assert "provider" not in config or release.wait(WITHIN_S)
        return config

    fencing = ProducerFencing(WorkerClients({"bootstrap.servers": "b:1"}), resolve, said.put, ticker, round_ms=500)
    fencing.start(FenceProducers(OpId(1), ConnectorName("c"), {"provider": "hangs"}, ("former",)))
    assert isinstance(said.get(timeout=WITHIN_S).error, TimeoutError)
    fencing.start(effect(2))
    assert said.get(timeout=WITHIN_S).error is None
    closed.get(timeout=WITHIN_S)
    assert fenced.get(timeout=WITHIN_S) == "id"
    release.set()
    closed.get(timeout=WITHIN_S)
    assert fenced.empty()
    fencing.close()


def test_a_connector_is_fenced_again_when_its_provider_has_recovered(ticker: Ticker, said: queue.Queue[Any]) -> None:
    release, ops = threading.Event(), itertools.count()

    def resolve(*_: object) -> Any:
        assert release.wait(WITHIN_S)
        raise ConnectError("resolved")

    fencing = ProducerFencing(WorkerClients(), resolve, said.put, ticker, round_ms=5)

    def refused() -> bool:
        fencing.start(effect(next(ops)))
        error = str(said.get(timeout=WITHIN_S).error)
        return error == f"{MAX_HUNG} earlier rounds of zombie fencing are still blocked, perhaps in a config provider"

    wait_until(refused, WITHIN_S, "so many rounds to hang that no more are begun")
    release.set()
    wait_until(lambda: not refused(), WITHIN_S, "a round to be begun again")
    assert said.empty(), "each round has one outcome"


def test_after_a_failure_no_more_producers_are_fenced() -> None:
    called: list[str] = []

    def call(item: str) -> None:
        called.append(item)
        raise ConnectError(item)

    with pytest.raises(ConnectError):
        for_each(call, [str(n) for n in range(100)])
    assert len(called) <= 8, "those that had been begun"


def test_without_a_thread_a_round_fails_when_all_it_has_begun_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun, refused, ended = threading.Thread.start, threading.Event(), threading.Event(), list[str]()

    def start_one(thread: threading.Thread) -> None:
        if begun.is_set():
            refused.set()
            no_thread()
        begun.set()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        for_each(lambda item: refused.wait(WITHIN_S) and ended.append(item), ["first", "second"])
    assert ended == ["first"]


def test_all_producers_are_fenced() -> None:
    called: list[str] = []
    for_each(called.append, [str(n) for n in range(100)])
    assert len(called) == 100
