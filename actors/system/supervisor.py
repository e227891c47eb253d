"""Detects dead actors. A connector or task becomes FAILED; the death of any other actor stops the worker gracefully."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pykka

from actors.instances.registry import ActorInstances


class Supervisor:
    """`check` is called about once a second; `fail` is called with the reason if a core actor has died. `start_threads`
    starts those that the actors could not start before.
    """

    def __init__(self, core: Mapping[str, pykka.ActorRef[Any]], instances: ActorInstances,
                 start_threads: Callable[[], None], fail: Callable[[str], None], halting: Callable[[], bool]) -> None:
        self._core = dict(core)
        self._instances = instances
        self._start_threads = start_threads
        self._fail = fail
        self._halting = halting

    def check(self) -> None:
        """Checks all actors once."""
        self._start_threads()
        if self._halting():
            return
        for name, ref in self._core.items():
            if not ref.is_alive():
                self._fail(f"The {name} died")
                return
        self._instances.watch()
