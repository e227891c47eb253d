"""The parent of Spark's Python workers: imports once what every split needs, so that forked workers start quickly.

Spark starts it instead of `pyspark.daemon` (`spark.python.daemon.module`). It must have no thread when it forks, or a
child could inherit a lock that nobody releases: environment.py keeps the libraries from starting threads, and `main`
ends the daemon if there is one.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import threading
import time
import zipimport
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from spark_tasks.process.pandas_later import hold_back_pandas
from spark_tasks.spark.environment import ENVIRONMENT, NEEDED
from spark_tasks.spark.output import log_as_the_worker

# In this order; those of heeler compile or load their kernels when they are imported or warmed up.
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
    "spark_tasks.spark.residents.link",
    "spark_tasks.sources.split",
    "spark_tasks.sinks.split",
)

_IMPORTED_AT = time.time()
_STARTING_S = 60.0  # longer than Python takes from its start until it imports this
_logger = logging.getLogger(__name__)


def import_all(names: Iterable[str]) -> None:
    """Import these modules; one that cannot be imported will fail in the split that needs it."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            _logger.warning("%s is not preloaded: %s", name, error)


def preload() -> None:
    """Import everything in PRELOADED, and what is NEEDED."""
    gc.disable()  # a quarter of the time would be spent on looking for garbage in what is kept for good
    hold_back_pandas()
    import_all((*PRELOADED, *filter(None, os.environ.get(NEEDED, "").split(","))))
    from spark_tasks.spark.warm import warm_up  # noqa: PLC0415 - after the environment is set

    warm_up()
    keep_archives()
    # PySpark collects garbage after every task; frozen objects are not visited (and their memory stays shared).
    gc.freeze()
    gc.enable()


def keep_archives() -> None:
    """Make importlib.invalidate_caches keep the directories of zip files that have not changed since they were read.

    Spark puts two on the path (pyspark.zip, a jar), and has every forked worker invalidate the caches: each of them
    then read both directories, 45 ms of CPU at least, into memory that it did not share. One that changes, or that is
    added later, is read as before.
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
        found = Path(archive).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _is_old(archive: str) -> bool:
    """Whether it is older than this process, so that its directory as it was read is still valid."""
    stamp = _stamp(archive)
    return stamp is not None and stamp[0] / 1e9 < _IMPORTED_AT - _STARTING_S


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """PySpark's worker function, without the traceback that each idle worker prints when Spark stops."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1

    return run


def refuse_threads() -> None:
    """Raise RuntimeError if this process has threads, with which a fork is not safe."""
    if threading.active_count() > 1:
        names = ", ".join(thread.name for thread in threading.enumerate())
        msg = f"a preloaded module started a thread, a fork would not be safe: {names}"
        raise RuntimeError(msg)


def main() -> None:
    """Preload, then serve forks until Spark closes standard input."""
    from pyspark import daemon  # noqa: PLC0415 - it belongs after the environment is set

    log_as_the_worker()
    daemon.worker = quietly(daemon.worker)
    preload()
    refuse_threads()
    daemon.manager()


if __name__ == "__main__":
    os.environ.update({k: v for k, v in ENVIRONMENT.items() if k not in os.environ})
    main()
