"""Checks of the machine that a worker runs on: Java, Spark, open files, memory, disk space."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heeler.doctor.findings import Finding, Verdict
from heeler.embedded_kafka.java import find_java, java_version
from heeler.errors import SetupError
from spark_tasks.spark.archive import spark_archive
from spark_tasks.spark.class_archive import cache_root

_FILES: Final = 4096  # open files of a worker with some hundred tasks
_ROOM: Final = 1024**3  # bytes: Spark keeps its own files in the temporary folder
_MEMORY: Final = 2 * 1024**3  # bytes


def java() -> Iterator[Finding]:
    """The Java that Spark would be started with."""
    program = find_java()
    yield Finding("Java", Verdict.OK, f"{program}, version {java_version(program)}")


def spark() -> Iterator[Finding]:
    """PySpark, and whether `heeler warm` has recorded an archive for it."""
    from importlib.metadata import version  # noqa: PLC0415 - only here

    yield Finding("Spark", Verdict.OK, f"PySpark {version('pyspark')} on Python {platform.python_version()}")
    try:
        find_java()
    except SetupError:  # which the check of Java reports: nothing can be recorded without one
        return
    archive = spark_archive()
    if archive is None or not archive.use_flags():
        yield Finding("Spark", Verdict.WARNING, "Starts take seconds longer than necessary: there is no class "
                                                "archive for this Java and Spark version. Run: heeler warm")


def limits() -> Iterator[Finding]:
    """Open files, memory, and free space in the folders that a worker writes to."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < _FILES:
        yield Finding("open files", Verdict.WARNING, f"The limit is {hard} open files; many connectors and clients "
                      f"need at least {_FILES}. Raise the hard limit: LimitNOFILE= in systemd, ulimit -Hn")
    else:
        yield Finding("open files", Verdict.OK, "unlimited" if hard == resource.RLIM_INFINITY else f"{hard} at a time")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = f"{memory / 1024**3:.1f} GiB"
    yield (Finding("memory", Verdict.OK, size) if memory >= _MEMORY else
           Finding("memory", Verdict.WARNING, f"{size}: a worker with Spark needs at least {_MEMORY // 1024**3} GiB"))
    for about, folder, variable in (
        ("temporary files", Path(tempfile.gettempdir()), "TMPDIR"), ("cache", cache_root(), "HEELER_CACHE"),
    ):
        yield _room(about, folder, variable)


def _room(about: str, folder: Path, variable: str) -> Finding:
    """The finding about a folder, which an environment variable determines; if it does not exist, its nearest parent
    that does is examined.
    """
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(about, Verdict.ERROR, f"{existing} is not writable. Set {variable} to another folder, or "
                                             "change the permissions of this one")
    free = shutil.disk_usage(existing).free
    text = f"{folder}: {free / 1024**3:.1f} GiB free"
    if free < _ROOM:
        return Finding(about, Verdict.WARNING,
                       f"{text}. Free up space, or set {variable} to another folder")
    return Finding(about, Verdict.OK, text)
