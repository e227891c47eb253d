"""Actors that have a thread only while they have messages: ten thousand idle ones cost none.

An actor's messages are handled one after another, as Pykka does it, but not always by the same thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pykka
from typing_extensions import override

_logger = logging.getLogger(__name__)

Turn = Callable[[], None]

THREADS = 8
CHECK_S = 0.02
BUSY = 0.5  # cores: more threads do not help a process that uses more
HUNG_S = 0.5  # if no thread has taken a turn for this long, they all hang


class ActorThreads:
    """The threads that pooled actors share; a thread ends when there is nothing to do.

    There are at most THREADS threads, and more while those wait for something other than the CPU, such as a database.
    So a thousand actors that start at once leave CPU time for others, and a plugin that hangs does not block other
    plugins.
    """

    def __init__(self, cpu_s: Callable[[], float] = time.process_time) -> None:
        """`cpu_s` returns the CPU time of this process in seconds."""
        self._cpu_s = cpu_s
        self._lock = threading.Lock()
        self._waiting: deque[Turn] = deque()
        self._threads = self._taken = 0
        self._checking = False

    def run(self, turn: Turn) -> None:
        """Calls `turn` on one of the threads, in the order of arrival. Never blocks. Can be called on any thread."""
        with self._lock:
            self._waiting.append(turn)
            self._start()

    def retry(self) -> None:
        """Starts the thread that could not be started before, if any. The supervisor calls it."""
        with self._lock:
            if self._waiting:
                self._start()

    def _start(self) -> None:
        if self._threads < THREADS:
            self._add(1)
        elif not self._checking:
            self._checking = _started(self._add_when_needed, "actor-threads")

    def _add(self, count: int) -> None:
        for _ in range(count):
            if not _started(self._serve, "actor"):
                return
            self._threads += 1

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

    def _add_when_needed(self) -> None:
        # Runs as long as an actor waits for a thread.
        taken, since = self._taken, time.monotonic()
        while True:
            begun, cpu_s = time.monotonic(), self._cpu_s()
            time.sleep(CHECK_S)
            now = time.monotonic()
            busy = (self._cpu_s() - cpu_s) / (now - begun)
            with self._lock:
                if not self._waiting:
                    self._checking = False
                    return
                if self._taken != taken:
                    taken, since = self._taken, now
                if busy < BUSY or now - since > HUNG_S:
                    self._add(min(len(self._waiting), self._threads))
                    since = now


def _started(run: Callable[[], None], name: str) -> bool:
    """Starts a thread. Returns False if the system starts no more: the next turn, or `retry`, tries it again."""
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        _logger.exception("No thread could be started for the actors of connectors")
        return False
    return True


class _EmptyError(Exception):
    """There is no message: the thread is free for other actors."""


class _Inbox:
    """An actor's messages. `run` is called when a message arrives while no thread handles the actor's messages."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._lock = threading.Lock()
        self._being_taken = True  # until the actor has been started
        self._run: Callable[[], None] = lambda: None

    def open(self, run: Callable[[], None]) -> None:
        """Starts handling messages, and calls `run` immediately."""
        self._run = run
        run()

    def put(self, message: Any) -> None:
        """Adds a message. Any thread."""
        with self._lock:
            self._messages.append(message)
            if self._being_taken:
                return
            self._being_taken = True
        self._run()

    def get(self) -> Any:
        """Takes the oldest message. Raises _EmptyError if there is none; `run` is called for the next one."""
        with self._lock:
            if self._messages:
                return self._messages.popleft()
            self._being_taken = False
        raise _EmptyError

    def empty(self) -> bool:
        """Whether there are no messages."""
        return not self._messages

    def qsize(self) -> int:
        """The number of messages."""
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
