"""The lag between produced and consumed records, measured in a thread with a separate reader."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Self

from tests.rigs.exactly_once_cluster import Reader
from tests.rigs.workers import Kafka

_OF_ONE_TASK = 2  # streams: what a suspended process may hold up
_KEPT_S = 120.0
_LOOK_S = 0.2


class Behind:
    """`sunk` returns a sink's next number of each stream.

    `furthest`: the largest delay, in seconds, of a task whose own process was not suspended; each new largest delay in
    whole seconds is said, so that the moment can be found in the logs. A context manager that measures within the
    block.
    """

    def __init__(self, kafka: Kafka, topic: str, streams: int, sunk: Callable[[], Mapping[int, int]],
                 say: Callable[[str], None]) -> None:
        self.furthest = {"source": 0.0, "sink": 0.0}
        self._excused_until: list[float] = []  # one for each process that is or was just suspended
        self._reader = Reader(kafka, topic)
        self._streams = streams
        self._sunk = sunk
        self._say = say
        self._history: deque[tuple[float, dict[int, int]]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def excuse(self, seconds: float) -> None:
        """Leaves out the two worst streams for this time: a process is suspended, and they may belong to it. Another
        process that is suspended meanwhile has two of its own.
        """
        self._excused_until = [*self._excused_until, time.monotonic() + seconds]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._reader.close()

    def _run(self) -> None:
        reader, caught_up = self._reader, False
        while not self._stop.is_set():
            reader.read(_LOOK_S)
            now = time.monotonic()
            self._history.append((now, dict(reader.next)))
            while now - self._history[0][0] > _KEPT_S:
                self._history.popleft()
            made = [time.time() - at for at in reader.made_at.values()]
            # Older records are read first.
            caught_up = caught_up or (len(made) == self._streams and max(made) < 1)
            if caught_up:
                self._note("source", made)
                sunk = {**dict.fromkeys(range(self._streams), 0), **self._sunk()}
                self._note("sink", [self._since(stream, at, now) for stream, at in sunk.items()])

    def _since(self, stream: int, number: int, now: float) -> float:
        """How long ago the reader saw that number."""
        return next((now - at for at, seen in self._history if seen.get(stream, 0) > number), 0.0)

    def _note(self, what: str, behind: list[float]) -> None:
        now = time.monotonic()
        spared = _OF_ONE_TASK * sum(now < until for until in self._excused_until)
        counted = sorted(behind)[: max(0, len(behind) - spared)]
        largest = max(counted, default=0.0)
        if int(largest) > int(self.furthest[what]):
            self._say(f"a {what} is {largest:.1f} s behind, the most so far")
        self.furthest[what] = max(self.furthest[what], largest)
