"""The requests of a starting exactly-once task to the herder, and how it handles the responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.errors import ConflictError, NotLeaderError
from actors.messages.requests import FenceZombies, VerifyTaskStart
from actors.peers.leader_client import LeaderClient
from actors.peers.start_guard import HerderGuard, Peers
from spark_tasks.errors import ConnectError, StartCancelledError
from storage.config.view import ConfigView
from storage.ids import ConnectorName, ConnectorTaskId

TASK = ConnectorTaskId(ConnectorName("c"), 1)


class Herder:
    """Answers with what `answers` brings next; None is success."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: list[Exception | None] = []
        self.before: Callable[[], None] = lambda: None

    def tell(self, ask: Any) -> None:
        self.asked.append(ask.request)
        self.before()
        error = self.answers.pop(0)
        if error is None:
            ask.reply.set(None)
        else:
            ask.reply.set_exception((type(error), error, None))


@pytest.fixture
def herder() -> Herder:
    return Herder()


@pytest.fixture
def guard(herder: Herder) -> Iterator[HerderGuard]:
    leader = LeaderClient(lambda _: None, "HmacSHA256", None)
    yield HerderGuard(Peers(herder.tell, leader, ConfigView()), TASK, 3)
    leader.close()


def test_a_temporary_refusal_is_retried(herder: Herder, guard: HerderGuard) -> None:
    nobody = NotLeaderError("who leads is not known", None)
    away = NotLeaderError("another leads", "http://127.0.0.1:1/")  # where nobody listens
    herder.answers = [ConflictError("the record could not be written"), nobody, away, None]
    guard.fence()
    assert herder.asked == [FenceZombies(TASK.connector, None, local=True)] * 4


@pytest.mark.parametrize(("what", "text"), [
    ("fence", "Failed to perform a round of zombie fencing for task c-1: not authorized"),
    ("verify", "Failed to perform the preflight check of task c-1: not authorized"),
])
def test_a_permanent_refusal_fails_the_task(herder: Herder, guard: HerderGuard, what: str, text: str) -> None:
    herder.answers = [ConnectError("not authorized")]
    with pytest.raises(ConnectError) as caught:
        getattr(guard, what)()
    assert str(caught.value) == text


def test_the_check_names_the_generation(herder: Herder, guard: HerderGuard) -> None:
    herder.answers = [None]
    guard.verify()
    assert herder.asked == [VerifyTaskStart(TASK, 3)]


def test_a_start_cancelled_during_retries_raises(herder: Herder, guard: HerderGuard) -> None:
    herder.answers = [ConflictError("not yet")]
    herder.before = guard.cancel
    with pytest.raises(StartCancelledError):
        guard.fence()
