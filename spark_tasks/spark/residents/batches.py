"""A submitted batch: splits that run in different processes, and the future of their results."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from spark_tasks.errors import plugin_code
from spark_tasks.futures import complete, fail
from spark_tasks.spark.context import SparkLostError
from spark_tasks.spark.executor import Outcome, value_of
from spark_tasks.spark.residents.fairness import connector_of
from spark_tasks.task import DeferredSplit, Split

Waiting = bytes | DeferredSplit | None
"""A split as it waits in the queue: pickled, or deferred. None: the batch asks for a process of its own."""


@dataclass(slots=True, eq=False)
class SplitBatch:
    """One submission. `left`: the number of splits that have not ended; `lost`: why the whole batch has failed."""

    task: str
    left: int
    future: Future[list[Any]] = field(default_factory=Future)
    outcomes: list[Outcome | None] = field(default_factory=list)
    lost: Exception | None = None
    begun: bool = False  # a process has one of its splits, or had it and did not give it back
    submitted_at: float = field(default_factory=time.monotonic)
    logged_at: float = 0.0  # when its waiting was last logged

    def end(self) -> None:
        """Completes the future: all splits have ended or are no longer needed."""
        if self.lost is not None:
            self.fail(self.lost)
            return
        try:
            with plugin_code():  # unpickled errors have it
                results = [value_of(outcome) for outcome in self.outcomes if outcome is not None]
        except Exception as error:  # noqa: BLE001 - what the plugin raised in the executor
            self.fail(error)
            return
        complete(self.future, results)

    def fail(self, error: BaseException) -> None:
        """Fails the future at once."""
        fail(self.future, error)


@dataclass(slots=True, eq=False)
class Item:
    """One split of a batch. `brief` and `lingers`: while it runs, see Running."""

    batch: SplitBatch
    index: int
    split: Waiting
    brief: bool = False
    lingers: bool = False

    @property
    def task(self) -> str:
        """The task whose split it is."""
        return self.batch.task

    @property
    def connector(self) -> str:
        """The connector whose split it is."""
        return connector_of(self.batch.task)

    def payload(self) -> bytes:
        """The pickled split; a deferred one is created now."""
        return self.split if isinstance(self.split, bytes) else pickle.dumps(self.split, pickle.HIGHEST_PROTOCOL)


def prepared(splits: Iterable[Split[Any]]) -> list[Waiting]:
    """The splits as they wait in the queue. Those that are not deferred are pickled, so that they cannot change."""
    return [split if isinstance(split, DeferredSplit) else pickle.dumps(split, pickle.HIGHEST_PROTOCOL)
            for split in splits]


def outcome_of(answer: bytes | bytearray | memoryview, task: str) -> Outcome:
    """The outcome in the response of a process. Raises SparkLostError if it cannot be read."""
    try:
        (outcome,) = pickle.loads(answer)
    except BaseException as error:  # unpickling runs a plugin's code, which may raise anything
        raise SparkLostError(f"{task}: no result: {error!r}") from error
    if not isinstance(outcome, Outcome):
        raise SparkLostError(f"{task}: unexpected result of type {type(outcome).__name__}")
    return outcome
