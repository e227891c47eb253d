"""Helpers for many tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from spark_tasks.process.suspension import Pulse

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")
BACK_SOON = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}  # after a kill -9


def wait_until(
    condition: Callable[[], T], within: float = 15.0, what: str = "the condition", *, longest_pause: float = 0.1
) -> T:
    """Wait for a true result of `condition`, which is called repeatedly for at most `within` seconds.

    An AssertionError in the condition counts as "not yet"; the last one is shown when time is up. On a busy machine,
    calls take longer and are made less often, because what is waited for needs the CPU. `longest_pause` (seconds) is
    short for a state that passes quickly.
    """
    deadline = time.monotonic() + within
    pause = min(0.005, longest_pause)
    while True:
        failed: AssertionError | None = None
        begun = time.monotonic()
        try:
            answer = condition()
        except AssertionError as error:
            failed = error
        else:
            if answer:
                return answer
        now = time.monotonic()
        if now >= deadline:
            raise AssertionError(f"waited {within:.0f} s in vain for {what}") from failed
        time.sleep(max(pause, min(2 * (now - begun), 0.3)))
        pause = min(pause * 1.5, longest_pause)


class Sleeper:
    """A process, as `module` sees it, whose last beat is 300 seconds ago once `wake` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
        self._behind = 300.0
        self.pulse = Pulse(lambda: time.monotonic() - self._behind)
        monkeypatch.setattr(f"{module}.process_pulse", lambda: self.pulse)

    def wake(self) -> None:
        self._behind = 0.0


def no_thread(*_: object) -> None:
    """Takes the place of Thread.start in a process that cannot start more threads."""
    raise RuntimeError("can't start new thread")
