"""Runs splits in an executor's Python worker. A Spark partition is a list of splits, which run one after the other.

The function of a Spark job is this module's SplitRunner, pickled by reference: executors need the package
`spark_tasks`, and nothing of the driver. The error of a split is returned as a result. It must not fail the Spark job,
which may also have splits of other tasks.
"""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES
from spark_tasks.errors import (
    ConnectError,
    PermanentError,
    RetriableError,
    is_permanent,
    plugin_code,
    shortened,
    text_of,
)
from spark_tasks.metrics.phases import mark, stage_of
from spark_tasks.spark.stacks import stacks_available
from spark_tasks.task import Split

if TYPE_CHECKING:
    from pyspark import TaskContext


_logger = logging.getLogger(__name__)
_MAX_TEXT = 100_000  # characters of an error's message and of its trace
_MAX_ERROR_BYTES = 1 << 20  # of a pickled error


def result_limit(max_record_bytes: int) -> int:
    """Returns the maximum size of a pickled result in bytes. The worker holds a result twice. Splits of Java connectors
    return records, each one as it was read and as it is after the chain, so there must be room for the largest one.
    """
    return max(256 << 20, 2 * max_record_bytes + (64 << 20))


MAX_RESULT_BYTES = result_limit(DEFAULT_MAX_RECORD_BYTES)


class SplitError(ConnectError):
    """A split raised an error that cannot be pickled. The message has its type and message."""


class RetriableSplitError(SplitError, RetriableError):
    """A SplitError for a retriable error."""


class PermanentSplitError(SplitError, PermanentError):
    """A SplitError for a permanent error."""


class Outcome(NamedTuple):  # as SinkResult
    """The value or the error of one split. `trace`: the executor's traceback of the error. `seconds`: the run time;
    `cpu_seconds`: what its process used meanwhile.
    """

    value: Any = None
    error: BaseException | None = None
    trace: str | None = None
    seconds: float = 0.0
    stage: str = ""  # of the error, see metrics.phases
    cpu_seconds: float = 0.0


class SplitRunner:
    """The function of a Spark job. Partition i runs the pickled splits `partitions[i]`. While a split runs, the stacks
    of the process are available in `folder`, under the split's name in `names[i]` (stacks.py). `max_bytes`: the maximum
    size of a pickled result.
    """

    def __init__(
        self, partitions: list[list[bytes]], folder: str = "", names: list[list[str]] | None = None,
        max_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        self._partitions = partitions
        self._folder = folder
        self._names = names
        self._max_bytes = max_bytes

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[bytes]:
        """Yields one pickled list of Outcomes. `rows` is empty but must be read, or Spark does not reuse the Python
        worker.
        """
        from pyspark import TaskContext  # noqa: PLC0415 - heeler's worker imports this module, but not PySpark

        for _ in rows:
            pass
        refuse_second_attempt(TaskContext.get())
        splits = self._partitions[index]
        names = self._names[index] if self._names is not None else [""] * len(splits)
        outcomes = [self._run(split, name) for split, name in zip(splits, names, strict=True)]
        yield pickled_outcomes(outcomes, self._max_bytes)

    def _run(self, split: bytes, name: str) -> Outcome:
        if not name:
            return run_split(split)
        with stacks_available(self._folder, name):
            return run_split(split)


class SecondAttemptError(ConnectError):
    """Spark has retried a Spark task, whose first attempt may still be appending records."""


def refuse_second_attempt(context: TaskContext | None) -> None:
    """Raises SecondAttemptError if this is a retry by Spark. The Spark job then fails, and the Connect task repeats the
    batch with new producer epochs. (spark.task.maxFailures does not prevent all retries: attempts whose executor ended
    do not count.)
    """
    if context is not None and context.attemptNumber():
        raise SecondAttemptError(f"Spark repeated a task (attempt {context.attemptNumber()}); heeler repeats the batch "
                                 "instead")


def run_split(pickled: bytes | bytearray) -> Outcome:
    """Unpickles and runs one split. Returns its value or its error."""
    begun, used = time.perf_counter(), time.process_time()
    try:
        with plugin_code():
            split: Split[Any] = pickle.loads(pickled)
            outcome = Outcome(value=split.run())
    except Exception as error:  # noqa: BLE001 - plugin code; its task fails with the error
        outcome = failed_outcome(error)
    return outcome._replace(seconds=time.perf_counter() - begun, cpu_seconds=time.process_time() - used)


def pickled_outcomes(outcomes: list[Outcome], max_bytes: int = MAX_RESULT_BYTES) -> bytes:
    """Pickles outcomes. A value that cannot be pickled or is too large becomes the error of its split."""
    pickled = _pickled(outcomes)
    return pickled if len(pickled) <= max_bytes else _pickled([_limited(outcome, max_bytes) for outcome in outcomes])


def _limited(outcome: Outcome, max_bytes: int) -> Outcome:
    size = len(_pickled([outcome]))
    if size <= max_bytes:
        return outcome
    return _failed(outcome, PermanentSplitError(
        f"the result of a split has {size >> 20} MiB, more than the {max_bytes >> 20} MiB that a worker takes; "
        "a writer's commit message and a reader's offset should be small"))


def _pickled(outcomes: list[Outcome]) -> bytes:
    try:
        with plugin_code():
            return pickle.dumps(outcomes, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - a value contains a plugin's object, the commit message of a sink's writer
        return _dumps_as_spark([_picklable(outcome) for outcome in outcomes])


def _dumps_as_spark(value: Any) -> bytes:
    """Pickles also lambdas and local classes, as Spark does, which takes much longer."""
    from pyspark import cloudpickle  # noqa: PLC0415 - as above

    pickled: bytes = cloudpickle.dumps(value)
    return pickled


def _picklable(outcome: Outcome) -> Outcome:
    try:
        with plugin_code():
            _dumps_as_spark(outcome)
    except Exception as error:  # noqa: BLE001 - as above
        return _failed(outcome, SplitError(f"the result of a split cannot be sent to the worker: {error}"))
    return outcome


def _failed(outcome: Outcome, error: Exception) -> Outcome:
    return failed_outcome(error)._replace(seconds=outcome.seconds, cpu_seconds=outcome.cpu_seconds)


def failed_outcome(error: Exception) -> Outcome:
    """Returns the Outcome of an error, in a form that can be pickled."""
    trace = shortened("".join(traceback.format_exception(error)), _MAX_TEXT)
    try:
        with plugin_code():
            return Outcome(error=_sendable(error), trace=trace, stage=stage_of(error))
    except Exception:  # noqa: BLE001 - the error's class may raise anything
        return Outcome(error=SplitError(shortened(text_of(error), _MAX_TEXT)), trace=trace)


def _sendable(error: Exception) -> Exception:
    """Returns the error, or one with its text if it cannot be pickled, would become something else, is so large (the
    statement with all its rows, say) that formatting and logging it would occupy the worker, or would look like the
    worker's own cancellation of the batch.
    """
    bare = error.with_traceback(None)
    try:
        if isinstance(bare, CancelledError):  # of a future of the plugin
            return SplitError(shortened(text_of(error), _MAX_TEXT))
        with plugin_code():
            pickled = pickle.dumps(bare)
            if len(pickled) <= _MAX_ERROR_BYTES and isinstance(pickle.loads(pickled), Exception):
                return bare
    except Exception:  # noqa: BLE001 - exceptions with unusual constructors may raise anything
        _logger.debug("An error of type %s cannot be pickled", type(error).__name__)
    kind = SplitError
    if isinstance(error, RetriableError):
        kind = RetriableSplitError
    elif is_permanent(error):
        kind = PermanentSplitError
    return kind(shortened(text_of(error), _MAX_TEXT))


class _Process:
    """What is known of this process. `dedicated`: see dedicate."""

    dedicated = False


def dedicate() -> None:
    """Makes this process end when its task gives it up: nobody else may find what is in it."""
    _Process.dedicated = True


def is_dedicated() -> bool:
    """Whether this process belongs to a task."""
    return _Process.dedicated


class ExecutorTracebackError(Exception):
    """The cause of an error from an executor. Its message is the executor's traceback."""

    @override
    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def value_of(outcome: Outcome) -> Any:
    """Returns the split's value, or raises its error with the executor's traceback as the cause."""
    if outcome.error is not None:
        mark(outcome.error, outcome.stage)
        raise outcome.error from ExecutorTracebackError(outcome.trace or "")
    return outcome.value
