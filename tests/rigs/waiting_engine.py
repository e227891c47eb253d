"""An engine of executors at whose other end the test is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import Any


class EngineWithoutProcesses:
    """What engines of tests have in common."""

    job_per_batch = False

    def cancel(self, batch: Future[list[Any]]) -> None:
        with suppress(InvalidStateError):
            batch.set_exception(CancelledError())

    def runs(self, batch: Future[list[Any]]) -> bool:
        return batch.running()

    def own_process(self, _task: str) -> None:
        return None

    def ready_s(self, _batch: Future[list[Any]]) -> float:
        return 0.0

    def where(self, _batch: Future[list[Any]]) -> str | None:
        return None


class WaitingEngine(EngineWithoutProcesses):
    """What was submitted waits for the test. `meanwhile` is called while a batch is submitted."""

    def __init__(self) -> None:
        self.splits: list[Any] = []
        self.batches: list[Future[list[Any]]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def submit(self, _task: str, splits: Sequence[Any]) -> Future[list[Any]]:
        self.meanwhile()
        self.splits += splits
        self.batches.append(Future())
        return self.batches[-1]
