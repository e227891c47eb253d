"""The plugins of this process by name. Names are known from the start; a plugin is imported when it is first used."""

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

from typing_extensions import override

from spark_tasks import spaces
from spark_tasks.config.definition import ConfigDef
from spark_tasks.errors import ConfigError, ConnectError, PluginExitError, plugin_code
from spark_tasks.plugins import data_source_discovery, discovery
from spark_tasks.plugins.advice import READ_AT_START, advice
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

_logger = logging.getLogger(__name__)
_SHOWN = [kind for kind in Kind if kind is not Kind.DATA_SOURCE]
_OURS = re.compile(rf"^<frozen |/importlib/|^{re.escape(str(Path(__file__).parents[1]))}/(?!connectors/)")
_REST_ORDER = ("sink", "source", "transformation", "predicate", "converter", "header_converter")


class Plugins:
    """The installed plugins and those in the folders of `plugin.path`.

    Thread-safe: loaded plugins are only added, never removed. No lock is held during an import, so an import that hangs
    blocks nothing else. Pickled as its `plugin_path`.
    """

    def __init__(
        self, plugin_path: Iterable[str] | str | None = None, *, installed: Sequence[Found] | None = None,
        others: Mapping[Found, Callable[[], type[Any]]] | None = None, complaints: Sequence[str] = (),
        passed_over: Mapping[tuple[Kind, str], Sequence[PassedOver]] | None = None, quiet: bool = False,
        where_found: str = READ_AT_START,
    ) -> None:
        """`installed`: replaces the plugins of the distributions on sys.path. `others`: Java plugins, each with a
        function that returns its class; `complaints`: errors from the search for them; `passed_over`: plugins that are
        not used, by kind and name, because the other runtime has one with the same name. Executors have none of these
        three. `quiet`: does not log complaints. `where_found`: what errors say about where plugins are looked for.
        """
        parts = plugin_path.split(",") if isinstance(plugin_path, str) else plugin_path or ()
        self.plugin_path = tuple(part.strip() for part in parts if part.strip())
        self._given = installed
        self._where_found = where_found
        self.complaints: list[str] = list(complaints)
        self._others = dict(others or {})
        self._passed_over = passed_over or {}
        folders = discovery.in_folders(self.plugin_path, self.complaints.append)
        self._found = [*(discovery.installed() if installed is None else installed), *folders]
        replaced = {(found.kind, found.name) for found in self._others}
        self._found = [found for found in self._found if (found.kind, found.name) not in replaced] + list(self._others)
        data_source_discovery.add(folders)
        code_folders.add(self.plugin_path)
        if not quiet:
            for complaint in self.complaints:
                _logger.warning(complaint)
        self._loaded: dict[Found, Plugin | Exception] = {}
        self._by_name = lru_cache(1000)(self._look_up)  # plugins that are installed later are not found anyway

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Plugins, installed=self._given, quiet=True), (self.plugin_path,)  # the worker logs warnings

    def connector(self, name: str) -> type[Connector]:
        """Returns the connector class with a name, see `find`. Raises PluginNotFoundError with Kafka Connect's text."""
        return self.find(Kind.CONNECTOR, name).cls

    def connector_of(self, config: Mapping[str, str]) -> Plugin:
        """Returns the connector of a configuration, in the version that it requires. Raises the errors of `find`."""
        return self.find(Kind.CONNECTOR, config.get("connector.class") or "", config.get("connector.plugin.version"))

    def config_provider(self, name: str) -> type[Any]:
        """Returns the config provider class with a name. Raises PluginNotFoundError."""
        return self.find(Kind.CONFIG_PROVIDER, name).cls

    def find(self, kind: Kind, name: str, version: str | None = None) -> Plugin:
        """Returns the plugin by the class name that REST shows, the path of its class, its simple name, its alias or a
        Java class name. Of several versions, returns the newest that `version` allows (KIP-891: "1.2", "[1.0,2.0)",
        "latest").

        Short forms are those of Kafka Connect: FileStreamSource, FileStreamSourceConnector, JsonConverter, Json. Raises
        PluginNotFoundError, PluginVersionError, and ConfigError if `version` cannot be parsed.
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
        """Returns advice for a name that was not found."""
        complaints = "".join(f"\n{complaint}" for complaint in self.complaints)  # it may be in an unreadable folder
        return advice(kind, name.strip(), self._found, self._where_found) + complaints

    def get(self, kind: Kind, name: str, version: str | None = None) -> Plugin | None:
        """Like `find`, but returns None if no plugin has the name. Raises PluginNotFoundError if several plugins have
        the name, or the plugin cannot be imported.
        """
        name = _as_parsed(kind, name)
        plugin = self._by_name(kind, name) or self._by_declared_alias(kind, name)
        wanted = requirement(version)
        if plugin is None or wanted is None:
            return plugin
        available = self._versions(plugin)
        newest = next((plugin for plugin in reversed(available) if plugin.version in wanted), None)
        if newest is None:
            raise PluginVersionError(
                f"Plugin {plugin.name} not found that matches the version range {wanted}, available versions: "
                f"[{', '.join(plugin.version for plugin in available)}]"
            )
        return newest

    def versions(self, plugin: Plugin) -> list[str]:
        """Returns all available versions of a plugin, the newest last. Imports them."""
        return list(dict.fromkeys(installed.version for installed in self._versions(plugin)))

    def _versions(self, plugin: Plugin) -> list[Plugin]:
        versions = (self._try(f) for f in reversed(self._found) if f.kind is plugin.kind and f.name == plugin.name)
        return sorted((installed for installed in versions if installed), key=_age)

    def exists(self, kind: Kind, name: str) -> bool:
        """Returns whether a plugin has the name. Imports nothing if it is the name of an entry point or a class."""
        try:
            return bool(self._matching(kind, _as_parsed(kind, name))) or self.get(kind, name) is not None
        except PluginNotFoundError:
            return False

    def search(self, name: str) -> Plugin | None:
        """Returns the plugin of any kind with the name, or None. Imports other plugins only if no name matches."""
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
        """Returns "source", "sink", or "unknown" if `config` is None or its class cannot be found."""
        try:
            return self.connector_of(config or {}).type
        except (PluginNotFoundError, ConfigError):
            return "unknown"

    def names(self, kind: Kind) -> list[str]:
        """Returns the class names of a kind, sorted. Imports nothing."""
        return sorted({found.name for found in self._found if found.kind is kind})

    def of_kind(self, kind: Kind) -> list[PluginInfo]:
        """Returns all plugins of a kind that can be imported, sorted by type and class name. Imports them."""
        plugins = [plugin for found in self._found if found.kind is kind and (plugin := self._try(found))]
        infos = dict.fromkeys(self._info(plugin) for plugin in sorted(plugins, key=_age))
        return sorted(infos, key=attrgetter("kind", "class_name"))

    def is_in_jars(self, plugin: Plugin) -> bool:
        """Returns whether there is also a Java plugin of this kind and name, which is not used."""
        return any(other.runtime == "java" for other in self._passed_over.get((plugin.kind, plugin.name), ()))

    def _info(self, plugin: Plugin) -> PluginInfo:
        return replace(plugin.info, passed_over=tuple(self._passed_over.get((plugin.kind, plugin.name), ())))

    def all(self) -> list[PluginInfo]:
        """Returns all plugins that REST lists, in Kafka Connect's order. Imports them."""
        infos = [info for kind in _SHOWN if kind is not Kind.CONFIG_PROVIDER for info in self.of_kind(kind)]
        return sorted(infos, key=lambda info: (_REST_ORDER.index(info.kind), info.class_name))

    def problems(self) -> list[str]:
        """Returns a message for each requested plugin that cannot be imported."""
        failed = [(found, result) for found, result in self._loaded.copy().items() if isinstance(result, Exception)]
        return [f"Plugin {found.name} ({found.target}) from {found.location} cannot be imported: "
                f"{describe_error(error)}" for found, error in failed]

    def _matching(self, kind: Kind, name: str) -> list[Found]:
        """Returns the plugin with exactly this name if there is one, otherwise those with this simple name. A plugin
        that was found twice, or in several versions, appears once.
        """
        of_kind = [f for f in self._found if f.kind is kind]
        exact = [f for f in of_kind if name in (f.name, f.target, f.target.replace(":", "."), f.alias)]
        matches = exact[:1] or [f for f in of_kind if name in _simple_names(f)]
        return list({f.name: f for f in reversed(matches)}.values())

    def _look_up(self, kind: Kind, name: str) -> Plugin | None:
        matches = self._matching(kind, name)
        if len(matches) > 1:
            raise PluginNotFoundError(
                f"More than one {kind.interface.lower()} matches alias {name}. Please use full package and class name "
                f"instead. Classes found: {', '.join(f.name for f in matches)}"
            )
        return self._newest(matches[0]) if matches else None

    def _newest(self, first: Found) -> Plugin:
        """Returns the newest version of the plugin. Imports all versions to compare them only if there are several."""
        same = [f for f in reversed(self._found) if f.kind is first.kind and f.name == first.name]
        usable = [plugin for f in same if (plugin := self._try(f))] if len(same) > 1 else []
        return max(reversed(usable), key=_age) if usable else self._load(first)

    def _by_declared_alias(self, kind: Kind, name: str) -> Plugin | None:
        """Returns the plugin whose class declares the name in `aliases`. Imports all plugins of the kind."""
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
            raise PluginNotFoundError(f"{what} cannot be imported: {describe_error(result)}") from result
        return result

    def _loaded_from(self, found: Found) -> Plugin | Exception:
        if found not in self._others:
            return _import(found)
        try:
            return _checked_version(Plugin(found.name, found.kind, self._others[found](), found.location))
        except ConfigError as error:
            _logger.warning("Could not use plugin %s (%s): %s", found.name, found.target, error)
            return error

    def _try(self, found: Found) -> Plugin | None:
        try:
            return self._load(found)
        except PluginNotFoundError:
            return None  # _import has logged it


def _as_parsed(kind: Kind, name: str) -> str:
    """The name as ConfigDef leaves it: only `connector.class` is of type STRING, which is not trimmed."""
    return name if kind is Kind.CONNECTOR else name.strip()


def _age(plugin: Plugin) -> tuple[bool, tuple[Any, ...]]:
    """A sort key for plugins by version. A plugin without a version is older than all others."""
    known = plugin.version != UNDEFINED
    return known, sort_key(plugin.version) if known else ()


def _simple_names(found: Found) -> tuple[str, ...]:
    simple = found.name.rpartition(".")[2]
    if "$" in simple:
        return ()  # nested classes have no short names in Kafka Connect
    return simple, simple.removesuffix(found.kind.interface)


def _import(found: Found) -> Plugin | Exception:
    try:
        with plugin_code():
            cls = resolve(found)
            _check(cls)
            return _checked_version(Plugin(found.name, found.kind, cls, found.location))
    except Exception as e:  # noqa: BLE001  (a plugin's module may raise anything, which must not affect other plugins)
        _logger.warning("Could not import plugin %s (%s) from %s: %r", found.name, found.target, found.location, e)
        return e


def _check(cls: type[Any]) -> None:
    """Raises ConfigError if the class has an invalid definition."""
    definition = getattr(cls, "config_def", None)
    if isinstance(definition, ConfigDef):
        definition.check()
    if mistake := getattr(cls, "mistake", None):
        raise ConfigError(mistake)
    aliases = getattr(cls, "aliases", ())
    if not isinstance(aliases, tuple | list | set | frozenset) or not all(isinstance(alias, str) for alias in aliases):
        raise ConfigError(f"{cls.__qualname__}.aliases is {aliases!r}; it must be a tuple of strings")


def _checked_version(plugin: Plugin) -> Plugin:
    """Raises ConfigError for a version that cannot be compared, as look-ups of other plugins would otherwise."""
    _age(plugin)
    return plugin


def describe_error(error: Exception) -> str:
    """Formats the error of a plugin's module, with the last line of the plugin's own code in its traceback."""
    raised = error.__cause__ if isinstance(error, PluginExitError) and error.__cause__ else error
    frames = [f for f in traceback.extract_tb(raised.__traceback__) if not _OURS.search(f.filename)]
    if isinstance(error, SyntaxError):
        return str(error)  # contains the line
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    kind = "" if isinstance(error, ConnectError | ImportError) else f"{type(error).__name__}: "
    return spaces.with_plain_names(f"{kind}{error}{where}")


def resolve(found: Found) -> type[Any]:
    """Imports a plugin's class. Raises the errors of its module, AttributeError, and TypeError if it is not a class."""
    module, _, attribute = found.target.partition(":")
    real = module if found.place is None else spaces.of(found.place).name_of_plugin(module)
    cls = attrgetter(attribute)(import_module(real))
    if not inspect.isclass(cls):
        raise TypeError(f"{found.target} is not a class")
    return cls
