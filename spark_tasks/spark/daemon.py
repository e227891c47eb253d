"""The parent process of Spark's Python workers. It imports the modules that all splits need, so that forked workers
start quickly.

Spark starts it instead of `pyspark.daemon` (`spark.python.daemon.module`). It must not have threads when it forks, or a
child could inherit a lock that is never released. environment.py keeps libraries from starting threads, and `main`
fails if there is one.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import select
import threading
import time
import zipimport
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from spark_tasks.process.pandas_import import defer_pandas
from spark_tasks.process.reaper import Reaper
from spark_tasks.process.zombies import zombies
from spark_tasks.spark.environment import ENVIRONMENT, NEEDED
from spark_tasks.spark.process_output import log_as_the_worker

# The order of imports. heeler's modules compile or load their kernels when they are imported or in `warm_up`.
PRELOADED = (
    "numpy",
    "numba",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.json",
    "kafka",
    "pyspark.worker",
    "pyspark.sql.datasource",
    "spark_tasks.spark.executor",
    "spark_tasks.spark.residents.executor_loop",
    "spark_tasks.spark.residents.set_up",
    "spark_tasks.spark.residents.fork_server",
    "spark_tasks.sources.split",
    "spark_tasks.sinks.split",
)

_IMPORTED_AT = time.time()
_STARTUP_S = 60.0  # more than the time from Python's start until it imports this module
_END_S = 1.0
_logger = logging.getLogger(__name__)


def import_all(names: Iterable[str]) -> None:
    """Imports modules. Logs a warning for a module that cannot be imported; the split that needs it will fail."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            _logger.warning("Could not preload %s: %s", name, error)


def preload() -> None:
    """Imports the modules in PRELOADED and in the environment variable NEEDED, and compiles or loads kernels."""
    gc.disable()  # garbage collection would take a quarter of the time and find nothing
    defer_pandas()
    import_all((*PRELOADED, *filter(None, os.environ.get(NEEDED, "").split(","))))
    from spark_tasks.spark.warm import warm_up  # noqa: PLC0415 - after the environment is set

    warm_up()
    keep_archives()
    # PySpark collects garbage after every task. It does not visit frozen objects, so their memory stays shared.
    gc.freeze()
    gc.enable()


def keep_archives() -> None:
    """Makes importlib.invalidate_caches keep the directories of zip files that have not changed since they were read.

    Spark puts two zip files on the path (pyspark.zip and a jar), and every forked worker invalidates the caches. Each
    worker would then read both directories again, which takes at least 45 ms of CPU time and memory that is not shared.
    A file that has changed, or that is added later, is read as usual.
    """
    read = zipimport.zipimporter.invalidate_caches
    cache: dict[str, dict[str, Any]] = zipimport._zip_directory_cache  # type: ignore[attr-defined]  # noqa: SLF001
    known = {archive: _stamp(archive) for archive in cache if _is_old(archive)}

    def invalidate_caches(importer: Any) -> None:
        archive = importer.archive
        now = _stamp(archive)
        if now is not None and known.get(archive) == now and archive in cache:
            importer._files = cache[archive]  # noqa: SLF001 - another importer may have read it since
            return
        read(importer)
        known[archive] = now

    zipimport.zipimporter.invalidate_caches = invalidate_caches  # type: ignore[assignment, method-assign]


def _stamp(archive: str) -> tuple[int, int, int] | None:
    try:
        stat = Path(archive).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _is_old(archive: str) -> bool:
    """Returns whether a zip file is older than this process, so that its cached directory is still valid."""
    stamp = _stamp(archive)
    return stamp is not None and stamp[0] / 1e9 < _IMPORTED_AT - _STARTUP_S


def tidy(worker: Callable[..., int]) -> Callable[..., int]:
    """Wraps PySpark's worker function so that idle workers do not print a traceback when Spark stops, and keep no
    processes that have ended.
    """

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1
        finally:
            zombies.reap()

    return run


def refuse_threads() -> None:
    """Raises RuntimeError if this process has threads, because a fork would not be safe."""
    if threading.active_count() > 1:
        names = ", ".join(thread.name for thread in threading.enumerate())
        msg = f"a preloaded module has started a thread, so a fork would not be safe: {names}"
        raise RuntimeError(msg)


def main() -> None:
    """Preloads modules, then forks workers on request until Spark closes standard input."""
    from pyspark import daemon  # noqa: PLC0415 - after the environment is set

    log_as_the_worker()
    daemon.worker = tidy(daemon.worker)
    preload()
    refuse_threads()
    reaper = Reaper()
    try:
        look_after_children(daemon, reaper)
        daemon.manager()
    finally:
        end_children(reaper)


def look_after_children(daemon: Any, reaper: Reaper) -> None:
    """Makes PySpark's daemon fork and wait as the reaper does."""

    def poll() -> Reaper:
        reaper.handle_sigchld()  # the daemon has ignored SIGCHLD
        return reaper

    daemon.os = SimpleNamespace(**{**vars(os), "fork": reaper.fork})
    daemon.select = SimpleNamespace(**{**vars(select), "poll": poll})


def end_children(reaper: Reaper) -> None:
    """Waits until all have ended that the daemon has told to, and kills those that do not."""
    if not reaper.await_all(_END_S):
        reaper.kill()
        reaper.await_all(_END_S)


if __name__ == "__main__":
    os.environ.update({k: v for k, v in ENVIRONMENT.items() if k not in os.environ})
    main()
