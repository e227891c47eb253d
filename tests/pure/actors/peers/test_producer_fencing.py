"""Rounds of fencing that fail or hang before a broker is asked."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actors.herder.effects import FenceProducers
from actors.herder.events import ProducersFenced
from actors.messages.correlation_ids import OpId
from actors.peers.producer_fencing import ProducerFencing, for_each
from actors.ticker import Ticker
from spark_tasks.errors import ConnectError
from storage.ids import ConnectorName

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
    fencing = ProducerFencing({}, lambda *_: sys.exit(3), said.put, ticker)
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

    fencing = ProducerFencing({}, resolve, said.put, ticker, round_ms=50)
    for op in range(10):
        fencing.start(effect(op, f"bad{op}"))
    assert {begun.get(timeout=WITHIN_S) for _ in range(10)} == {f"bad{op}" for op in range(10)}
    ended = [said.get(timeout=WITHIN_S) for _ in range(10)]
    assert {(one.op, str(one.error)) for one in ended} == {(op, "no end within 50 ms") for op in range(10)}
    fencing.start(effect(10, "good"))
    assert str(said.get(timeout=WITHIN_S).error) == "resolved good"
    fencing.start(effect(11, "bad1"))
    assert "an earlier round hangs" in str(said.get(timeout=WITHIN_S).error)
    release.set()
    fencing.close()


def test_a_connector_is_fenced_again_when_its_provider_has_recovered(ticker: Ticker, said: queue.Queue[Any]) -> None:
    release, over = threading.Event(), threading.Event()

    def resolve(*_: object) -> Any:
        assert release.wait(WITHIN_S)
        raise ConnectError("resolved")

    fencing = ProducerFencing({}, resolve, said.put, ticker, round_ms=1)
    fencing.start(effect(1))
    assert isinstance(said.get(timeout=WITHIN_S).error, TimeoutError)
    release.set()
    for op in range(2, 10_000):
        fencing.start(effect(op))
        if "an earlier round hangs" not in str(said.get(timeout=WITHIN_S).error):
            over.set()
            break
    assert over.is_set()
    assert said.empty(), "each round has one outcome"


def test_after_a_failure_no_more_producers_are_fenced() -> None:
    called: list[str] = []

    def call(item: str) -> None:
        called.append(item)
        raise ConnectError(item)

    with pytest.raises(ConnectError):
        for_each(call, [str(n) for n in range(100)])
    assert len(called) <= 8, "those that had been begun"


def test_all_producers_are_fenced() -> None:
    called: list[str] = []
    for_each(called.append, [str(n) for n in range(100)])
    assert len(called) == 100
