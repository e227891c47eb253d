"""Starts and stops a SparkContext, runs lists of splits as an RDD job, and cancels jobs. gateway.py starts the JVM.

A job takes few Py4J calls on an RDD of empty rows, which is created once for each number of partitions. The Python
command of the job contains the splits. Measured on 2 cores: 15 ms from submission to result, of which 11 ms pass before
the Python worker runs (scheduler, task launch, transfer of the command).
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_tasks.errors import RetriableError
from spark_tasks.spark.environment import ENVIRONMENT, NEEDED, needed, python_path
from spark_tasks.spark.executor import MAX_RESULT_BYTES, Outcome, SplitRunner
from spark_tasks.spark.gateway import STOP_TIMEOUT_S, SparkStartError, await_master, launch, reset_pyspark
from spark_tasks.spark.master import MASTER, SparkMaster
from spark_tasks.spark.security import authentication, python_sockets
from spark_tasks.spark.stacks import describe_stacks

_logger = logging.getLogger(__name__)

_PYTHON_ERROR = re.compile(r"(?!(?:org|java|scala|py4j)\.)(?>[\w.]+(?:Error|Exception|Exit|Interrupt)\b)(?!.* at )")

_FROM_PYTHON = re.compile(r"Error from python worker:\s+(\S.*)")  # the worker ended before it had a traceback

# A split waits for Kafka about half of the time, and short splits should not wait for long ones of other tasks.
SLOTS_PER_CPU = 2


class SparkLostError(RetriableError):
    """A Spark job failed because its JVM, an executor or a Python worker ended. The batch may be repeated."""


class ExecutorEndedError(SparkLostError):
    """The process that ran a split has ended for certain, so no part of the split is still running."""


class SparkSilentError(SparkLostError):
    """The connection to the JVM broke because the JVM has ended or is ending, or the SparkContext was stopped."""


def spark_settings(worker: Mapping[str, str], slots: int | None = None) -> dict[str, str]:
    """Returns the SparkConf of a worker: defaults, overridden by the worker's `spark.*` properties. `worker`: these and
    `group.id`; other properties are ignored. `slots`: how many Spark tasks a local Spark runs at the same time; by
    default it depends on the number of CPUs.

    Spark never retries a failed or slow Spark task: the Connect task repeats its batch with new producers. Raises
    ConfigError for a cluster without authentication.
    """
    usual = max(2, os.cpu_count() or 2) * SLOTS_PER_CPU
    defaults = {
        MASTER: f"local[{slots or usual}]",
        "spark.app.name": f"heeler-{worker.get('group.id', 'worker')}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.driver.memory": "512m",
        # Records do not pass through the JVM, so a fast start and low memory matter more than peak speed. The heap is
        # small at first (Java's default takes 100 MiB more), and shrinks again after Spark jobs of plugins.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k "
                                         "-Xms32m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20",
        "spark.broadcast.compress": "false",
        "spark.locality.wait": "0",
        "spark.scheduler.mode": "FAIR",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "spark_tasks.spark.daemon",
        **authentication(worker),
    }
    if slots is not None and MASTER not in worker:  # jobs of plugins keep their parallelism
        defaults["spark.default.parallelism"] = str(usual)
    master = SparkMaster.of(worker)
    if master.is_local:
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    forced = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
    if MASTER in worker:
        forced[MASTER] = master.text
    return {**defaults, **{k: v for k, v in worker.items() if k.startswith("spark.")}, **forced}


class SparkJobs:
    """A running SparkContext. `run` and `cancel` are thread-safe."""

    def __init__(self, settings: Mapping[str, str], stop: threading.Event | None = None) -> None:
        """Starts the JVM, and waits for it (some seconds) unless `stop` is set. Raises SparkStartError."""
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - would make a worker's start 0.2 s longer
        from pyspark.serializers import NoOpSerializer  # noqa: PLC0415

        self._serializer = NoOpSerializer()
        self._bases: dict[int, Any] = {}
        self.master = SparkMaster.of(settings)
        self._lock = threading.Lock()
        own = None if self.master.is_local else settings.get("spark.pyspark.python")
        os.environ["PYSPARK_PYTHON"] = own or sys.executable
        stop = stop or threading.Event()
        await_master(self.master, stop)
        self._folder = Path(tempfile.mkdtemp(prefix="heeler-spark-"))  # only this user can read it
        settings = {**settings, **python_sockets(settings, self._folder)}
        try:
            self._process, gateway = launch(settings, stop, self._folder)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        conf = SparkConf(loadDefaults=False)
        for key, value in settings.items():
            conf.set(key, value)
        self.slots = 1
        try:
            self._context = SparkContext(gateway=gateway, conf=conf)
            # Paths of this machine do not apply to a cluster, whose executors get spark.executorEnv.*.
            here = {"PYTHONPATH": python_path()} if self.master.is_local else {}
            self._context.environment.update({**ENVIRONMENT, NEEDED: needed(), **here})
            # Otherwise it prints a traceback whenever the JVM ends, because the connection breaks.
            self._context._accumulatorServer.handle_error = lambda *_arguments: None  # noqa: SLF001
            self.count_slots()
            self._jvm = self._context._jvm  # noqa: SLF001 - there is no public API for Python commands
            self._environment = self._convert(self._context.environment)
            self._nothing = self._convert([])
        except Exception as error:
            why = _first_line(error)  # needs the JVM
            self._end_jvm(STOP_TIMEOUT_S)  # otherwise PySpark would go on to use its connection
            raise SparkStartError(f"Spark did not start: {why}") from error

    def _convert(self, value: dict[str, str] | list[Any]) -> Any:
        from py4j.java_collections import ListConverter, MapConverter  # noqa: PLC0415

        converter = MapConverter() if isinstance(value, dict) else ListConverter()
        return converter.convert(value, self._context._gateway._gateway_client)  # noqa: SLF001

    @property
    def pid(self) -> int:
        """The process id of the JVM."""
        return int(self._process.pid)

    @property
    def python(self) -> str:
        """The path of the executors' Python on their machines."""
        return str(self._context.pythonExec)

    @property
    def driver_host(self) -> str:
        """The host name or address by which executors reach this process."""
        return str(self._context.getConf().get("spark.driver.host", "127.0.0.1"))

    def count_slots(self) -> None:
        """Updates `slots`, the number of Spark tasks that can run at the same time. On a cluster, executors register
        after the start, and may disappear.
        """
        from py4j.protocol import Py4JError  # noqa: PLC0415

        try:
            self.slots = max(1, int(self._context.defaultParallelism))
        except (Py4JError, OSError, AttributeError) as error:  # Spark has stopped or is stopping
            _logger.debug("Could not get the number of slots from Spark: %s", error)

    def _base(self, partitions: int) -> Any:
        with self._lock:
            if partitions not in self._bases:
                rows = self._convert([bytearray() for _ in range(partitions)])
                self._bases[partitions] = self._context._jsc.parallelize(rows, partitions).rdd()  # noqa: SLF001
            return self._bases[partitions]

    def run(self, group: str, label: str, partitions: list[list[bytes]], names: list[list[str]] | None = None,
            max_bytes: int = MAX_RESULT_BYTES) -> list[list[Outcome]]:
        """Runs each list of pickled splits in a Spark task, and returns their Outcomes in the same shape. `group`: the
        job group, for `cancel`. `label`: the job's description. `names`: the splits' names, for `where`. `max_bytes`:
        see SplitRunner.

        Raises SparkLostError if the job does not succeed, also if it is cancelled.
        """
        from py4j.protocol import Py4JError, Py4JNetworkError  # noqa: PLC0415

        try:
            runner = SplitRunner(partitions, str(self._folder), names if self.master.is_local else None, max_bytes)
            rows = self._rdd(group, label, runner, len(partitions)).collect()
            return [pickle.loads(bytes(row)) for row in rows]
        except (Py4JNetworkError, OSError) as error:
            raise SparkSilentError(f"Spark's JVM was lost during the job of {label}: {error}") from error
        except Py4JError as error:
            kind = SparkSilentError if self._stopped() else SparkLostError
            raise kind(f"the Spark job of {label} failed: {_first_line(error)}") from error

    def where(self, name: str) -> str | None:
        """Returns the stacks of the processes that are running splits with this name, or None if there are none. Takes
        seconds.
        """
        if not self.master.is_local:
            return "The stack is available only on the cluster, in its executor"
        return describe_stacks(self._folder, name)

    def begin(self, group: str, label: str, function: Callable[[int, Iterable[Any]], Iterator[bytes]]) -> Any:
        """Starts a job of one Spark task that runs `function`. Does not wait. Returns the job, for `failure`."""
        return self._rdd(group, label, function, 1).collectAsync()

    def failure(self, job: Any) -> str | None:
        """Returns why a job of `begin` has ended, or None while it is running."""
        from py4j.protocol import Py4JError  # noqa: PLC0415

        try:
            if not job.isDone():
                return None
            job.get()
        except (Py4JError, OSError) as error:
            return python_error(error) or _cause(error)
        return "its Spark job ended early"

    def _rdd(self, group: str, label: str, function: Any, partitions: int) -> Any:
        """Returns an RDD that runs `function` in so many Spark tasks. Sets the group of this thread's next job."""
        serializer, context = self._serializer, self._context
        command = pickle.dumps((function, None, serializer, serializer), pickle.HIGHEST_PROTOCOL)
        if context._jsc is None:  # noqa: SLF001
            raise SparkSilentError(f"Spark was stopped before the job of {label}, probably by a plugin")
        python = self._jvm.SimplePythonFunction(
            bytearray(command), self._environment, self._nothing, context.pythonExec, context.pythonVer,
            self._nothing, context._javaAccumulator,  # noqa: SLF001
        )
        context._jsc.setJobGroup(group, label, False)  # noqa: SLF001
        return self._jvm.PythonRDD(self._base(partitions), python, True, False).asJavaRDD()

    def quiet(self, loggers: Sequence[str]) -> None:
        """Turns these loggers of the JVM off."""
        log4j = self._jvm.org.apache.logging.log4j
        try:
            for name in loggers:
                log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
        except Exception as error:  # noqa: BLE001 - Spark has another logging library, or has just ended
            _logger.debug("Could not set the levels of Spark's loggers: %s", error)

    def cancel(self, group: str) -> None:
        """Cancels the job of a group, even if it has not started yet."""
        from py4j.protocol import Py4JError  # noqa: PLC0415

        if self._context._jsc is None:  # noqa: SLF001 - stopped, and its jobs with it
            return
        try:
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001
        except (Py4JError, OSError) as error:
            _logger.warning("Spark did not accept the cancellation of %s: %s", group, _first_line(error))

    def alive(self, grace_s: float = 0.0) -> bool:
        """Returns whether Spark can run jobs, now and after `grace_s`: a JVM that ends closes its connections first."""
        return self.process_lives(grace_s) and not self._stopped()

    def process_lives(self, grace_s: float = 0.0) -> bool:
        """Returns whether the JVM is running, now and after `grace_s`."""
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _stopped(self) -> bool:
        """Returns whether the SparkContext was stopped while its JVM is running: by a cluster's master or a plugin."""
        from py4j.protocol import Py4JError  # noqa: PLC0415

        jsc = self._context._jsc  # noqa: SLF001
        try:
            return jsc is None or bool(jsc.sc().isStopped())
        except (Py4JError, OSError) as error:
            _logger.debug("Could not find out whether Spark has stopped: %s", error)
            return True

    def close(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Stops Spark within twice `timeout_s`. Returns the exit code of the JVM, 0 if it did not have to be killed.

        A local Spark has no executors to release, so only its JVM is ended.
        """
        server = self._context._accumulatorServer  # noqa: SLF001 - the context forgets it when it is stopped
        if self.process_lives() and not self.master.is_local:
            stopper = threading.Thread(target=self._stop_context, name="spark-stop", daemon=True)
            stopper.start()
            stopper.join(timeout_s)
        code = self._end_jvm(timeout_s)
        if server is not None:  # after the JVM, which would otherwise log that it cannot connect
            threading.Thread(target=server.shutdown, name="spark-accumulators-stop", daemon=True).start()
        return code

    def _end_jvm(self, timeout_s: float) -> int:
        if self._process.stdin is not None:
            self._process.stdin.close()  # the JVM ends when this pipe breaks
        if self.process_lives(timeout_s):
            self._process.kill()
        code = self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        reset_pyspark()
        return code

    def _stop_context(self) -> None:
        try:
            self._context.stop()
        except Exception as error:  # noqa: BLE001 - any error; the JVM is ended next in any case
            _logger.debug("Stopping the SparkContext failed: %s", error)


def python_error(error: BaseException) -> str | None:
    """Returns the last line of an executor's Python traceback in an error of Spark, such as the name of a module that
    is missing there; None if the error has no traceback.
    """
    lines = [line for line in str(error).splitlines() if _PYTHON_ERROR.match(line)]
    return lines[0] if lines else None


def _cause(error: BaseException) -> str:
    """Returns the cause of a failed job in one line."""
    try:
        text = str(error.java_exception.getCause().getMessage())  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - the JVM may have ended
        return _first_line(error)
    python = _FROM_PYTHON.search(text)
    return python[1] if python is not None else text.partition("\n")[0]


def _first_line(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)
    try:
        text = str(java.getMessage()) if java is not None else str(error)
    except Exception:  # noqa: BLE001 - the JVM may have ended
        text = type(error).__name__
    return text.strip().partition("\n")[0] or type(error).__name__
