"""The only owner of time."""

from __future__ import annotations

import queue

import pytest

from actors.ticker import Ticker

WITHIN_S = 10


def test_timers_fire_in_the_order_of_their_times() -> None:
    received: queue.Queue[str] = queue.Queue()
    ticker = Ticker()  # not started: however slow this is, none is called before it is cancelled or moved
    now = ticker.now_ms()
    for key, after in (("late", 30), ("early", 10), ("cancelled", 15), ("moved", 1)):
        ticker.set(key, now + after, lambda key=key: received.put(key))  # type: ignore[misc]
    ticker.set("moved", now + 40, lambda: received.put("moved later"))
    ticker.cancel("cancelled")
    ticker.start()
    assert [received.get(timeout=WITHIN_S) for _ in range(3)] == ["early", "late", "moved later"]
    ticker.stop()


def test_a_clock_that_is_set_back_delays_no_timer(ticker: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    received: queue.Queue[int] = queue.Queue()
    ticker.set("soon", ticker.now_ms() + 50, lambda: received.put(1))
    monkeypatch.setattr(Ticker, "now_ms", staticmethod(lambda: 0))
    assert received.get(timeout=WITHIN_S) == 1


def test_a_repeated_timer_fires_repeatedly(ticker: Ticker) -> None:
    received: queue.Queue[int] = queue.Queue()
    ticker.every("pulse", 1, lambda: received.put(1))
    assert [received.get(timeout=WITHIN_S) for _ in range(3)] == [1, 1, 1]


def test_a_timer_that_fails_does_not_prevent_others(
    ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    received: queue.Queue[int] = queue.Queue()
    ticker.set("bad", 0, lambda: {}.pop("nothing"))
    ticker.set("good", ticker.now_ms() + 5, lambda: received.put(1))
    assert received.get(timeout=WITHIN_S) == 1
    assert "A timer callback failed" in caplog.text


def test_a_timer_in_the_distant_future_does_not_block_others(ticker: Ticker) -> None:
    received: queue.Queue[int] = queue.Queue()
    ticker.set("never", 2**63, lambda: received.put(0))
    for number in (1, 2):  # after the first one it waits for the one that never comes
        ticker.set("soon", ticker.now_ms() + 20, lambda number=number: received.put(number))  # type: ignore[misc]
        assert received.get(timeout=WITHIN_S) == number
