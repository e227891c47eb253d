"""Actors that have a thread only while they have messages: ten thousand idle ones cost none.

An actor's messages are handled one after another, as Pykka does it, but not always by the same thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pykka
from typing_extensions import override

Turn = Callable[[], None]

LEAST = 8
LOOK_S = 0.02
BUSY = 0.5  # of a core: a process that uses more is not helped by another thread
HUNG_S = 0.5


class ActorThreads:
    """The threads of pooled actors, which live as long as there is something to do: LEAST of them, and more while those
    wait for something other than the processor, such as a database. So a thousand actors that start do not keep the
    processor from everybody else, and plugins that hang hold up no other.
    """

    def __init__(self, spent: Callable[[], float] = time.process_time) -> None:
        """`spent`: seconds of the processor that this process has used."""
        self._spent = spent
        self._lock = threading.Lock()
        self._waiting: deque[Turn] = deque()
        self._threads = self._taken = 0
        self._looking = False

    def run(self, turn: Turn) -> None:
        """Call `turn` on one of the threads, in the order of arrival. Never blocks; any thread."""
        with self._lock:
            self._waiting.append(turn)
            if self._threads < LEAST:
                self._add(1)
            elif not self._looking:
                self._looking = True
                threading.Thread(target=self._look, name="actor-threads", daemon=True).start()

    def _add(self, count: int) -> None:
        for _ in range(count):
            self._threads += 1
            threading.Thread(target=self._serve, name="actor", daemon=True).start()

    def _serve(self) -> None:
        while (turn := self._next()) is not None:
            turn()

    def _next(self) -> Turn | None:
        with self._lock:
            if self._waiting:
                self._taken += 1
                return self._waiting.popleft()
            self._threads -= 1
            return None

    def _look(self) -> None:
        # Lives as long as somebody waits for a thread.
        taken, since = self._taken, time.monotonic()
        while True:
            begun, spent = time.monotonic(), self._spent()
            time.sleep(LOOK_S)
            now = time.monotonic()
            busy = (self._spent() - spent) / (now - begun)
            with self._lock:
                if not self._waiting:
                    self._looking = False
                    return
                if self._taken != taken:
                    taken, since = self._taken, now
                if busy < BUSY or now - since > HUNG_S:
                    self._add(min(len(self._waiting), self._threads))
                    since = now


class _EmptyError(Exception):
    """There is no message: the thread is free for other actors."""


class _Inbox:
    """An actor's messages; `run` is called whenever there are some that nobody takes."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._lock = threading.Lock()
        self._being_taken = True  # until the actor has been started
        self._run: Callable[[], None] = lambda: None

    def open(self, run: Callable[[], None]) -> None:
        """Have messages taken from now on."""
        self._run = run
        run()

    def put(self, message: Any) -> None:
        """Any thread."""
        with self._lock:
            self._messages.append(message)
            if self._being_taken:
                return
            self._being_taken = True
        self._run()

    def get(self) -> Any:
        """Raises _EmptyError, after which `run` is called for the next message."""
        with self._lock:
            if self._messages:
                return self._messages.popleft()
            self._being_taken = False
        raise _EmptyError

    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._messages

    def qsize(self) -> int:
        """How many messages wait."""
        return len(self._messages)


class PooledActor(pykka.ThreadingActor):
    """A Pykka actor on ActorThreads."""

    actor_inbox: _Inbox

    def __init__(self, threads: ActorThreads) -> None:
        super().__init__()
        self._threads = threads
        self._begun = False

    @staticmethod
    @override
    def _create_actor_inbox() -> _Inbox:
        return _Inbox()

    @override
    def _start_actor_loop(self) -> None:
        self.actor_inbox.open(lambda: self._threads.run(self._turn))

    def _turn(self) -> None:
        try:
            if not self._begun:
                self._begun = True
                self._actor_loop_setup()
            self._actor_loop_running()
        except _EmptyError:
            return
        self._actor_loop_teardown()
