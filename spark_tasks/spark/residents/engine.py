"""The worker's engine with resident executors: Spark starts long-running processes, which receive splits as messages.

`start` returns at once. If Spark is local, splits run in processes of the worker until Spark is up (and while it is
being restarted, or cannot be started); a split that has begun there also ends there. If Spark dies, so do its
processes: splits that ran in them fail with a retriable error, waiting splits continue to wait.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any

from typing_extensions import override

from spark_tasks.metrics.engine import EngineFigures
from spark_tasks.spark.context import SparkJobs, spark_settings
from spark_tasks.spark.environment import python_path
from spark_tasks.spark.lifecycle import EngineState, SparkLifecycle
from spark_tasks.spark.master import SparkMaster
from spark_tasks.spark.residents.background_call import BackgroundCall
from spark_tasks.spark.residents.batches import SplitBatch, Waiting, prepared
from spark_tasks.spark.residents.fork_server import ForkServer
from spark_tasks.spark.residents.hang_reports import HangReports, Hangs
from spark_tasks.spark.residents.listener import ExecutorListener, Line
from spark_tasks.spark.residents.local_launcher import LocalLauncher
from spark_tasks.spark.residents.monitor import Monitor
from spark_tasks.spark.residents.pool import Pool
from spark_tasks.spark.residents.process import Resident
from spark_tasks.spark.residents.process_upkeep import ProcessUpkeep
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.spark_launcher import SparkLauncher
from spark_tasks.task import Engine, Split

_logger = logging.getLogger(__name__)

DYING_S = 2.0  # how long a JVM may take to end after its processes did
FIRST_S = 5.0  # how long the first batch may take before the delay of Spark's start begins
QUIET_S = 3.0  # how long there is no batch before Spark is started, as its start needs the CPUs that splits need
BUSY_S = 20.0  # after this time since the first batch, it is started in any case
OTHER_JOBS = 2  # slots of a local Spark that are neither for processes nor for plugins' jobs: one for the fork server
END_S = 1.0  # how long processes may take to end when the worker stops


class ResidentEngine(Engine):
    """An engine with resident executors. `spark`: the worker's properties for Spark (see spark_settings). `hangs` is
    called for tasks that make no progress.
    """

    job_per_batch = False

    def __init__(
        self, spark: Mapping[str, str], settings: ExecutorSettings | None = None,
        hangs: Hangs = lambda _task, _text: None,
    ) -> None:
        self._hangs = hangs
        self._settings = settings or ExecutorSettings()
        slots = self._settings.max_processes + self._settings.running + OTHER_JOBS
        self._spark_settings = spark_settings(spark, slots)
        self._local = SparkMaster.of(self._spark_settings).slots is not None
        if not self._local:  # the cores of the cluster say how many run
            self._settings = replace(self._settings, running=self._settings.max_processes)
        self._python_path = python_path()
        self._lock = threading.Condition(threading.RLock())
        self._life = SparkLifecycle(
            self._spark_settings, self._lock, up=self._up, failed=self._failed
        )
        self._pool: Pool | None = None
        self._listener: ExecutorListener | None = None
        self._launcher: SparkLauncher | None = None  # of the newest Spark
        self._fork_server: ForkServer | None = None
        self._monitor: Monitor | None = None
        self._reports: HangReports | None = None
        self._checking = BackgroundCall("engine-check", self._check)
        self._early: list[tuple[SplitBatch, list[Waiting]]] = []  # submitted before the start
        self._submitted = 0
        self._suspect_until = 0.0
        self._spark_at = math.inf  # when Spark is started
        self._quiet_at = math.inf  # when it is started unless a split runs before

    @property
    def state(self) -> EngineState:
        """The current state."""
        return self._life.state

    @property
    def spark(self) -> SparkJobs | None:
        """The running Spark, if any."""
        return self._life.spark

    def start(self) -> None:
        """Starts in the background. Call this when the REST server is up, as starting takes seconds of CPU time. A
        local Spark is started after the first batch: after the delay that the settings ask for, or without one when
        there was no batch for QUIET_S, so that they do not compete for the CPUs, at the latest after BUSY_S. On a
        cluster, the first batch starts it, and waits for it. A worker without batches has none.
        """
        with self._lock:
            if self._life.state is not EngineState.NEW or self._pool is not None:
                return
            listener = self._listener = self._open()
            pool = self._pool = Pool(self._settings, listener, self._lock, self._suspect, self._stacks_of)
            reports = self._reports = HangReports(
                pool, self._settings.slow_s, self._lock, listener.folder, self._hangs)
            upkeep = ProcessUpkeep(pool.processes, self._settings.spare, self._settings.idle_s)
            self._monitor = Monitor(pool, upkeep, reports, self._lock, self._beat)
            self._bridge(pool)
            early, self._early = self._early, []
            for batch, waiting in early:
                pool.submit(batch, waiting)
        if early and not self._local:
            self._life.start()

    def _open(self) -> ExecutorListener:
        def joined(number: int, line: Line) -> None:
            server, pool = self._fork_server, self._pool
            if pool is None:
                return
            if server is not None and server.joined(number, line):
                with self._lock:
                    others = [one.line for one in pool.processes.residents.values() if one.line is not None]
                server.guard(others)
                return
            pool.manager.joined(number, line)
            if server is not None:
                server.guard([line])

        settings = self._settings
        if self._local:
            return ExecutorListener(joined, max_result_bytes=settings.max_result_bytes)
        bind = self._spark_settings.get("spark.driver.bindAddress", "0.0.0.0")
        return ExecutorListener(joined, remote=True, bind=bind, port=settings.port, slow_s=settings.slow_s,
                                max_result_bytes=settings.max_result_bytes)

    def _bridge(self, pool: Pool) -> None:
        """Runs splits in local processes until Spark is up. On a cluster they wait: executors may see other files."""
        pool.use(LocalLauncher(self._python_path, self._settings.max_processes) if self._local else None)

    def _up(self, spark: SparkJobs) -> None:
        launcher, host = SparkLauncher(spark, self._settings), spark.driver_host  # without the lock: they ask the JVM
        with self._lock:
            if self._pool is not None and self._listener is not None and self._life.spark is spark:
                self._listener.host = host
                self._launcher = launcher
                self._fork_server = self._server_of(spark, launcher) if self._local else None
                self._pool.use(launcher, self._fork_server)

    def _server_of(self, spark: SparkJobs, launcher: SparkLauncher) -> ForkServer | None:
        """None if Spark has no slot for it, because the worker's properties say how many it has."""
        if not launcher.has_other_slots or self._pool is None or self._listener is None:
            return None
        return ForkServer(
            launcher.launch_fork_server, spark.process_lives, self._listener, self._pool.manager.next_number,
            self._settings.max_processes,
        )

    def _failed(self, error: Exception) -> None:
        if self._local:
            _logger.warning("Splits run in the worker's own processes until Spark is available")
        elif self._pool is not None:
            self._pool.use(None)
            self._pool.fail(error, waiting_only=True)

    def _suspect(self) -> None:
        self._suspect_until = time.monotonic() + DYING_S

    def _beat(self) -> None:
        """Starts Spark if it is due, keeps the fork server, and checks Spark."""
        if self._life.state is EngineState.NEW:
            self._start_spark_if_due()
        elif self._life.state is EngineState.FAILED and self._pool is not None and self._pool.batches:
            self._refusal()
        if self._fork_server is not None and self._pool is not None:
            with self._lock:
                settled = self._pool.launchers.settled
            if settled:  # it must not delay the first process
                self._fork_server.keep()
        if (spark := self._life.spark) is not None:
            self._checking.begin(spark)

    def _check(self, spark: SparkJobs) -> None:
        """Replaces Spark if its JVM has ended, or if processes have and it is not alive. Hangs while its JVM does."""
        if not self._local:
            spark.count_slots()
        suspect = time.monotonic() < self._suspect_until
        if not spark.process_lives() or (suspect and not spark.alive()):
            self._discard(spark)

    def _discard(self, spark: SparkJobs) -> None:
        with self._lock:
            if self._pool is None or self._life.spark is not spark:
                return
            if self._launcher is not None:
                self._launcher.close()
            self._bridge(self._pool)
        self._life.died(spark)

    def await_spark(self) -> None:
        """Waits until Spark is up, and starts it if necessary. ConnectError if it cannot be started."""
        self._life.wait()

    @override
    def submit(self, task: str, splits: Sequence[Split[Any]]) -> Future[list[Any]]:
        return self._submit(task, prepared(splits))

    @override
    def own_process(self, task: str) -> Future[list[Any]] | None:
        return self._submit(task, [None]) if self._local else None

    def _submit(self, task: str, waiting: list[Waiting]) -> Future[list[Any]]:
        batch = SplitBatch(task, len(waiting), outcomes=[None] * len(waiting))
        if not waiting:
            batch.end()
            return batch.future
        with self._lock:
            if self._life.state is EngineState.NEW and waiting != [None]:
                self._plan_start(batch.future)
            refusal = self._refusal()
            self._submitted += refusal is None
            if refusal is None and self._pool is None:
                self._early.append((batch, waiting))
            elif refusal is None and self._pool is not None:
                self._pool.submit(batch, waiting)
        if refusal is not None:
            batch.fail(refusal)
        return batch.future

    def _refusal(self) -> Exception | None:
        """Why no split can be submitted, if so. Splits need Spark only on a cluster. May start it again."""
        with self._lock:
            refusal = self._life.refusal(needed=not self._local)
            return None if self._local and self._life.state is not EngineState.CLOSED else refusal

    def _plan_start(self, first: Future[list[Any]]) -> None:
        """Plans the start of Spark when a batch is submitted. The caller holds the lock."""
        if not self._local:
            if self._pool is not None:
                self._life.start()
            return
        delay_s = self._settings.spark_delay_s
        if delay_s is None:
            self._spark_at = min(self._spark_at, time.monotonic() + BUSY_S)
            self._quiet_at = time.monotonic() + QUIET_S
            return

        def ended(_batch: Future[list[Any]]) -> None:
            if self._pool is not None:  # else it was cancelled before the start
                self._start_spark_within(delay_s)

        self._start_spark_within(FIRST_S + delay_s)
        first.add_done_callback(ended)

    def _start_spark_within(self, seconds: float) -> None:
        with self._lock:
            self._spark_at = min(self._spark_at, time.monotonic() + seconds)
        if not seconds:
            self._life.start()

    def _start_spark_if_due(self) -> None:
        now = time.monotonic()
        with self._lock:
            if self._pool is not None and self._pool.batches and self._quiet_at < math.inf:
                self._quiet_at = now + QUIET_S
            due = now > min(self._spark_at, self._quiet_at)
        if due:
            self._life.start()

    @override
    def cancel(self, batch: Future[list[Any]]) -> None:
        """Cancels a batch: only the processes that run its splits are killed."""
        with self._lock:
            early = [one for one, _ in self._early if one.future is batch]
            self._early = [(one, splits) for one, splits in self._early if one.future is not batch]
        for one in early:
            one.fail(CancelledError(f"a batch of {one.task} was cancelled"))
        if self._pool is not None:
            self._pool.cancel(batch)

    @override
    def runs(self, batch: Future[list[Any]]) -> bool:
        return self._pool is not None and self._pool.runs(batch)

    def release(self, connector: str) -> None:
        """Keeps no processes for this connector any more, whose plugins have set up something in them, and forgets
        what its splits were like. To be called when the last of its tasks on this worker has ended or was given up: the
        next ones may have another plugin. Does not block.
        """
        if self._pool is not None:
            self._pool.release(connector)

    @override
    def ready_s(self, batch: Future[list[Any]]) -> float:
        return self._pool.ready_s(batch) if self._pool is not None else 0.0

    @override
    def where(self, batch: Future[list[Any]]) -> str | None:
        return self._reports.where(batch) if self._reports is not None else None

    def _stacks_of(self, resident: Resident) -> str:
        return self._reports.stacks_of(resident) if self._reports is not None else ""

    def degraded(self) -> Sequence[str]:
        """Descriptions of the tasks that hang, or that have been waiting for long."""
        return self._reports.degraded() if self._reports is not None else ()

    def figures(self) -> EngineFigures:
        """For the worker's metrics."""
        spark = self._life.spark
        with self._lock:
            batches = list(self._pool.batches.values()) if self._pool is not None else []
            waiting = sum(not batch.begun for batch in batches) + len(self._early)
        return EngineFigures(spark is not None, self._settings.running, self._submitted, waiting,
                             sum(batch.begun for batch in batches), spark.pid if spark is not None else None)

    def close(self) -> None:
        """Fails all batches, ends the processes and stops Spark. Takes a few seconds at most."""
        with self._lock:
            spark = self._life.end()
            early, self._early = self._early, []
        for batch, _ in early:
            batch.fail(CancelledError("the worker is stopping"))
        if self._monitor is not None:
            self._monitor.close()
        if self._pool is not None:
            self._pool.close(CancelledError("the worker is stopping"), END_S)
        if spark is not None:
            spark.close()
        if self._listener is not None:
            self._listener.close()
        self._life.join()
