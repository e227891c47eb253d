"""The plugins of this process, by name. Names are known at once; a plugin is imported on first use."""

from __future__ import annotations

import inspect
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_tasks import spaces
from spark_tasks.config.definition import ConfigDef
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins import data_sources, discovery
from spark_tasks.plugins.advice import advice
from spark_tasks.plugins.discovery import Found
from spark_tasks.plugins.kinds import (
    UNDEFINED,
    Kind,
    PassedOver,
    Plugin,
    PluginInfo,
    PluginNotFoundError,
    PluginVersionError,
)
from spark_tasks.plugins.versions import requirement, sort_key
from spark_tasks.process import code_folders

if TYPE_CHECKING:
    from spark_tasks.plugins.api import Connector

_log = logging.getLogger(__name__)
_SHOWN = [kind for kind in Kind if kind is not Kind.DATA_SOURCE]
_OURS = re.compile(rf"^<frozen |/importlib/|^{re.escape(str(Path(__file__).parents[1]))}/(?!connectors/)")
_REST_ORDER = ("sink", "source", "transformation", "predicate", "converter", "header_converter")


class Plugins:
    """The installed plugins and those in the folders of `plugin.path`.

    Thread-safe: loaded plugins are only ever added, and no lock is held while one is imported, so that an import that
    hangs blocks nothing else. Pickles as its `plugin_path`.
    """

    def __init__(
        self, plugin_path: Iterable[str] | str | None = None, *, installed: Sequence[Found] | None = None,
        others: Mapping[Found, Callable[[], type[Any]]] | None = None, complaints: Sequence[str] = (),
        passed_over: Mapping[tuple[Kind, str], Sequence[PassedOver]] | None = None, quiet: bool = False,
    ) -> None:
        """`installed` replaces the plugins of the distributions on sys.path. `others`: plugins of another runtime, each
        with a function that makes its class; `complaints`: errors of the search for those; `passed_over`: plugins not
        used, by kind and name, as the other runtime has one too. Executors know none of these. `quiet`: files and
        folders that cannot be read have been logged already.
        """
        parts = plugin_path.split(",") if isinstance(plugin_path, str) else plugin_path or ()
        self.plugin_path = tuple(part.strip() for part in parts if part.strip())
        self._given = installed
        self.complaints: list[str] = list(complaints)
        self._others = dict(others or {})
        self._passed_over = passed_over or {}
        folders = discovery.in_folders(self.plugin_path, self.complaints.append)
        self._found = [*(discovery.installed() if installed is None else installed), *folders]
        replaced = {(found.kind, found.name) for found in self._others}
        self._found = [found for found in self._found if (found.kind, found.name) not in replaced] + list(self._others)
        data_sources.add(folders)
        code_folders.add(self.plugin_path)
        if not quiet:
            for complaint in self.complaints:
                _log.warning(complaint)
        self._loaded: dict[Found, Plugin | Exception] = {}
        self._by_name = lru_cache(1000)(self._look_up)  # what is installed stays as it was at the start

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Plugins, installed=self._given, quiet=True), (self.plugin_path,)  # the worker has logged it

    def connector(self, name: str) -> type[Connector]:
        """The connector class of that name. Raises PluginNotFoundError with Kafka Connect's text."""
        return self.find(Kind.CONNECTOR, name).cls

    def connector_of(self, config: Mapping[str, str]) -> Plugin:
        """The connector that a configuration names, in the version that it asks for. Raises what `find` raises."""
        return self.find(Kind.CONNECTOR, config.get("connector.class") or "", config.get("connector.plugin.version"))

    def config_provider(self, name: str) -> type[Any]:
        """The config provider class of that name. Raises PluginNotFoundError."""
        return self.find(Kind.CONFIG_PROVIDER, name).cls

    def find(self, kind: Kind, name: str, version: str | None = None) -> Plugin:
        """The plugin by the class name that REST shows, the path of its class, its simple name, its alias or a Java
        class name.

        The short forms are Kafka Connect's: FileStreamSource, FileStreamSourceConnector, JsonConverter, Json. Of
        several versions, the newest that `version` allows (KIP-891: "1.2", "[1.0,2.0)", "latest").
        Raises PluginNotFoundError, PluginVersionError, and ConfigError if `version` cannot be parsed.
        """
        plugin = self.get(kind, name, version)
        if plugin is None:
            usable = ", ".join(info.class_name for info in self.of_kind(kind))
            raise PluginNotFoundError(
                f"Failed to find any class that implements {kind.interface} and which name matches {name}, available "
                f"{kind.interface[0].lower()}{kind.interface[1:]}s are: {usable}\n{self.advice(kind, name)}"
            )
        return plugin

    def advice(self, kind: Kind, name: str) -> str:
        """Hints for a name that was not found."""
        complaints = "".join(f"\n{complaint}" for complaint in self.complaints)  # the plugin may be there
        return advice(kind, name.strip(), self._found) + complaints

    def get(self, kind: Kind, name: str, version: str | None = None) -> Plugin | None:
        """Like `find`, but None if no plugin has that name. Raises PluginNotFoundError if several have it, or the one
        that has it cannot be imported.
        """
        plugin = self._by_name(kind, name.strip()) or self._by_declared_alias(kind, name.strip())
        wanted = requirement(version)
        if plugin is None or wanted is None:
            return plugin
        there = self._versions(plugin)
        fitting = next((one for one in reversed(there) if one.version in wanted), None)
        if fitting is None:
            raise PluginVersionError(
                f"Plugin {plugin.name} not found that matches the version range {wanted}, available versions: "
                f"[{', '.join(one.version for one in there)}]"
            )
        return fitting

    def versions(self, plugin: Plugin) -> list[str]:
        """All versions of a plugin that there are, the newest last. Imports them."""
        return list(dict.fromkeys(one.version for one in self._versions(plugin)))

    def _versions(self, plugin: Plugin) -> list[Plugin]:
        found = (self._try(f) for f in reversed(self._found) if f.kind is plugin.kind and f.name == plugin.name)
        return sorted((one for one in found if one), key=_age)

    def exists(self, kind: Kind, name: str) -> bool:
        """Whether a plugin has that name. Imports nothing if an entry point or a class has it."""
        try:
            return bool(self._matching(kind, name.strip())) or self.get(kind, name) is not None
        except PluginNotFoundError:
            return False

    def search(self, name: str) -> Plugin | None:
        """The plugin of any kind with that name, or None. Imports other plugins only if no name matches."""
        name = name.strip()
        for step in (self._by_name, self._by_declared_alias):
            for kind in _SHOWN:
                try:
                    plugin = step(kind, name)
                except PluginNotFoundError:
                    continue
                if plugin is not None:
                    return plugin
        return None

    def connector_type(self, config: Mapping[str, str] | None) -> str:
        """"source", "sink", or "unknown" if the config is None or its class cannot be found."""
        try:
            return self.connector_of(config or {}).type
        except (PluginNotFoundError, ConfigError):
            return "unknown"

    def names(self, kind: Kind) -> list[str]:
        """The class names of a kind, sorted, without importing anything."""
        return sorted({found.name for found in self._found if found.kind is kind})

    def of_kind(self, kind: Kind) -> list[PluginInfo]:
        """All plugins of a kind that can be imported, sorted by type and class name. Imports them."""
        plugins = [plugin for found in self._found if found.kind is kind and (plugin := self._try(found))]
        infos = dict.fromkeys(self._info(plugin) for plugin in sorted(plugins, key=_age))
        return sorted(infos, key=attrgetter("kind", "class_name"))

    def is_in_jars(self, plugin: Plugin) -> bool:
        """Whether there is also a Java plugin of this kind and name, which is not used."""
        return any(one.runtime == "java" for one in self._passed_over.get((plugin.kind, plugin.name), ()))

    def _info(self, plugin: Plugin) -> PluginInfo:
        return replace(plugin.info, passed_over=tuple(self._passed_over.get((plugin.kind, plugin.name), ())))

    def all(self) -> list[PluginInfo]:
        """All plugins that REST lists, in Kafka Connect's order. Imports them."""
        infos = [info for kind in _SHOWN if kind is not Kind.CONFIG_PROVIDER for info in self.of_kind(kind)]
        return sorted(infos, key=lambda info: (_REST_ORDER.index(info.kind), info.class_name))

    def problems(self) -> list[str]:
        """Requested plugins that cannot be imported, each with the reason."""
        return [f"Plugin {found.name} ({found.target}) from {found.location} cannot be imported: {why(result)}"
                for found, result in self._loaded.copy().items() if isinstance(result, Exception)]

    def _matching(self, kind: Kind, name: str) -> list[Found]:
        """Plugins with exactly this name if there are any, else with this simple name. One found twice, or in two
        versions, counts once.
        """
        mine = [f for f in self._found if f.kind is kind]
        exact = [f for f in mine if name in (f.name, f.target, f.target.replace(":", "."), f.alias)]
        found = exact[:1] or [f for f in mine if name in _simple_names(f)]
        return list({f.name: f for f in reversed(found)}.values())

    def _look_up(self, kind: Kind, name: str) -> Plugin | None:
        matches = self._matching(kind, name)
        if len(matches) > 1:
            raise PluginNotFoundError(
                f"More than one {kind.interface.lower()} matches alias {name}. Please use full package and class name "
                f"instead. Classes found: {', '.join(f.name for f in matches)}"
            )
        return self._newest(matches[0]) if matches else None

    def _newest(self, first: Found) -> Plugin:
        """The newest version of `first`'s plugin. Versions are imported to be compared only if there are several."""
        same = [f for f in reversed(self._found) if f.kind is first.kind and f.name == first.name]
        usable = [plugin for f in same if (plugin := self._try(f))] if len(same) > 1 else []
        return max(reversed(usable), key=_age) if usable else self._load(first)

    def _by_declared_alias(self, kind: Kind, name: str) -> Plugin | None:
        """The plugin whose class declares the name in `aliases`, which are known only once classes are imported."""
        if "." not in name:
            return None
        plugins = (self._try(f) for f in self._found if f.kind is kind)
        first = next((p for p in plugins if p and name in getattr(p.cls, "aliases", ())), None)
        return self._versions(first)[-1] if first else None

    def _load(self, found: Found) -> Plugin:
        if found not in self._loaded:
            self._loaded[found] = self._loaded_from(found)
        result = self._loaded[found]
        if isinstance(result, Exception):
            what = f"Plugin {found.name} ({found.target})"
            raise PluginNotFoundError(f"{what} cannot be imported: {why(result)}") from result
        return result

    def _loaded_from(self, found: Found) -> Plugin | Exception:
        if found not in self._others:
            return _import(found)
        try:
            return Plugin(found.name, found.kind, self._others[found](), found.location)
        except ConfigError as error:
            _log.warning("Plugin %s (%s) cannot be used: %s", found.name, found.target, error)
            return error

    def _try(self, found: Found) -> Plugin | None:
        try:
            return self._load(found)
        except PluginNotFoundError:
            return None  # _import has logged it


def _age(plugin: Plugin) -> tuple[bool, tuple[Any, ...]]:
    """Orders plugins by version; one without a version is older than all others."""
    known = plugin.version != UNDEFINED
    return known, sort_key(plugin.version) if known else ()


def _simple_names(found: Found) -> tuple[str, ...]:
    simple = found.name.rpartition(".")[2]
    if "$" in simple:
        return ()  # nested classes have no short names in Kafka Connect
    return simple, simple.removesuffix(found.kind.interface)


def _import(found: Found) -> Plugin | Exception:
    try:
        cls = resolve(found)
        _check(cls)
    except Exception as e:  # noqa: BLE001  (a plugin's module may do anything at import; one must not break the others)
        _log.warning("Plugin %s (%s) from %s cannot be imported: %r", found.name, found.target, found.location, e)
        return e
    return Plugin(found.name, found.kind, cls, found.location)


def _check(cls: type[Any]) -> None:
    """Raise ConfigError for a class that its author defined wrongly."""
    definition = getattr(cls, "config_def", None)
    if isinstance(definition, ConfigDef):
        definition.check()
    if mistake := getattr(cls, "mistake", None):
        raise ConfigError(mistake)


def why(error: Exception) -> str:
    """What a plugin's module raised, and the last line of the author's own code in its traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _OURS.search(f.filename)]
    if isinstance(error, SyntaxError):
        return str(error)  # it names the line
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    kind = "" if isinstance(error, ConnectError | ImportError) else f"{type(error).__name__}: "
    return spaces.shown(f"{kind}{error}{where}")


def resolve(found: Found) -> type[Any]:
    """Import a plugin's class. Raises what its module raises, AttributeError, and TypeError if it is not a class."""
    module, _, attribute = found.target.partition(":")
    real = module if found.place is None else spaces.of(found.place).name_of_plugin(module)
    cls = attrgetter(attribute)(import_module(real))
    if not inspect.isclass(cls):
        raise TypeError(f"{found.target} is not a class")
    return cls
