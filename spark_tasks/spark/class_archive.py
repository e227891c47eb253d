"""Class data archives (CDS), with which a Java program starts twice as fast. One run of the program records the
archive.

Measured on two busy cores: formatting and starting Kafka takes 3.5 s without and 1.8 s with an archive, starting Spark
5.5 s and 2.1 s. If Java cannot use an archive, or it is damaged, Java starts without it and prints no message.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from spark_tasks.process.private_files import trusted, user_caches

_SILENT = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=off")
# Verification takes 0.02 s for 70 MB. Without it, Java crashes if a disk error has damaged the archive. Not every Java
# has the option.
_VERIFY = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+VerifySharedSpaces")
_MAX_ARCHIVES = 4  # in a folder; each virtual environment has its own for Spark, of 70 MB
_ABANDONED_S = 3600.0  # an unfinished archive older than this was left by a killed process


def cache_root() -> Path:
    """Returns the folder for downloads and archives: HEELER_CACHE, or `heeler` in `user_caches`."""
    own = os.environ.get("HEELER_CACHE")
    if own:
        return Path(os.path.expanduser(own)).absolute()  # noqa: PTH111 - Path's raises RuntimeError
    return user_caches() / "heeler"


class ClassArchive:
    """The archive of a Java program in a folder, whether it exists or not. `java`: the path of Java's executable.
    `jars`: identifies the program's jars among those that share the folder. Raises OSError if Java does not exist.
    """

    def __init__(self, java: str, folder: Path, jars: str = "") -> None:
        real = Path(java).resolve()
        state = real.stat()
        identity = hashlib.sha256(f"{real} {state.st_size} {state.st_mtime_ns}{jars}".encode()).hexdigest()[:10]
        self._folder = folder
        self._name = f"classes-{identity}"
        self._recording: Path | None = None

    @property
    def recording(self) -> bool:
        """Whether a process with `record_flags` records the archive, and so has to end regularly, see `finish`."""
        return self._recording is not None

    def use_flags(self) -> list[str]:
        """Returns JVM options that use the archive; none if there is no archive."""
        archive = self._complete()
        if archive is not None:
            with suppress(OSError):  # another user owns the cache
                os.utime(archive)
        return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", *_VERIFY, *_SILENT]

    def record_flags(self) -> list[str]:
        """Returns JVM options that write the archive at exit. Returns those of `use_flags` if there is an archive, or
        the folder is not writable.
        """
        if self._complete() or not os.access(self._folder, os.W_OK):
            return self.use_flags()
        self._clean_up()
        handle, name = tempfile.mkstemp(prefix=".classes-", suffix=".jsa", dir=self._folder)
        os.close(handle)
        Path(name).unlink()  # the JVM creates it; complete archives have other names
        self._recording = Path(name)
        return [f"-XX:ArchiveClassesAtExit={name}", *_SILENT]

    def finish(self, *, clean: bool) -> None:
        """Keeps or removes the archive that the process with `record_flags` has written. `clean`: the process has ended
        regularly.
        """
        if self._recording is None:
            return
        with suppress(OSError):
            size = self._recording.stat().st_size
            if clean and size and self._complete() is None:
                self._recording.rename(self._folder / f"{self._name}-{size}.jsa")
            else:
                self._recording.unlink()
        self._recording = None

    def _complete(self) -> Path | None:
        """Returns the archive if its size is the one in its name and its owner is trusted, else None. Java 17 crashes
        if an archive is truncated, and runs any code in it.
        """
        for file in self._folder.glob(f"{self._name}-*.jsa"):
            with suppress(OSError, ValueError):
                if file.stat().st_size == int(file.stem.rpartition("-")[2]) and trusted(file):
                    return file
        return None

    def _clean_up(self) -> None:
        """Removes abandoned archives, and all but the most recently used ones."""
        unfinished = [f for f in self._folder.glob(".classes-*.jsa") if time.time() - _mtime(f) > _ABANDONED_S]
        complete = sorted(self._folder.glob("classes-*.jsa"), key=_mtime, reverse=True)
        for file in unfinished + complete[_MAX_ARCHIVES - 1 :]:
            with suppress(OSError):
                file.unlink()


def _mtime(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # another process has deleted it
        return time.time()
