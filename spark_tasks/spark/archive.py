"""The class data archive of Spark's JVM. `heeler warm` records it, and every worker uses it.

An archive belongs to one Java and one copy of Spark. At each start Java compares it with the classpath, and ignores it
if a setting has put entries before Spark's jars, or if a jar was replaced. Workers do not record it, because a JVM
needs seconds to write it when it ends, and a worker has to stop promptly.
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
_ARCHIVE_OPTIONS = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")
_WRITE_S = 120.0  # timeout for the JVM to write the archive


def spark_archive() -> ClassArchive | None:
    """Returns the archive of the Java and the Spark that a worker would start here, or None if either is not found."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        files = ((jar.path, jar.stat()) for jar in os.scandir(spark_home() / "jars"))
        jars = sorted((path, state.st_size, state.st_mtime_ns) for path, state in files)
        return ClassArchive(java, cache_root() / "spark", repr(jars))
    except OSError:
        return None  # there are no jars, which Spark's start will report


def with_java_options(settings: Mapping[str, str], options: Sequence[str]) -> dict[str, str]:
    """Adds options of the driver's JVM to the settings, before the user's options. If those have an option for
    archives, returns the settings unchanged.
    """
    own = settings.get(_OPTIONS, "")
    if any(word in own for word in _ARCHIVE_OPTIONS):
        return dict(settings)
    return {**settings, _OPTIONS: f"{shlex.join(options)} {own}".strip()}


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """Adds the options for the archive, if there is one, to the settings."""
    archive = spark_archive()
    return with_java_options(settings, archive.use_flags() if archive else ())


def record() -> None:
    """Records the archive: starts Spark, runs a job and stops it. Does nothing if there is an archive, or no place for
    it.
    """
    archive = spark_archive()
    if archive is None:
        return
    try:
        (cache_root() / "spark").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _logger.warning("Could not store Spark's class archive, so Spark will start more slowly than necessary: %s",
                        error)
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
        _logger.warning("Could not record a class archive for Spark: %s", error)
    finally:
        archive.finish(clean=clean)
