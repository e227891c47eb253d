"""Spark's JVM with a class data archive: recorded by `heeler warm`, used by every worker.

An archive belongs to one Java and one copy of Spark. At each start Java compares it with the class path, and ignores it
if a setting has put something before Spark's jars or a jar was replaced. It is recorded in a run of its own, not by a
worker: a JVM needs seconds at its end to write it, and a worker has to stop promptly.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_tasks.errors import ConnectError
from spark_tasks.spark.class_archive import ClassArchive, cache_root
from spark_tasks.spark.context import SparkJobs, spark_settings
from spark_tasks.spark.gateway import spark_home

_logger = logging.getLogger(__name__)

_OPTIONS = "spark.driver.extraJavaOptions"
_OWN_CHOICE = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")
_WRITE_S = 120.0


def spark_archive() -> ClassArchive | None:
    """The archive of the Java and the Spark that would be started here; None if either is not found."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        files = ((jar.path, jar.stat()) for jar in os.scandir(spark_home() / "jars"))
        jars = sorted((path, state.st_size, state.st_mtime_ns) for path, state in files)
        return ClassArchive(java, cache_root() / "spark", repr(jars))
    except (OSError, RuntimeError):
        return None  # no jars, which Spark's start will report; or a user without a home folder


def with_java_options(settings: Mapping[str, str], options: Sequence[str]) -> dict[str, str]:
    """The settings with these options for the driver's JVM, put before the user's, which may be about archives too."""
    own = settings.get(_OPTIONS, "")
    if any(word in own for word in _OWN_CHOICE):
        return dict(settings)
    return {**settings, _OPTIONS: f"{shlex.join(options)} {own}".strip()}


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with the archive, if there is one."""
    archive = spark_archive()
    return with_java_options(settings, archive.use_flags() if archive else ())


def record() -> None:
    """Start Spark, run a job and stop it, for the archive. Does nothing if there is one, or no place to keep it."""
    archive = spark_archive()
    if archive is None:
        return
    try:
        (cache_root() / "spark").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _logger.warning("Spark will start more slowly than necessary, as its class archive cannot be stored: %s", error)
        return
    options = archive.record_flags()
    if not archive.recording:
        return
    clean = False
    try:
        spark = SparkJobs(with_java_options(spark_settings({}), options))
        try:
            spark.run("record", "record", [[]] * spark.slots)
        finally:
            clean = spark.close(_WRITE_S) == 0
    except ConnectError as error:
        _logger.warning("no class archive for Spark: %s", error)
    finally:
        archive.finish(clean=clean)
