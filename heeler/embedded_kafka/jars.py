"""Kafka's jars, which are fetched once, with the Ivy that is part of PySpark, into the user's cache.

A set of jars is complete or absent: it is collected in a temporary folder with a list of its files and their sizes,
then renamed. A set that does not match its list (an interrupted copy, a cleaned-up cache) is fetched again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from heeler.embedded_kafka.java import find_java
from heeler.errors import SetupError
from spark_tasks.spark.class_archive import cache_root

KAFKA_VERSION = "4.3.1"
Progress = Callable[[str], None]
"""Called with lines that report progress; some of them are Steps."""

_MANIFEST = "files.json"
_logger = logging.getLogger(__name__)


class Step(str):
    """A line about progress with counts: `done` of `total`, which may still grow."""

    __slots__ = ("done", "total")
    done: int
    total: int

    def __new__(cls, line: str, done: int, total: int) -> Self:
        """The line and its counts."""
        self = super().__new__(cls, line)
        self.done, self.total = done, total
        return self


@dataclass(frozen=True, slots=True)
class JarSet:
    """Modules (organization, name, version) that are resolved together with their dependencies. `tests`: the names of
    modules whose test jars are included.
    """

    title: str
    modules: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of the set's folder in the cache, which differs for different modules."""
        what = f"{self.modules}{self.tests or ''}"
        digest = hashlib.sha256(what.encode()).hexdigest()[:10]
        return f"{self.title.lower().replace(' ', '-')}-{digest}"


# Kafka's jars do not include a logging binding. slf4j-simple prints warnings, which explain failures.
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
BROKER = JarSet(f"Kafka {KAFKA_VERSION}", (("org.apache.kafka", "kafka_2.13", KAFKA_VERSION), _LOGGING))


def classpath(folder: Path) -> str:
    """The classpath of a folder's jars, in a fixed order (on which a class data archive depends)."""
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def resolve(jars: JarSet = BROKER, progress: Progress = _logger.info) -> Path:
    """The folder with the set's jars, which are fetched first if the cache does not have all of them.

    Concurrent processes fetch them once, one set after the other. Raises SetupError if there is no Java, the registry
    is unreachable, or the cache is not writable.
    """
    target = cache_root() / jars.folder
    if is_complete(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_name(".jars.lock")):  # one for all sets: Ivy's own cache, which they share, has none
            if not is_complete(target):  # another process may have fetched it while this one waited
                _fetch(jars, target, progress)
    except OSError as error:
        raise SetupError(
            f"Cannot write to the cache {target.parent}: {error}. Set HEELER_CACHE to a writable folder."
        ) from error
    return target


def is_complete(folder: Path) -> bool:
    """Whether the folder contains every file of its list, with the listed size."""
    try:
        sizes: dict[str, int] = json.loads((folder / _MANIFEST).read_text())
        return bool(sizes) and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a file's lock, which only one process at a time can have."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(jars: JarSet, target: Path, progress: Progress) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{jars.folder}.", dir=target.parent))
    try:
        _run_ivy(jars, work, progress)
        sizes = {jar.name: jar.stat().st_size for jar in (work / "jars").glob("*.jar")}
        (work / "jars" / _MANIFEST).write_text(json.dumps(sizes, indent=1, sort_keys=True))
        if target.exists():
            progress(f"{jars.title}: the copy in {target} is damaged; replacing it")
            shutil.rmtree(target)
        (work / "jars").rename(target)
        progress(Step(f"{jars.title}: {sum(sizes.values()) / 1e6:.0f} MB in {target}", len(sizes), len(sizes)))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(jars: JarSet, work: Path, progress: Progress) -> None:
    (work / "ivy.xml").write_text(_ivy_file(jars))
    settings = os.environ.get("HEELER_IVY_SETTINGS")
    if not settings:
        settings = str(work / "settings.xml")
        Path(settings).write_text(IVY_SETTINGS)
    command = [
        find_java(), "-jar", str(ivy_jar()), "-settings", settings, "-cache", str(cache_root() / "ivy"),
        "-ivy", str(work / "ivy.xml"), "-confs", "default", "-types", "jar", "bundle",
        "-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]"),
    ]
    progress(f"{jars.title} is not on this machine yet: fetching it once into {cache_root()}")
    output: list[str] = []
    with subprocess.Popen(  # noqa: S603 - the user's Java and PySpark's own jar
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
    ) as ivy:
        assert ivy.stdout is not None  # noqa: S101 - it was opened as a pipe
        counts = {"found": 0, "downloading": 0}
        for line in ivy.stdout:
            output.append(line.rstrip())
            word, _, rest = line.strip().partition(" ")
            if word in counts:
                counts[word] += 1
                name = rest.split(" ")[0].rpartition("/")[2]
                progress(Step(f"{jars.title}: {name}", counts["downloading"], counts["found"]))
    if ivy.returncode != 0 or not any((work / "jars").glob("*.jar")):
        raise SetupError(_why_not(jars, output))


def ivy_jar() -> Path:
    """PySpark's Ivy, found without importing PySpark (which takes long)."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for jar in sorted((Path(place) / "jars").glob("ivy-*.jar")):
            return jar
    raise SetupError("PySpark with its jars is not installed in this environment. Install it: pip install pyspark")


_BOTH = '<artifact name="{name}"/><artifact name="{name}" m:classifier="test"/>'


def _ivy_file(jars: JarSet) -> str:
    dependencies = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" conf="default->default">'
        f'{_BOTH.format(name=name) if name in jars.tests else ""}</dependency>'
        for org, name, version in jars.modules
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="heeler" module="embedded"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


# By default, Ivy waits minutes for each file of a host that does not respond; `ibiblio` without a root is Maven
# Central.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="registry"/>
  <timeout-constraints><timeout-constraint name="short" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="registry" m2compatible="true" timeoutConstraint="short"/></resolvers>
</ivysettings>
"""


_NO_ACCESS = re.compile(r"Server access error at url .*|Host \S+ not found")
_MISSING = re.compile(r"(?:Parent=|module not found: )([^#\s]+)#([^;\s]+);([^)\s]+)")


def _why_not(jars: JarSet, output: list[str]) -> str:
    """What to say about Ivy's output. It reports each module as not found that it could not ask for, too; a missing
    parent is the reason why its child was not found, and comes first.
    """
    lines = [line.strip() for line in output]
    access = next(filter(None, map(_NO_ACCESS.search, lines)), None)
    missing = next(filter(None, map(_MISSING.search, lines)), None)
    if missing is not None and access is None:
        return (
            f"Cannot fetch {jars.title}: the package registry (Maven Central) does not have "
            f"{':'.join(missing.groups())}. Check group, artifact and version, or set HEELER_IVY_SETTINGS to the Ivy "
            "settings file of a registry that has it."
        )
    signs = ("not found", "FAILED", "refused", "timed out", "ERROR")
    telling = [line for line in lines if any(sign in line for sign in signs)] or lines[-1:] or ["no output"]
    reason = telling[0] if access is None else access[0]
    return (
        f"Cannot fetch {jars.title}: the package registry (Maven Central) could not be reached or lacks a file, and "
        f"{cache_root()} has no copy ({reason[:300]}). Connect this machine to the network once, copy that folder from "
        "another machine, or set HEELER_IVY_SETTINGS to the Ivy settings file of a mirror."
    )
