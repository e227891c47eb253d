"""The engine of `heeler.executors.mode=batch`, which runs batches as Spark jobs. The other engine is in
spark/residents.

`start` does not block; submissions wait in a queue until Spark is running. There is a thread for each slot of Spark. It
runs one Spark job at a time, with the submissions that jobs.next_job chooses. If Spark ends, it is started again:
batches in flight fail with a retriable error, and those in the queue stay there.
"""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from spark_tasks.errors import plugin_code
from spark_tasks.futures import complete, fail
from spark_tasks.metrics.engine import EngineFigures
from spark_tasks.spark.context import SparkJobs, SparkLostError, SparkSilentError, spark_settings
from spark_tasks.spark.executor import MAX_RESULT_BYTES, Outcome, value_of
from spark_tasks.spark.jobs import Waiting, expected_seconds, next_job, spread
from spark_tasks.spark.lifecycle import EngineState, SparkLifecycle
from spark_tasks.task import Engine, Split

WARM_SECONDS = 0.2
LATE_S = 30.0  # a job that several tasks share should take a second or two; after this time something in it hangs
DYING_S = 2.0  # how long a JVM may take to end after its connection has broken


@dataclass(slots=True)
class _Submission:
    key: int
    task: str
    pickled: list[bytes]
    seconds: float
    future: Future[list[Any]] = field(default_factory=Future)
    submitted: float = field(default_factory=time.monotonic)
    begun: float = 0.0

    @property
    def name(self) -> str:
        """The name of its splits while they run, for SparkJobs.where."""
        return f"batch-{self.key}"

    def finish(self, outcomes: list[Outcome]) -> None:
        try:
            with plugin_code():  # unpickled errors have it
                results = [value_of(outcome) for outcome in outcomes]
        except Exception as error:  # noqa: BLE001 - the plugin may have raised anything in the executor
            self.fail(error)
            return
        complete(self.future, results)

    def fail(self, error: BaseException) -> None:
        fail(self.future, error)


class _WarmSplit:
    """Occupies a slot for a moment, so that Spark forks a Python worker for every slot."""

    def run(self) -> None:
        """Sleeps for WARM_SECONDS."""
        time.sleep(WARM_SECONDS)


class SparkEngine(Engine):
    """Runs batches as Spark jobs. `spark`: the worker's properties for Spark (see spark_settings). `max_result_bytes`:
    the maximum size of a split's result. `slow_s`: the time after which `degraded` names a batch; 0: never.
    """

    job_per_batch = True

    def __init__(
        self, spark: Mapping[str, str], max_result_bytes: int = MAX_RESULT_BYTES, slow_s: float = 0.0
    ) -> None:
        self._max_result_bytes = max_result_bytes
        self._slow_s = slow_s
        self._changed = threading.Condition()
        self._life = SparkLifecycle(
            spark_settings(spark), self._changed, up=self._up, failed=self._fail_waiting
        )
        self._waiting: dict[int, _Submission] = {}
        self._running: dict[str, list[_Submission]] = {}
        self._alone: set[str] = set()  # tasks of a lost job, which share no job until a batch of theirs succeeds
        self._keys = itertools.count()
        self._submitted = 0
        self._may_start = False
        self._threads: list[threading.Thread] = []

    @property
    def state(self) -> EngineState:
        """The engine's state."""
        return self._life.state

    @property
    def spark(self) -> SparkJobs | None:
        """The running Spark, or None."""
        return self._life.spark

    def start(self) -> None:
        """Spark is started, in the background, with the first batch from now on. Call this after the start of the REST
        server: it takes seconds of CPU time.
        """
        with self._changed:
            self._may_start = True
            if self._waiting:
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
        """Starts Spark if necessary, and returns when it is running. Raises ConnectError if it cannot be started."""
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
                if self._may_start:
                    self._life.start()
        if refusal is not None:
            submission.fail(refusal)
        submission.future.add_done_callback(self._withdraw)
        return submission.future

    def _withdraw(self, future: Future[list[Any]]) -> None:
        """Drops a batch whose task has cancelled its future before it began."""
        if future.cancelled():
            self.cancel(future)

    def release(self, connector: str) -> None:
        """The last task of this connector has ended. Its processes are Spark's, which are for all connectors."""

    @override
    def own_process(self, task: str) -> Future[list[Any]] | None:
        return None

    @override
    def runs(self, batch: Future[list[Any]]) -> bool:
        return batch.running()

    @override
    def cancel(self, batch: Future[list[Any]]) -> None:
        """Cancels a batch. If its Spark job has splits of other tasks, the job continues and the batch's results are
        dropped. But a job that should have ended long ago is cancelled, and the other tasks repeat their batches, each
        in a separate job.
        """
        with self._changed:
            waiting = [s for s in self._waiting.values() if s.future is batch]
            for submission in waiting:
                del self._waiting[submission.key]
            running = [(group, job) for group, job in self._running.items() if any(s.future is batch for s in job)]
            spark = self._life.spark
        for submission in itertools.chain(waiting, *(job for _, job in running)):
            if submission.future is batch:
                submission.fail(CancelledError(f"a batch of {submission.task} was cancelled"))
        for group, job in running:
            late = any(time.monotonic() - s.begun > LATE_S for s in job)
            if spark is not None and (late or all(s.future.done() for s in job)):
                # The caller must not wait for the JVM, which may be suspended.
                threading.Thread(target=spark.cancel, args=(group,), name=f"cancel-{group}", daemon=True).start()

    @override
    def ready_s(self, batch: Future[list[Any]]) -> float:
        return 0.0  # its splits share processes with others

    @override
    def where(self, batch: Future[list[Any]]) -> str | None:
        with self._changed:
            names = [s.name for job in self._running.values() for s in job if s.future is batch]
            spark = self._life.spark
        return spark.where(names[0]) if names and spark is not None else None

    def degraded(self) -> Sequence[str]:
        """Returns the tasks with a batch that has been running or waiting for longer than `slow_s`. Where it hangs is
        reported by the worker's watchdog.
        """
        if not self._slow_s:
            return ()
        now = time.monotonic()
        with self._changed:
            running = [s for job in self._running.values() for s in job if not s.future.done()]
            batches = [(s.task, "running", s.begun) for s in running]
            batches += [(s.task, "waiting for Spark", s.submitted) for s in self._waiting.values()]
        return [f"{task}: a batch has been {what} for {now - since:.0f} s" for task, what, since in batches
                if now - since > self._slow_s]

    def figures(self) -> EngineFigures:
        """Returns the engine's metrics."""
        spark = self._life.spark
        with self._changed:
            running = sum(len(job) for job in self._running.values())
            waiting = len(self._waiting)
        return EngineFigures(spark is not None, spark.slots if spark is not None else 0, self._submitted, waiting,
                             running, spark.pid if spark is not None else None)

    def close(self) -> None:
        """Fails all batches and stops Spark. Takes at most a few seconds."""
        with self._changed:
            lost = [*self._waiting.values(), *(s for job in self._running.values() for s in job)]
            self._waiting.clear()
            spark = self._life.end()
        for submission in lost:
            submission.fail(CancelledError("the worker is stopping"))
        if spark is not None:
            spark.close()
        self._life.join()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_due)
                spark = self._life.spark
                if spark is None:
                    return
                group, job = f"job-{next(self._keys)}", self._take(spark.slots)
                if not job:
                    continue  # all submissions were cancelled while they waited
                self._running[group] = job
            try:
                self._run(spark, group, job)
            finally:
                with self._changed:
                    del self._running[group]

    def _is_due(self) -> bool:
        """Returns whether a thread has something to do: the next job, or to end. The caller holds the lock."""
        spark = self._life.spark
        free = spark is not None and len(self._running) < spark.slots  # there are more threads if Spark had more slots
        return self.state is EngineState.CLOSED or (self.state is EngineState.RUNNING and bool(self._waiting) and free)

    def _take(self, slots: int) -> list[_Submission]:
        """Returns the submissions of the next job. The caller holds the lock."""
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
            with plugin_code():  # unpickled results have it
                results = spark.run(group, tasks, [[flat[i] for i in numbers] for numbers in layout],
                                    [[names[i] for i in numbers] for numbers in layout], self._max_result_bytes)
        except Exception as error:  # noqa: BLE001 - unpickling the results may raise anything
            lost = error if isinstance(error, SparkLostError) else SparkLostError(f"{tasks}: no result: {error!r}")
            self._alone |= {s.task for s in job}
            if isinstance(lost, SparkSilentError) and not spark.alive(DYING_S):
                self._life.died(spark)
            for submission in job:
                submission.fail(lost)
            return
        outcomes: list[Outcome] = [Outcome()] * len(flat)
        for numbers, result in zip(layout, results, strict=True):
            for number, outcome in zip(numbers, result, strict=True):
                outcomes[number] = outcome
        at = 0
        for submission in job:
            self._alone.discard(submission.task)
            submission.finish(outcomes[at : at + len(submission.pickled)])
            at += len(submission.pickled)
