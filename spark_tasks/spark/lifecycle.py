"""Starts a worker's Spark in the background, and restarts it if it ends: at once, but later if it soon ends again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum

from spark_tasks.backoff import doubled
from spark_tasks.errors import ConnectError
from spark_tasks.spark.archive import with_archive
from spark_tasks.spark.context import SparkJobs

_logger = logging.getLogger(__name__)

RESTART_AFTER_S = 60.0  # a JVM that ends earlier than this after a restart is not restarted again
RETRY_AFTER_S = 5.0  # after a failed start, the first one who needs Spark after this time starts it again
MAX_RETRY_S = 300.0  # while nobody needs it, the pause doubles up to this
START_END_S = 10.0  # how long it may take to end a start, as creating a SparkContext cannot be interrupted


class EngineState(Enum):
    """The state of an engine."""

    NEW = "new"  # not started yet; submissions wait
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"  # Spark could not be started; after RETRY_AFTER_S, it is tried again
    CLOSED = "closed"


class SparkLifecycle:
    """The lifecycle of a worker's Spark. `changed`: a condition with the engine's lock. `up` and `failed` are called
    when Spark is running or could not be started, in a thread of this object and without the lock.
    """

    def __init__(
        self, settings: Mapping[str, str], changed: threading.Condition, *,
        up: Callable[[SparkJobs], None], failed: Callable[[Exception], None],
    ) -> None:
        self.state = EngineState.NEW
        self.spark: SparkJobs | None = None
        self.error: Exception | None = None
        self._settings = settings
        self._changed = changed
        self._up = up
        self._failed = failed
        self._started_at = 0.0
        self._restarted = False
        self._failed_at = 0.0
        self._failures = 0  # in succession
        self._stop = threading.Event()
        self._starter: threading.Thread | None = None

    def start(self) -> None:
        """Starts Spark in the background."""
        with self._changed:
            if self.state is EngineState.NEW:
                self._begin()

    def wait(self) -> None:
        """Starts Spark if necessary, and returns when it is running. Raises the error of `refusal`."""
        self.start()
        with self._changed:
            self.refusal()  # may start Spark again
            self._changed.wait_for(lambda: self.state not in (EngineState.NEW, EngineState.STARTING))
            refusal = self.refusal() if self.state is not EngineState.RUNNING else None
        if refusal is not None:
            raise refusal

    def _begin(self) -> None:
        """Starts Spark in a thread. The caller holds the lock."""
        starter = threading.Thread(target=self._start, name="engine-start", daemon=True)
        self.state, self._starter = EngineState.STARTING, starter
        try:
            starter.start()
        except RuntimeError as error:  # too many threads
            self._starter = None
            self._note_failure(error)

    def _start(self) -> None:
        begun = time.monotonic()
        try:
            spark = SparkJobs(with_archive(self._settings), self._stop)
        except Exception as error:  # noqa: BLE001 - the worker continues after any error; its tasks report it
            self._fail(error)
            return
        with self._changed:
            wanted = self.state is not EngineState.CLOSED
            if wanted:
                self.spark, self.state, self._started_at = spark, EngineState.RUNNING, time.monotonic()
                self._changed.notify_all()
        if not wanted:
            spark.close()  # takes seconds, in which the engine closes too
            return
        _logger.info("Spark started in %.1f s with %d slots", time.monotonic() - begun, spark.slots)
        self._up(spark)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self.state is EngineState.CLOSED:
                return
            self._note_failure(error)
        self._failed(error)

    def _note_failure(self, error: Exception) -> None:
        self.state, self.error, self._failed_at = EngineState.FAILED, error, time.monotonic()
        self._failures += 1
        self._changed.notify_all()
        _logger.error("Spark is not available: %s", error)

    def refusal(self, *, needed: bool = True) -> Exception | None:
        """Returns an error if Spark is not available, else None; it may still be starting. If its start failed long
        enough ago, it is started again; the pause grows with each failure if it is not `needed`. The caller holds the
        lock.
        """
        pause = RETRY_AFTER_S if needed else doubled(RETRY_AFTER_S, self._failures - 1, MAX_RETRY_S)
        if self.state is EngineState.FAILED and time.monotonic() - self._failed_at > pause:
            self._begin()
        if self.state is EngineState.CLOSED:
            return ConnectError("the engine is closed")
        return self.error if self.state is EngineState.FAILED else None

    def died(self, dead: SparkJobs) -> bool:
        """Replaces a Spark that can no longer run jobs. Returns False if it has already been replaced."""
        with self._changed:
            if self.spark is not dead or self.state is not EngineState.RUNNING:
                return False
            self.spark, self.state = None, EngineState.STARTING
            again = self._restarted and time.monotonic() - self._started_at < RESTART_AFTER_S
            self._restarted = True
            if not again:
                self._failures = 0
        dead.close()
        if again:
            self._fail(ConnectError("Spark ended again soon after its start; restart the tasks that have failed"))
            return True
        _logger.error("Spark's JVM ended, or its context was stopped; restarting Spark and repeating the batches in "
                      "flight")
        with self._changed:
            if self.state is EngineState.STARTING:
                self._begin()
        return True

    def end(self) -> SparkJobs | None:
        """Prevents further starts, and returns the Spark that the caller has to close, or None. The caller holds the
        lock.
        """
        self.state = EngineState.CLOSED
        spark, self.spark = self.spark, None
        self._changed.notify_all()
        return spark

    def join(self) -> None:
        """Waits, after `end`, for a start that is still in progress."""
        self._stop.set()
        if self._starter is not None:
            self._starter.join(START_END_S)
