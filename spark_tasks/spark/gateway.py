"""Starts Spark's JVM and connects to it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConnectError
from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.oom_score import raise_oom_score
from spark_tasks.spark.environment import inherited
from spark_tasks.spark.master import SparkMaster
from spark_tasks.spark.process_output import pump
from spark_tasks.spark.security import write_properties

_logger = logging.getLogger(__name__)

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0  # a stop usually takes half a second
END_S = 3.0  # for each of three ways to end a JVM that is starting; a stop of the engine may wait for all three
ORPHAN_S = 30  # for a JVM whose worker was killed: when it has started, it ends by itself and removes its files
MASTER_TIMEOUT_S = 60.0  # for a standalone cluster that may be starting at the same time; as long as Spark itself waits

# $1: a process group, $2: seconds. Standard input closes when the worker ends. The group then has $2 seconds to end by
# itself before it is killed: a JVM whose folder was deleted cannot write its connection file, and would never end.
_WATCH = """read -r _
n=0
while kill -0 "-$1" 2>/dev/null && [ $n -lt "$2" ]; do sleep 1; n=$((n + 1)); done
kill -KILL "-$1" 2>/dev/null
"""


class SparkStartError(ConnectError):
    """Spark could not be started. The message says why, or where to find the reason."""


def spark_home() -> Path:
    """Returns the folder of Spark: SPARK_HOME, or the one in PySpark."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415

    return Path(_find_spark_home())


def await_master(master: SparkMaster, stop: threading.Event) -> None:
    """Waits until the master of a standalone cluster accepts connections. Raises SparkStartError.

    Spark itself would wait in a constructor that cannot be interrupted, and then return a stopped context.
    """
    if not master.is_standalone:
        return
    deadline = time.monotonic() + MASTER_TIMEOUT_S
    while not any(_listens(address) for address in master.addresses):
        if stop.is_set():
            raise SparkStartError("Spark was stopped while it waited for its master")
        if time.monotonic() > deadline:
            raise SparkStartError(f"No Spark master responded at {master} within {MASTER_TIMEOUT_S:.0f} s: start it, "
                                  "or set spark.master to its address, and restart the tasks")
        stop.wait(0.5)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 5).close()
    except OSError:
        return False
    except ValueError:
        raise SparkStartError(f"Invalid value {address} in spark.master: must be HOST:PORT") from None
    return True


def launch(
    settings: Mapping[str, str], stop: threading.Event, folder: Path
) -> tuple[subprocess.Popen[bytes], Any]:
    """Starts Spark's gateway JVM in its own process group, so that Ctrl-C reaches only the worker, and connects to
    it. Returns the process and the Py4J gateway.

    Waits for the JVM unless `stop` is set. `folder` must be readable only by this user: the settings, which may contain
    secrets, are passed in a file there, because every user can see command lines. The JVM's temporary files are there
    too, so that none remain of a JVM that had to be killed. Raises SparkStartError.
    """
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    home, connection, properties = str(spark_home()), folder / "connection", folder / "settings"
    environment = {
        **inherited(), "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
        "SPARK_HOME": home,  # otherwise the script would start Python to find it
        **_temporary_files(settings, folder),
    }
    write_properties(settings, properties)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            [f"{home}/bin/spark-submit", "--load-spark-defaults", "--properties-file", str(properties),
             "pyspark-shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment, process_group=0,
        )  # fmt: skip
        assert process.stdin is not None  # noqa: S101 - Popen opens a pipe
        close_on_fork(process.stdin)
        raise_oom_score(process.pid)
        pump(process.stdout, "spark-output")
        with _watched(process):
            port, secret = _await_connection(process, connection, stop)
    finally:
        for file in (properties, connection):
            file.unlink(missing_ok=True)
    variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(variables)
    try:
        return process, launch_gateway()
    finally:
        for key in variables:
            os.environ.pop(key, None)


def _temporary_files(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Returns environment variables that put the JVM's temporary files, and Spark's, into the folder, unless the
    settings or the user's environment say otherwise.
    """
    options = [f'"-Djava.io.tmpdir={folder}"', inherited().get("SPARK_SUBMIT_OPTS", "")]  # the last one applies
    chosen = "spark.local.dir" in settings or "SPARK_LOCAL_DIRS" in inherited()
    return {"SPARK_SUBMIT_OPTS": " ".join(options), **({} if chosen else {"SPARK_LOCAL_DIRS": str(folder)})}


@contextmanager
def _watched(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A context manager that kills the process group of the JVM if this process ends in the block. After its start, the
    JVM detects the end of this process itself.
    """
    watcher = subprocess.Popen(  # noqa: S603 - a fixed script
        ["/bin/sh", "-c", _WATCH, "heeler-watch", str(process.pid), str(ORPHAN_S)],
        stdin=subprocess.PIPE, start_new_session=True,
    )
    assert watcher.stdin is not None  # noqa: S101 - Popen opens a pipe
    close_on_fork(watcher.stdin)
    try:
        yield
    finally:
        watcher.kill()  # before its input closes, and before the group's number can be reused
        watcher.wait()
        watcher.stdin.close()


def _await_connection(process: subprocess.Popen[bytes], connection: Path, stop: threading.Event) -> tuple[int, str]:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not connection.exists():
        if process.poll() is not None:
            raise SparkStartError(
                f"Spark's JVM ended with code {process.returncode} while it was starting; the worker's output says why."
                " Spark needs Java 17 or newer (JAVA_HOME or java on the PATH) and settings (spark.master,"
                " spark.driver.*) that Spark and this Java accept."
            )
        if stop.is_set() or time.monotonic() > deadline:
            _end(process)
            late = f"did not start within {START_TIMEOUT_S:.0f} s"
            raise SparkStartError(f"Spark's JVM {'was stopped while it was starting' if stop.is_set() else late}")
        stop.wait(0.02)
    data = connection.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    secret = data[8 : 8 + length].decode()
    process_secrets().add("", [secret])  # Py4J logs it at DEBUG
    return port, secret


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a JVM that is starting. When it has started, it ends because its input is closed."""
    assert process.stdin is not None  # noqa: S101 - Popen opens a pipe
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)  # the whole group, since a script has started the JVM
            process.wait(END_S)
            return


def reset_pyspark() -> None:
    """Resets PySpark's references to its JVM, so that this process can start another one."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        try:
            gateway.shutdown()
        except Exception as error:  # noqa: BLE001 - any error; the connection is given up in any case
            _logger.debug("Closing the connection to Spark failed: %s", error)
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    sessions = sys.modules.get("pyspark.sql.session")  # present if a plugin has used a session
    if sessions is not None:
        sessions.SparkSession._instantiatedSession = None  # noqa: SLF001
