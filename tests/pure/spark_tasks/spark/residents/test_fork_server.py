"""The worker's side of the fork server while Spark's JVM does not answer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spark_tasks.spark.residents import fork_server
from spark_tasks.spark.residents.fork_server import ForkServer
from tests.rigs.support import wait_until


class Tickets:
    """A listener that issues tickets: their numbers."""

    def __init__(self) -> None:
        self.valid: set[int] = set()

    def expect(self, number: int) -> Any:
        self.valid.add(number)
        return number

    def forget(self, number: int) -> None:
        self.valid.discard(number)


def test_one_request_at_a_time_waits_for_a_suspended_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("START_S", "RETRY_S"):
        monkeypatch.setattr(fork_server, name, 0.0)
    awake, asked, tickets = threading.Event(), [], Tickets()

    def ask(ticket: Any) -> None:
        asked.append(ticket)
        awake.wait(60)

    numbers = iter(range(1, 100))
    server = ForkServer(ask, lambda: True, tickets, lambda: next(numbers), 4)
    try:
        for _ in range(5):
            server.keep()
            wait_until(lambda: asked)
        assert asked == [1]
        assert tickets.valid == {1}, "the server that Spark starts once it is back may join"
    finally:
        awake.set()
    wait_until(lambda: server.keep() or len(asked) > 1)  # it ended without a server: the next one is requested
    assert 1 not in tickets.valid
    server.close()
    assert tickets.valid == set()
