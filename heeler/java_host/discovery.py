"""Finds the Java plugins in the folders of plugin.path. The host searches jars only once for each content, so that a
worker with known jars does not start a JVM for this.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from heeler.embedded_kafka.jars import KAFKA_VERSION
from heeler.java_host.host import HostPath, JavaHost
from heeler.java_host.manifests import MANIFESTS, PROVIDERS, link_with_manifest
from spark_tasks.errors import ConnectError
from spark_tasks.plugins import Kind
from spark_tasks.spark.class_archive import cache_root

log = logging.getLogger(__name__)

_KINDS: Final = {
    "source": Kind.CONNECTOR, "sink": Kind.CONNECTOR, "converter": Kind.CONVERTER,
    "header_converter": Kind.HEADER_CONVERTER, "transformation": Kind.TRANSFORMATION, "predicate": Kind.PREDICATE,
    "configprovider": Kind.CONFIG_PROVIDER,
}
_API: Final = b"org/apache/kafka/connect/"  # in every class that implements a plugin, except for config providers


@dataclass(frozen=True, slots=True)
class JavaPlugin:
    """A plugin in a location of plugin.path. `type`: its kind, as REST names it."""

    name: str
    type: str
    version: str
    location: str

    @property
    def kind(self) -> Kind:
        """The kind of plugin in heeler's terms."""
        return _KINDS[self.type]


@dataclass(frozen=True, slots=True)
class PluginLocation:
    """A folder of jars, or a single jar, which gets its own class loader."""

    path: Path
    jars: tuple[Path, ...]


def plugin_locations(plugin_path: Iterable[str]) -> list[PluginLocation]:
    """The locations that Kafka Connect searches: each folder with jars and each jar directly below a folder of
    plugin.path, and each jar named in plugin.path.
    """
    found = []
    for entry in map(Path, plugin_path):
        for child in [entry] if _is_jar(entry) else _children(entry):
            if child.is_dir():
                jars = tuple(sorted(f for f in child.rglob("*") if f.suffix == ".jar" and f.is_file()))
                found += [PluginLocation(child, jars)] if jars else []
            elif child.suffix == ".jar":
                found.append(PluginLocation(child, (child,)))
    return found


def _is_jar(entry: Path) -> bool:
    """Whether an entry of plugin.path is a plugin's jar and not a folder."""
    return entry.suffix == ".jar" and entry.is_file()


def _children(folder: Path) -> Iterator[Path]:
    with suppress(OSError):  # if it is not a folder, the registry has reported that
        yield from sorted(folder.iterdir())


def contents(place: PluginLocation, complain: Callable[[str], None]) -> tuple[str, bool, bool]:
    """A hash of the content of a location's jars, whether any of them has a manifest of plugins, and whether any has
    one of config providers. Reads only the directory of each jar. `complain` is called with a message about each broken
    jar.
    """
    digest = hashlib.sha256(f"2 {KAFKA_VERSION} {_java()} {place.path.absolute()}".encode())
    manifests = provides = False
    for jar in place.jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                entries = archive.infolist()
        except (OSError, zipfile.BadZipFile) as error:
            complain(f"plugin.path: {jar} cannot be read: {error}")
            digest.update(f"{jar} {error}".encode())
            continue
        for entry in entries:
            digest.update(f"{jar.name} {entry.filename} {entry.CRC} {entry.file_size}\n".encode(errors="replace"))
            manifests = manifests or entry.filename.startswith(MANIFESTS)
            provides = provides or entry.filename == PROVIDERS
    return digest.hexdigest()[:32], manifests, provides


def _java() -> str:
    """The path of the Java program: another Java may find other plugins. Does not start it."""
    home = os.environ.get("JAVA_HOME")
    return os.path.realpath(Path(home) / "bin" / "java" if home else shutil.which("java") or "")


class Discovery:
    """The Java plugins of some folders. `host` is started only if a location has not been searched before."""

    def __init__(self, plugin_path: Sequence[str], make_host: Callable[[HostPath], JavaHost]) -> None:
        self.complaints: list[str] = []
        self._plugin_path = ",".join(plugin_path)
        found = {place: contents(place, self.complaints.append) for place in plugin_locations(plugin_path)}
        known = {place: _known(place, *seen) for place, seen in found.items()}
        self._known = {place: plugins for place, (plugins, _) in known.items()}
        self._places = {place: (digest, known[place][1]) for place, (digest, *_) in found.items()}
        self.host = make_host(self.host_path)

    def host_path(self, folder: Path) -> tuple[str, str]:
        """The plugin.path and the plugin.discovery for a host. `folder`: the host's own folder, in which jars without
        manifests are linked together with one. Raises OSError.
        """
        without = [place for place, (_, manifests) in self._places.items()
                   if not manifests and self._known[place] != []]
        if not without:
            return self._plugin_path, "service_load"
        unknown = [str(place.path) for place in without if self._known[place] is None]
        if unknown:
            log.warning("plugin.path: %s has no manifests, so the host of Java plugins searches every class, once for "
                        "each content; Kafka's bin/connect-plugin-path.sh sync-manifests adds manifests",
                        ", ".join(unknown))
            return self._plugin_path, "hybrid_warn"
        links = folder / "plugins"
        links.mkdir()
        for number, place in enumerate(self._places):
            if place not in without:
                (links / f"{number}-{place.path.name}").symlink_to(place.path.absolute())
                continue
            names: dict[str, list[str]] = {}
            for plugin in self._known[place] or ():
                names.setdefault(plugin.type, []).append(plugin.name)
            link_with_manifest(links / f"{number}-{place.path.stem}", place.jars, names)
        return str(links), "service_load"

    def plugins(self) -> list[JavaPlugin]:
        """All Java plugins. If the host cannot search for them, that is reported like a broken jar."""
        known = dict(self._known)
        if any(plugins is None for plugins in known.values()):
            try:
                listed = self.host.ask("plugins")["plugins"]
            except ConnectError as error:
                self.complaints.append(f"The Java plugins of plugin.path cannot be used: {error}")
                return []
            for place, (digest, manifests) in self._places.items():
                if known[place] is not None:
                    continue
                real, shown = place.path.resolve(), str(place.path.absolute())  # the host may have been given links
                everything = [replace(one, location=shown) for one in map(_plugin, listed)
                              if one.location == shown or Path(one.location).resolve() == real]
                known[place] = mine = [one for one in everything if one.type in _KINDS]
                if everything or not manifests:
                    _remember(digest, mine)
                else:
                    self.complaints.append(f"plugin.path: {place.path} names plugins, but none can be loaded; "
                                           "see the host's lines in the log (heeler.java)")
            self._known = known
        return [plugin for plugins in known.values() for plugin in plugins or ()]


def _known(place: PluginLocation, digest: str, manifests: bool, provides: bool) -> tuple[list[JavaPlugin] | None, bool]:
    """A location's plugins, None if only the host can find them; and whether all of them have manifests. Jars that
    never mention Connect, such as a driver's, can contain only config providers.
    """
    known = _remembered(digest)
    if known and provides and not manifests:
        return known, all(plugin.kind is Kind.CONFIG_PROVIDER for plugin in known)
    if known is None and not manifests and not any(map(_names_connect, place.jars)):
        if provides:
            return None, True
        known = []
        _remember(digest, known)
    return known, manifests


def _names_connect(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return any(_API in archive.read(name) for name in archive.namelist() if name.endswith(".class"))
    except (OSError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile):
        return False  # `contents` has reported it


def _plugin(found: Mapping[str, str]) -> JavaPlugin:
    location = unquote(urlsplit(found["location"]).path).rstrip("/")
    return JavaPlugin(found["class"], found["kind"], found["version"], location)


def _file(digest: str) -> Path:
    return cache_root() / "java-plugins" / f"{digest}.json"


def _remembered(digest: str) -> list[JavaPlugin] | None:
    try:
        return [JavaPlugin(**one) for one in json.loads(_file(digest).read_text())]
    except (OSError, ValueError, TypeError):
        return None


def _remember(digest: str, plugins: Sequence[JavaPlugin]) -> None:
    file = _file(digest)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", dir=file.parent)
        with os.fdopen(handle, "w") as out:
            json.dump([asdict(plugin) for plugin in plugins], out)
        Path(name).rename(file)
    except OSError as error:
        log.info("The plugins that were found could not be cached, so the next start searches again: %s", error)
