"""Actors without their own threads: the order of messages, the end of actors, and waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pykka
import pytest
from typing_extensions import override

from actors.instances.pooled import THREADS, ActorThreads, PooledActor
from tests.rigs.support import no_thread, wait_until

WITHIN_S = 10.0


class Waiter(PooledActor):
    """Calls what it is sent; `at_once` is how many of them do so now."""

    at_once = max_at_once = 0
    lock = threading.Lock()

    def __init__(self, threads: ActorThreads) -> None:
        super().__init__(threads)
        self.began = False
        self.seen: list[object] = []

    @override
    def on_start(self) -> None:
        self.began = True

    @override
    def on_receive(self, message: object) -> object:
        assert self.began
        with Waiter.lock:
            Waiter.at_once += 1
            Waiter.max_at_once = max(Waiter.max_at_once, Waiter.at_once)
        try:
            self.seen.append(message)
            return message() if callable(message) else list(self.seen)
        finally:
            with Waiter.lock:
                Waiter.at_once -= 1


@pytest.fixture(autouse=True)
def _counted() -> Iterator[None]:
    Waiter.max_at_once = 0
    yield
    pykka.ActorRegistry.stop_all(timeout=WITHIN_S)
    assert Waiter.at_once == 0


def living() -> int:
    return sum(thread.name == "actor" for thread in threading.enumerate())


def test_messages_are_handled_in_order_and_one_at_a_time() -> None:
    ref = Waiter.start(ActorThreads())
    senders = [threading.Thread(target=lambda: [ref.tell("x") for _ in range(200)]) for _ in range(4)]
    for sender in senders:
        sender.start()
    for n in range(200):
        ref.tell(n)
    for sender in senders:
        sender.join(WITHIN_S)
    seen = ref.ask("last", timeout=WITHIN_S)
    assert [message for message in seen if message != "x"] == [*range(200), "last"]
    assert len(seen) == 1001
    assert Waiter.max_at_once == 1


def test_idle_actors_have_no_thread() -> None:
    threads = ActorThreads()
    refs = [Waiter.start(threads) for _ in range(300)]
    assert [len(ref.ask("once", timeout=WITHIN_S)) for ref in refs] == [1] * 300
    wait_until(lambda: living() == 0, WITHIN_S, "the threads to end")
    assert len(refs[0].ask("again", timeout=WITHIN_S)) == 2


def test_an_error_is_reported_to_its_caller_and_ends_no_caller() -> None:
    ref = Waiter.start(ActorThreads())
    with pytest.raises(ZeroDivisionError):
        ref.ask(lambda: 1 // 0, timeout=WITHIN_S)
    assert ref.ask("on", timeout=WITHIN_S)
    ref.tell(lambda: 1 // 0)
    wait_until(lambda: not ref.is_alive(), WITHIN_S, "the end of the actor")


def test_messages_for_an_actor_that_stops_are_refused() -> None:
    ref, go = Waiter.start(ActorThreads()), threading.Event()
    ref.tell(lambda: go.wait(WITHIN_S))
    stopped = ref.stop(block=False)
    late = ref.ask("late", block=False)
    go.set()
    assert stopped.get(timeout=WITHIN_S)
    with pytest.raises(pykka.ActorDeadError):
        late.get(timeout=WITHIN_S)
    with pytest.raises(pykka.ActorDeadError):
        ref.ask("later", timeout=WITHIN_S)


@pytest.mark.parametrize("busy", [False, True])
def test_actors_that_hang_block_no_others(*, busy: bool) -> None:
    """Even if others use the processor all the time."""
    threads, go = ActorThreads(time.monotonic if busy else lambda: 0.0), threading.Event()
    for _ in range(3 * THREADS):
        Waiter.start(threads).tell(lambda: go.wait(WITHIN_S))
    try:
        assert Waiter.start(threads).ask("on", timeout=WITHIN_S) == ["on"]
    finally:
        go.set()


def test_actors_that_need_the_processor_run_a_few_at_a_time() -> None:
    looks, go = [0.0], threading.Event()

    def spent() -> float:
        looks.append(time.monotonic())
        return looks[-1]

    threads = ActorThreads(spent)
    for _ in range(10 * THREADS):
        Waiter.start(threads).tell(lambda: go.wait(WITHIN_S))
    wait_until(lambda: len(looks) > 6, WITHIN_S, "three looks at those that wait")
    assert Waiter.max_at_once == THREADS
    go.set()


def test_what_waits_while_no_thread_can_be_started_is_handled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = ActorThreads()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        first = Waiter.start(threads)
        first.tell("early")
        threads.retry()
    threads.retry()
    assert first.ask("late", timeout=WITHIN_S) == ["early", "late"]


def test_more_threads_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, go = ActorThreads(lambda: 0.0), threading.Event()
    for _ in range(THREADS):
        Waiter.start(threads).tell(lambda: go.wait(WITHIN_S))
    wait_until(lambda: Waiter.at_once == THREADS, WITHIN_S, "all threads to hang")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        waiting = Waiter.start(threads)
    threads.retry()
    try:
        assert waiting.ask("on", timeout=WITHIN_S) == ["on"]
    finally:
        go.set()
