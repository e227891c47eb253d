"""Finds the Java plugins in the folders of plugin.path, as plugin.discovery says. Results are cached by jar content, so
that a worker with known jars starts no JVM for this.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from heeler.embedded_kafka.jars import KAFKA_VERSION
from heeler.java_host.class_files import BROKEN, plugin_classes
from heeler.java_host.host import HostPath, JavaHost
from heeler.java_host.manifests import NAMES_PLUGINS, link_with_manifest, names_in
from heeler.java_host.settings import DISCOVERY
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins import Kind
from spark_tasks.spark.class_archive import cache_root

_logger = logging.getLogger(__name__)

_KINDS: Final = {
    "source": Kind.CONNECTOR, "sink": Kind.CONNECTOR, "converter": Kind.CONVERTER,
    "header_converter": Kind.HEADER_CONVERTER, "transformation": Kind.TRANSFORMATION, "predicate": Kind.PREDICATE,
    "configprovider": Kind.CONFIG_PROVIDER,
}
DEFAULT_MODE: Final = "hybrid_warn"
SERVICE_LOAD: Final = "service_load"


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
    locations = []
    for child in chain.from_iterable(map(_children, map(Path, plugin_path))):
        with suppress(OSError):  # the registry has reported what may not be read
            if child.is_dir():
                jars = tuple(sorted(f for f in child.rglob("*") if _is_jar(f)))
                locations += [PluginLocation(child, jars)] if jars else []
            elif child.suffix == ".jar":
                locations.append(PluginLocation(child, (child,)))
    return locations


def _is_jar(path: Path) -> bool:
    return path.suffix == ".jar" and path.is_file()


def _children(entry: Path) -> Iterator[Path]:
    """Yields the children of an entry of plugin.path, or the entry itself if it is a jar."""
    with suppress(OSError):  # if it is not a folder, the registry has reported that
        yield from [entry] if _is_jar(entry) else sorted(entry.iterdir())


@dataclass(frozen=True, slots=True)
class Seen:
    """What the directories of a location's jars say. `digest`: a key for their content; `named`: the classes in their
    manifests.
    """

    digest: str
    named: frozenset[str]


def look(place: PluginLocation, complain: Callable[[str], None], mode: str = DEFAULT_MODE) -> Seen:
    """Looks at a location for a plugin.discovery. `complain` is called with the message about a broken jar."""
    digest = hashlib.sha256(f"3 {mode} {KAFKA_VERSION} {_java()} {place.path.absolute()}".encode())
    named: set[str] = set()
    for jar in place.jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                entries = archive.infolist()
                manifests = [entry.filename for entry in entries if entry.filename in NAMES_PLUGINS]
                named.update(*(names_in(archive.read(name)) for name in manifests))
        except (OSError, *BROKEN) as error:
            complain(f"plugin.path: could not read {jar}: {error}")
            digest.update(f"{jar} {error}".encode())
            continue
        for entry in entries:
            digest.update(f"{jar.name} {entry.filename} {entry.CRC} {entry.file_size}\n".encode(errors="replace"))
    return Seen(digest.hexdigest()[:32], frozenset(named))


def _java() -> str:
    """The path of the Java program: another Java may find other plugins. Does not start it."""
    home = os.environ.get("JAVA_HOME")
    return os.path.realpath(Path(home) / "bin" / "java" if home else shutil.which("java") or "")


class Discovery:
    """The Java plugins of some folders. `host` is started only if a location has not been searched before."""

    def __init__(self, plugin_path: Sequence[str], make_host: Callable[[HostPath], JavaHost],
                 mode: str = DEFAULT_MODE) -> None:
        """`mode`: plugin.discovery. With service_load, a class is a plugin only if a manifest names it."""
        self.complaints: list[str] = []
        self._mode = mode
        self._plugin_path = ",".join(plugin_path)
        self._seen = {place: look(place, self.complaints.append, mode) for place in plugin_locations(plugin_path)}
        self._scans: set[PluginLocation] = set()  # where the host looks into every class
        self._known = {place: self._cached(place) for place in self._seen}
        self.host = make_host(self.host_path)

    def _cached(self, place: PluginLocation) -> list[JavaPlugin] | None:
        """Its plugins, if they are known without the host."""
        seen = self._seen[place]
        known = _remembered(seen.digest)
        if known is not None:
            return known
        if self._has_to_be_scanned(place):
            self._scans.add(place)
        elif not seen.named:  # such as a driver's jar
            known = []
            _remember(seen.digest, known)
        return known

    def host_path(self, folder: Path) -> tuple[str, str]:
        """A plugin.path for the host, and the plugin.discovery to use there. `folder` is the host's, for replacements
        of jars without manifests. Raises OSError.
        """
        scans = [str(place.path) for place in self._scans if self._known[place] is None]
        if scans:
            _logger.warning("plugin.path: the Java plugin host scans every class in %s once, and again when the jars "
                            "change. To avoid that, add the missing manifests with Kafka's "
                            "bin/connect-plugin-path.sh sync-manifests, and set plugin.discovery=service_load",
                            ", ".join(sorted(scans)))
            return self._plugin_path, DEFAULT_MODE
        without = {place: missing for place in self._known if (missing := self._without_manifest(place))}
        if not without:
            return self._plugin_path, SERVICE_LOAD
        links = folder / "plugins"
        links.mkdir()
        for number, place in enumerate(self._known):
            if place not in without:
                (links / f"{number}-{place.path.name}").symlink_to(place.path.absolute())
                continue
            names: dict[str, list[str]] = {}
            for plugin in without[place]:
                names.setdefault(plugin.type, []).append(plugin.name)
            link_with_manifest(links / f"{number}-{place.path.stem}", place.jars, names)
        return str(links), SERVICE_LOAD

    def _has_to_be_scanned(self, place: PluginLocation) -> bool:
        """Whether it has plugins that no manifest names."""
        return self._mode != SERVICE_LOAD and not plugin_classes(place.jars) <= self._seen[place].named

    def _without_manifest(self, place: PluginLocation) -> list[JavaPlugin]:
        """Its plugins that no manifest names; config providers are found by their manifests alone."""
        return [plugin for plugin in self._known[place] or () if plugin.name not in self._seen[place].named]

    def plugins(self) -> list[JavaPlugin]:
        """All Java plugins. If the host cannot look for them, that is reported like a broken jar. Raises ConfigError
        where plugin.discovery is hybrid_fail and a plugin has no manifest.
        """
        if any(plugins is None for plugins in self._known.values()):
            try:
                listed = self.host.ask("plugins")["plugins"]
            except ConnectError as error:
                self.complaints.append(f"Could not use the Java plugins of plugin.path: {error}")
                return []
            self._known = {place: self._listed(place, listed) if plugins is None else plugins
                           for place, plugins in self._known.items()}
        missing = [plugin for place in self._known for plugin in self._without_manifest(place)]
        if missing and self._mode == "hybrid_fail":
            names = ", ".join(f"{plugin.name} in {plugin.location}" for plugin in missing)
            raise ConfigError(f"{DISCOVERY} is hybrid_fail, and these plugins have no manifest: {names}. Add the "
                              "missing manifests with Kafka's bin/connect-plugin-path.sh sync-manifests")
        return [plugin for plugins in self._known.values() for plugin in plugins or ()]

    def _listed(self, place: PluginLocation, listed: Iterable[Mapping[str, str]]) -> list[JavaPlugin]:
        """A location's part of what the host has found."""
        seen, real_path, shown = self._seen[place], place.path.resolve(), str(place.path.absolute())
        everything = [plugin for plugin in map(_plugin, listed) if plugin.type in _KINDS]
        location_plugins = [replace(plugin, location=shown) for plugin in everything
                            if plugin.location == shown  # it may have been given links
                            or Path(plugin.location).resolve() == real_path]
        # Kafka's own plugins, which a folder may have too.
        shared = {plugin.name for plugin in everything if plugin.location == "classpath"}
        if broken := seen.named - shared - {plugin.name for plugin in location_plugins}:
            self.complaints.append(f"plugin.path: {place.path} names plugins that cannot be loaded: "
                                   f"{', '.join(sorted(broken))}; see the host's lines in the log (heeler.java)")
        else:
            _remember(seen.digest, location_plugins)
        return location_plugins


def _plugin(found: Mapping[str, str]) -> JavaPlugin:
    location = unquote(urlsplit(found["location"]).path).rstrip("/")
    return JavaPlugin(found["class"], found["kind"], found["version"], location)


def _file(digest: str) -> Path:
    return cache_root() / "java-plugins" / f"{digest}.json"


def _remembered(digest: str) -> list[JavaPlugin] | None:
    try:
        return [JavaPlugin(**fields) for fields in json.loads(_file(digest).read_text())]
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
        _logger.info("Could not cache the plugins that were found, so the next start searches again: %s", error)
