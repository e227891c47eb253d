"""The classpath of the Java plugin host: Kafka's jars, and the host's classes, which are compiled once.

They are compiled with Eclipse's compiler, a jar like the others, so that no JDK is needed. The classes are cached in a
folder whose name has a hash of all sources; it is either complete or absent.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from heeler.embedded_kafka.jars import KAFKA_VERSION, JarSet, classpath, resolve
from heeler.embedded_kafka.java import MINIMUM, find_java
from heeler.errors import SetupError
from spark_tasks.spark.class_archive import cache_root

_logger = logging.getLogger(__name__)

SOURCES: Final = Path(__file__).with_name("src")
RUNTIME: Final = JarSet(
    f"Kafka Connect runtime {KAFKA_VERSION}",
    (
        *(("org.apache.kafka", name, KAFKA_VERSION) for name in ("connect-runtime", "connect-json",
                                                                 "connect-transforms")),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
)
COMPILER: Final = JarSet("Eclipse compiler 3.46.100", (("org.eclipse.jdt", "ecj", "3.46.100"),))
_COMPILE_S: Final = 120


def identity() -> str:
    """A hash of the sources and jars of the host."""
    digest = hashlib.sha256(f"{RUNTIME.modules} {COMPILER.modules}".encode())
    for file in sorted(SOURCES.rglob("*.java")):
        digest.update(str(file.relative_to(SOURCES)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def host_classpath() -> str:
    """The classpath; jars and classes that are not in the cache are fetched and compiled first. Raises SetupError."""
    jars = classpath(resolve(RUNTIME, _logger.info))
    return os.pathsep.join((str(compiled(jars)), jars))


def compiled(jars: str) -> Path:
    """The folder of the host's classes. Raises SetupError."""
    target = cache_root() / f"java-host-{identity()}"
    if target.is_dir():
        return target
    compiler = classpath(resolve(COMPILER, _logger.info))
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise SetupError(f"Cannot write to the cache {target.parent}: {error}. Set HEELER_CACHE to a writable folder."
                         ) from error
    try:
        _compile(compiler, jars, work)
        with suppress(OSError):  # another process was faster
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if not target.is_dir():
        raise SetupError(f"Could not write the Java plugin host's classes to {target}")
    return target


def _compile(compiler: str, jars: str, into: Path) -> None:
    command = [find_java(), "-jar", compiler, "--release", str(MINIMUM), "-nowarn", "-proc:none", "-d", str(into),
               "-classpath", jars, *map(str, sorted(SOURCES.rglob("*.java")))]
    try:
        done = subprocess.run(  # noqa: S603 - the user's Java and a compiler from the cache
            command, capture_output=True, text=True, timeout=_COMPILE_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"Could not compile the Java plugin host: {error}") from error
    if done.returncode != 0:
        raise SetupError(f"Could not compile the Java plugin host: {(done.stdout + done.stderr)[-2000:]}")
