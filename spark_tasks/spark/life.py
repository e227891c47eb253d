"""The life of a worker's one Spark: started in the background, restarted if it dies, given up if it soon dies again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum

from spark_tasks.errors import ConnectError
from spark_tasks.spark.archive import with_archive
from spark_tasks.spark.context import SparkJobs

_logger = logging.getLogger(__name__)

RESTART_AFTER_S = 60.0  # a JVM that lived shorter than this after a restart is not restarted again
RETRY_AFTER_S = 5.0  # a task that is restarted later than this after a failed start has Spark started again
START_END_S = 10.0  # how long ending a start may take: making a SparkContext cannot be interrupted


class EngineState(Enum):
    """Where the engine is in its life."""

    NEW = "new"  # not asked to start yet; submissions wait
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"  # Spark could not be started: submissions fail at once, and after RETRY_AFTER_S start it again
    CLOSED = "closed"


class SparkLife:
    """`changed` is also the engine's lock; `up` and `failed` are called without it, in this object's own threads."""

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
        self._stop = threading.Event()
        self._starter: threading.Thread | None = None

    def start(self) -> None:
        """Start Spark in the background."""
        with self._changed:
            if self.state is EngineState.NEW:
                self._begin()

    def wait(self) -> None:
        """Start Spark if it is not started yet, and return when it is up. Raises what `refusal` returns."""
        self.start()
        with self._changed:
            self.refusal()  # may start it again
            self._changed.wait_for(lambda: self.state not in (EngineState.NEW, EngineState.STARTING))
            refusal = self.refusal() if self.state is not EngineState.RUNNING else None
        if refusal is not None:
            raise refusal

    def _begin(self) -> None:
        """Start Spark in a thread; the caller holds the lock."""
        self.state = EngineState.STARTING
        self._starter = threading.Thread(target=self._start, name="engine-start", daemon=True)
        self._starter.start()

    def _start(self) -> None:
        begun = time.monotonic()
        try:
            spark = SparkJobs(with_archive(self._settings), self._stop)
        except Exception as error:  # noqa: BLE001 - the worker continues after any error; its tasks report it
            self._fail(error)
            return
        with self._changed:
            if self.state is EngineState.CLOSED:
                spark.close()
                return
            self.spark, self.state, self._started_at = spark, EngineState.RUNNING, time.monotonic()
            self._changed.notify_all()
        _logger.info("Spark is up after %.1f s with %d slots", time.monotonic() - begun, spark.slots)
        self._up(spark)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self.state is EngineState.CLOSED:
                return
            self.state, self.error, self._failed_at = EngineState.FAILED, error, time.monotonic()
            self._changed.notify_all()
        _logger.error("Spark is not available: %s", error)
        self._failed(error)

    def refusal(self) -> Exception | None:
        """Why nothing can be submitted now, or None. Starts Spark again if it failed more than RETRY_AFTER_S ago. The
        caller holds the lock.
        """
        if self.state is EngineState.FAILED and time.monotonic() - self._failed_at > RETRY_AFTER_S:
            self._begin()
        if self.state is EngineState.CLOSED:
            return ConnectError("the engine is closed")
        return self.error if self.state is EngineState.FAILED else None

    def died(self, dead: SparkJobs) -> bool:
        """Replace a Spark that cannot run jobs any more. False if that has been done already."""
        with self._changed:
            if self.spark is not dead or self.state is not EngineState.RUNNING:
                return False
            self.spark, self.state = None, EngineState.STARTING
            again = self._restarted and time.monotonic() - self._started_at < RESTART_AFTER_S
            self._restarted = True
        dead.close()
        if again:
            self._fail(ConnectError("Spark died again soon after it was started; restart the tasks to try again"))
            return True
        _logger.error("Spark's JVM died, or its context was stopped; Spark is started again, and the batches in flight "
                      "are repeated")
        with self._changed:
            if self.state is EngineState.STARTING:
                self._begin()
        return True

    def end(self) -> SparkJobs | None:
        """Start nothing any more; returns the Spark that has to be closed. The caller holds the lock."""
        self.state = EngineState.CLOSED
        spark, self.spark = self.spark, None
        self._changed.notify_all()
        return spark

    def join(self) -> None:
        """After `end`: wait until a start that is still going on has ended too."""
        self._stop.set()
        if self._starter is not None:
            self._starter.join(START_END_S)
