"""A Spark job for each batch: the worker's one Spark behind a queue of splits (the Engine of spark_tasks.task).

For `heeler.executors.mode=batch`; the other engine is in spark/residents. Starting never blocks: `start` returns at
once, and submissions wait until Spark is up. There are as many threads as Spark has slots; each runs one Spark job at a
time, with the submissions that jobs.next_job picks. A Spark that dies is started again: batches in flight fail with a
retriable error, and those that wait go on waiting.
"""

from __future__ import annotations

import itertools
import logging
import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from spark_tasks.futures import complete, fail
from spark_tasks.metrics.engine import EngineFigures
from spark_tasks.spark.context import SparkJobs, SparkLostError, SparkSilentError, spark_settings
from spark_tasks.spark.executor import Outcome, value_of
from spark_tasks.spark.jobs import Waiting, expected_seconds, next_job, spread
from spark_tasks.spark.life import EngineState, SparkLife
from spark_tasks.task import Engine, Split

_logger = logging.getLogger(__name__)

WARM_SECONDS = 0.2
LATE_S = 30.0  # a job that several tasks share takes a second or two: something in it hangs
DYING_S = 2.0  # how long a JVM may take to end after its connection broke


@dataclass(slots=True)
class _Submission:
    key: int
    task: str
    pickled: list[bytes]
    seconds: float
    future: Future[list[Any]] = field(default_factory=Future)
    begun: float = 0.0

    @property
    def name(self) -> str:
        """The name of its splits while they run, for SparkJobs.where."""
        return f"batch-{self.key}"

    def finish(self, outcomes: list[Outcome]) -> None:
        try:
            results = [value_of(outcome) for outcome in outcomes]
        except Exception as error:  # noqa: BLE001 - whatever the plugin raised in the executor
            self.fail(error)
            return
        complete(self.future, results)

    def fail(self, error: BaseException) -> None:
        fail(self.future, error)


class _WarmSplit:
    """Occupies a slot for a moment, so that every slot forks its Python worker."""

    def run(self) -> None:
        """Sleep for WARM_SECONDS."""
        time.sleep(WARM_SECONDS)


class SparkEngine(Engine):
    """The Engine of `heeler.executors.mode=batch`. `worker`: the worker's properties."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._changed = threading.Condition()
        self._life = SparkLife(
            spark_settings(worker), self._changed, up=self._up, failed=self._fail_waiting
        )
        self._waiting: dict[int, _Submission] = {}
        self._running: dict[str, list[_Submission]] = {}
        self._alone: set[str] = set()  # tasks in a job that was lost: they do not share until one of theirs succeeds
        self._keys = itertools.count()
        self._submitted = 0
        self._threads: list[threading.Thread] = []

    @property
    def state(self) -> EngineState:
        """The current state."""
        return self._life.state

    @property
    def spark(self) -> SparkJobs | None:
        """The running Spark, if any."""
        return self._life.spark

    def start(self) -> None:
        """Start Spark in the background. Call it when the REST server is up: it takes seconds of CPU."""
        self._life.start()

    def _up(self, spark: SparkJobs) -> None:
        while len(self._threads) < spark.slots:
            thread = threading.Thread(target=self._serve, name=f"engine-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self.submit("warm-up", [_WarmSplit()] * spark.slots)

    def _fail_waiting(self, error: Exception) -> None:
        with self._changed:
            lost = list(self._waiting.values())
            self._waiting.clear()
        for submission in lost:
            submission.fail(error)

    def await_spark(self) -> None:
        """Return when Spark is up; start it if it is not started yet. Raises ConnectError if it cannot be started."""
        self._life.wait()

    @override
    def submit(self, task: str, splits: Sequence[Split[Any]]) -> Future[list[Any]]:
        pickled = [pickle.dumps(split, pickle.HIGHEST_PROTOCOL) for split in splits]
        submission = _Submission(next(self._keys), task, pickled, expected_seconds(splits))
        if not splits:
            submission.future.set_result([])
            return submission.future
        with self._changed:
            refusal = self._life.refusal()
            if refusal is None:
                self._submitted += 1
                self._waiting[submission.key] = submission
                self._changed.notify()
        if refusal is not None:
            submission.fail(refusal)
        return submission.future

    @override
    def cancel(self, batch: Future[list[Any]]) -> None:
        """A Spark job that other tasks have splits in goes on, and the batch's results are dropped. But a job that
        should have ended long ago is cancelled, and the other tasks repeat their batches, each in a job of its own.
        """
        with self._changed:
            waiting = [s for s in self._waiting.values() if s.future is batch]
            for submission in waiting:
                del self._waiting[submission.key]
            running = [(group, job) for group, job in self._running.items() if any(s.future is batch for s in job)]
            spark = self._life.spark
        for submission in itertools.chain(waiting, *(job for _, job in running)):
            if submission.future is batch:
                submission.fail(CancelledError(f"a batch of {submission.task} was given up"))
        for group, job in running:
            late = any(time.monotonic() - s.begun > LATE_S for s in job)
            if spark is not None and (late or all(s.future.done() for s in job)):
                spark.cancel(group)

    def where(self, batch: Future[list[Any]]) -> str | None:
        """Where the splits of a batch are now, in words; None if none of them runs. Takes seconds."""
        with self._changed:
            names = [s.name for job in self._running.values() for s in job if s.future is batch]
            spark = self._life.spark
        return spark.where(names[0]) if names and spark is not None else None

    def degraded(self) -> Sequence[str]:
        """Tasks with problems, in words. None here: in this mode the worker's watchdog finds those that hang."""
        return ()

    def figures(self) -> EngineFigures:
        """The engine's figures for the worker's metrics."""
        spark = self._life.spark
        with self._changed:
            running = sum(len(job) for job in self._running.values())
            waiting = len(self._waiting)
        return EngineFigures(spark is not None, spark.slots if spark is not None else 0, self._submitted, waiting,
                             running, spark.pid if spark is not None else None)

    def close(self) -> None:
        """Fail all batches and stop Spark. Takes a few seconds at most."""
        with self._changed:
            lost = [*self._waiting.values(), *(s for job in self._running.values() for s in job)]
            self._waiting.clear()
            spark = self._life.end()
        for submission in lost:
            submission.fail(CancelledError("the worker stops"))
        if spark is not None:
            spark.close()
        self._life.join()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self.state is EngineState.CLOSED
                    or (self.state is EngineState.RUNNING and bool(self._waiting))
                )
                spark = self._life.spark
                if spark is None:
                    return
                group, job = f"job-{next(self._keys)}", self._take(spark.slots)
                if not job:
                    continue  # all of it was cancelled while it waited
                self._running[group] = job
            try:
                self._run(spark, group, job)
            finally:
                with self._changed:
                    del self._running[group]

    def _take(self, slots: int) -> list[_Submission]:
        """The next job's submissions; the caller holds the lock."""
        waiting = [Waiting(s.key, s.seconds, s.task in self._alone) for s in self._waiting.values()]
        taken = [self._waiting.pop(key) for key in next_job(waiting, slots - len(self._running))]
        job = [s for s in taken if s.future.set_running_or_notify_cancel()]
        for submission in job:
            submission.begun = time.monotonic()
        return job

    def _run(self, spark: SparkJobs, group: str, job: list[_Submission]) -> None:
        tasks = ", ".join(sorted({s.task for s in job}))
        flat = [split for submission in job for split in submission.pickled]
        names = [submission.name for submission in job for _ in submission.pickled]
        layout = spread(len(flat), spark.slots, shared=len(job) > 1)
        try:
            answers = spark.run(group, tasks, [[flat[i] for i in numbers] for numbers in layout],
                                [[names[i] for i in numbers] for numbers in layout])
        except Exception as error:  # noqa: BLE001 - the answers are pickled, and unpickling may raise anything
            lost = error if isinstance(error, SparkLostError) else SparkLostError(f"{tasks}: no answer: {error!r}")
            self._alone |= {s.task for s in job}
            if isinstance(lost, SparkSilentError) and not spark.alive(DYING_S):
                self._life.died(spark)
            for submission in job:
                submission.fail(lost)
            return
        outcomes: list[Outcome] = [Outcome()] * len(flat)
        for numbers, answer in zip(layout, answers, strict=True):
            for number, outcome in zip(numbers, answer, strict=True):
                outcomes[number] = outcome
        at = 0
        for submission in job:
            self._alone.discard(submission.task)
            submission.finish(outcomes[at : at + len(submission.pickled)])
            at += len(submission.pickled)
