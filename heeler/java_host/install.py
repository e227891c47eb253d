"""Installs a Java plugin from Maven Central, with its dependencies, into a folder of plugin.path."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heeler.embedded_kafka.jars import JarSet, Progress, resolve
from heeler.errors import SetupError
from heeler.java_host.class_files import BROKEN
from heeler.java_host.host_classpath import RUNTIME
from heeler.java_host.manifests import MANIFESTS, names_in

_PART: Final = re.compile(r"[A-Za-z0-9_.-]+")
_CLASS: Final = re.compile(r"[\w.$]+")
_KAFKAS: Final = ("connect-", "kafka-")
_JAR: Final = re.compile(r"(.+?)-(\d+(?:\.\d+)*)(?:[.-].*)?")


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The coordinates of a Maven artifact."""

    group: str
    artifact: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Parses GROUP:ARTIFACT:VERSION. Raises SetupError."""
        parts = text.split(":")
        if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
            raise SetupError(f"{text} is not a Maven artifact: expected GROUP:ARTIFACT:VERSION, such as "
                             "org.apache.kafka:connect-file:4.3.1")
        return cls(*parts)


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed plugin: its folder, the number of its jars, and the plugin classes in their manifests."""

    folder: Path
    jars: int
    plugins: Sequence[str]


def install(
    what: Coordinates, plugin_path: Path, progress: Progress, more: Sequence[Coordinates] = ()
) -> Installed:
    """Creates a folder with the plugin in `plugin_path`, complete or not at all. `more`: further artifacts for the same
    folder. Raises SetupError if the folder exists, or if an artifact cannot be fetched.

    Libraries that every Java plugin gets from the host (Kafka's clients, the plugin API, Jackson) are left out, unless
    the host's version is older or, for other libraries than Kafka's, has another major version, with other classes
    (jakarta.* instead of javax.*): a library does not work if one part is the plugin's and another part the host's.
    """
    target = plugin_path / f"{what.artifact}-{what.version}"
    if target.exists():
        raise SetupError(f"{target} already exists; remove it to install the plugin again")
    modules = tuple((module.group, module.artifact, module.version) for module in (what, *more))
    jars = resolve(JarSet(f"{what.artifact} {what.version}", modules), progress)
    shared = dict(_version(jar) for jar in resolve(RUNTIME, progress).glob("*.jar"))
    own = {f"{module.artifact}-{module.version}.jar" for module in (what, *more)}
    chosen = []
    for jar in sorted(jars.glob("*.jar")):
        name, version = _version(jar)
        if jar.name in own or not _replaces(name, shared.get(name, ()), version):
            chosen.append(jar)
    try:
        plugin_path.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=plugin_path))
        try:
            for jar in chosen:
                shutil.copyfile(jar, work / jar.name)
            plugins = declared(work)
            work.chmod(0o755)
            work.rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise SetupError(f"Cannot write to {plugin_path}: {error}") from error
    return Installed(target, len(chosen), plugins)


def _version(jar: Path) -> tuple[str, tuple[int, ...]]:
    """The artifact's name and the numbers of its version."""
    match = _JAR.fullmatch(jar.stem)
    if match is None:
        return jar.stem, ()
    return match[1], tuple(map(int, match[2].split(".")))


def _replaces(name: str, hosts: tuple[int, ...], version: tuple[int, ...]) -> bool:
    """Whether the host's version of a library can be used instead of a plugin's."""
    return bool(hosts) and hosts >= version and (hosts[:1] == version[:1] or name.startswith(_KAFKAS))


def declared(folder: Path) -> list[str]:
    """The plugin classes in the manifests of a folder's jars."""
    classes: dict[str, None] = {}
    for jar in sorted(folder.glob("*.jar")):
        try:
            with zipfile.ZipFile(jar) as archive:
                names = [name for name in archive.namelist() if name.startswith(MANIFESTS)]
                texts = [archive.read(name) for name in names]
        except (OSError, *BROKEN) as error:
            raise SetupError(f"{jar.name} cannot be read: {error}") from error
        classes |= dict.fromkeys(name for text in texts for name in names_in(text) if _CLASS.fullmatch(name))
    return sorted(classes)
