"""What runs in an executor's Python worker: a Spark partition is a list of splits, run one after the other.

The command that Spark sends is this module's SplitRunner, pickled by reference, so executors need `spark_tasks` by
that name and nothing of the driver's. A split's error is a result like any other: it must not fail the Spark job,
which may carry splits of other tasks.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_tasks.errors import ConnectError, PermanentError, RetriableError, is_permanent
from spark_tasks.metrics.phases import mark, stage_of
from spark_tasks.spark.stacks import telling
from spark_tasks.task import Split

if TYPE_CHECKING:
    from pyspark import TaskContext


class SplitError(ConnectError):
    """A split raised something that cannot be sent between processes; the message has its type and text."""


class RetriableSplitError(SplitError, RetriableError):
    """The same for an error that was retriable."""


class PermanentSplitError(SplitError, PermanentError):
    """The same for an error that a retry cannot cure."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one split. `trace` is the executor's traceback where there is an error."""

    value: Any = None
    error: BaseException | None = None
    trace: str | None = None
    seconds: float = 0.0
    stage: str = ""  # where the error came from


class SplitRunner:
    """The function of a Spark job: partition i runs the pickled splits `partitions[i]`. While it runs one, the process
    says under the name of `names[i]` in `folder` where it is (stacks.py).
    """

    def __init__(self, partitions: list[list[bytes]], folder: str = "", names: list[list[str]] | None = None) -> None:
        self._partitions = partitions
        self._folder = folder
        self._names = names

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[bytes]:
        """One pickled list of Outcomes. `rows` is empty, but has to be read or Spark throws the worker away."""
        from pyspark import TaskContext  # noqa: PLC0415 - the worker itself starts without it

        for _ in rows:
            pass
        refuse_second_attempt(TaskContext.get())
        splits = self._partitions[index]
        names = self._names[index] if self._names is not None else [""] * len(splits)
        yield packed([self._run(split, name) for split, name in zip(splits, names, strict=True)])

    def _run(self, split: bytes, name: str) -> Outcome:
        if not name:
            return run_split(split)
        with telling(self._folder, name):
            return run_split(split)


class SecondAttemptError(ConnectError):
    """Spark ran a task again by itself. Its first attempt may still be writing."""


def refuse_second_attempt(context: TaskContext | None) -> None:
    """Have the Spark job fail instead: the Connect task then repeats the whole batch under new producer epochs.

    spark.task.maxFailures does not cover everything: attempts that end with their executor do not count.
    """
    if context is not None and context.attemptNumber():
        raise SecondAttemptError(f"attempt {context.attemptNumber()} of a Spark task; the batch is repeated instead")


def run_split(pickled: bytes) -> Outcome:
    """Unpickle and run one split; every error becomes an Outcome."""
    begun = time.perf_counter()
    try:
        split: Split[Any] = pickle.loads(pickled)
        return Outcome(value=split.run(), seconds=time.perf_counter() - begun)
    except Exception as error:  # noqa: BLE001 - plugin code: whatever it raises is its task's failure
        return failed_outcome(error, time.perf_counter() - begun)


def packed(outcomes: list[Outcome]) -> bytes:
    """The pickled outcomes; a value that cannot be pickled is its own split's error."""
    try:
        return pickle.dumps(outcomes, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - a value holds what a plugin made: the message of a sink's writer
        return pickle.dumps([_sendable(outcome) for outcome in outcomes], pickle.HIGHEST_PROTOCOL)


def _sendable(outcome: Outcome) -> Outcome:
    try:
        pickle.dumps(outcome)
    except Exception as error:  # noqa: BLE001 - as above
        return failed_outcome(SplitError(f"the answer of a split cannot be sent to the worker: {error}"))
    return outcome


def failed_outcome(error: Exception, seconds: float = 0.0) -> Outcome:
    """The Outcome of an error, in a form that can be sent between processes."""
    trace, stage = "".join(traceback.format_exception(error)), stage_of(error)
    bare = error.with_traceback(None)
    try:
        pickle.loads(pickle.dumps(bare))
    except Exception:  # noqa: BLE001 - exceptions with odd constructors fail in any way they like
        kind = SplitError
        if isinstance(error, RetriableError):
            kind = RetriableSplitError
        elif is_permanent(error):
            kind = PermanentSplitError
        bare = kind(f"{type(error).__name__}: {error}")
    return Outcome(error=bare, trace=trace, seconds=seconds, stage=stage)


class ExecutorTracebackError(Exception):
    """The cause of an error that came from an executor: its text is the traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def value_of(outcome: Outcome) -> Any:
    """The split's value, or its error with the executor's traceback as the cause."""
    if outcome.error is not None:
        mark(outcome.error, outcome.stage)
        raise outcome.error from ExecutorTracebackError(outcome.trace or "")
    return outcome.value
