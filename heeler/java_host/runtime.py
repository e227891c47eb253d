"""A worker's Java plugins: their host and their classes in the registry. Costs nothing if there are none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from heeler.java_host.settings import PREFER, JavaHostSettings
from spark_tasks.errors import ConfigError
from spark_tasks.metrics.plugins import Figures
from spark_tasks.plugins import Kind, PassedOver, discovery
from spark_tasks.plugins.config_providers import BUILT_IN
from spark_tasks.plugins.discovery import Found
from spark_tasks.plugins.kinds import UNDEFINED
from spark_tasks.process.log_levels import slf4j_level

if TYPE_CHECKING:
    from heeler.java_host.discovery import Discovery, JavaPlugin
    from heeler.java_host.host import JavaHost, OnHostEnd

_logger = logging.getLogger(__name__)

_EITHER: Final = {Kind.CONNECTOR, Kind.CONFIG_PROVIDER}  # converters and transforms go with their connector


class JavaRuntime:
    """Searches for jars when it is created; `close` ends the host."""

    def __init__(self, settings: JavaHostSettings, plugin_path: Sequence[str]) -> None:
        """Raises ConfigError where plugin.discovery is hybrid_fail and a plugin has no manifest."""
        self.found: dict[Found, Callable[[], type[Any]]] = {}
        self.passed_over: dict[tuple[Kind, str], list[PassedOver]] = {}
        self.complaints: Sequence[str] = ()
        self._host: JavaHost | None = None
        own = {(found.kind, found.name): found.location for found in discovery.installed()}
        own |= dict.fromkeys(((Kind.CONFIG_PROVIDER, name) for name in BUILT_IN), "classpath")
        if any(_has_jars(Path(folder)) for folder in plugin_path):
            from heeler.java_host.discovery import Discovery  # noqa: PLC0415 - if there are jars
            from heeler.java_host.host import JavaHost  # noqa: PLC0415

            seen = Discovery(plugin_path, lambda host_path: JavaHost(host_path, settings), settings.discovery)
            self._host = seen.host
            try:
                self._take(seen, own, settings.prefer)
            except ConfigError:
                self.close()
                raise
        self._refuse_missing(own, settings.prefer)

    def _take(self, seen: Discovery, own: Mapping[tuple[Kind, str], str], prefer: Collection[str]) -> None:
        for plugin in seen.plugins():
            which = plugin.kind, plugin.name
            if which not in own:
                pass
            elif plugin.kind in _EITHER and plugin.name in prefer:
                _logger.info("%s: the Java plugin in %s is used, because of %s", plugin.name, plugin.location, PREFER)
                self.passed_over[which] = [PassedOver("heeler", None, own[which])]
            else:
                _logger.info("%s: heeler's own plugin is used, not the Java plugin in %s%s", plugin.name,
                             plugin.location, f" (set {PREFER} to use that)" if plugin.kind in _EITHER else "")
                version = None if plugin.version == UNDEFINED else plugin.version
                self.passed_over.setdefault(which, []).append(PassedOver("java", version, plugin.location))
                continue
            self._add(plugin, seen.host)
        self.complaints = seen.complaints

    def _refuse_missing(self, own: Mapping[tuple[Kind, str], str], prefer: Collection[str]) -> None:
        """If a preferred Java plugin is missing, heeler's own plugin is not used in its place: they may differ."""

        def refuse() -> type[Any]:
            raise ConfigError(". ".join((f"{PREFER} names it, but no jar in plugin.path has it", *self.complaints)))

        taken = {(found.kind, found.name) for found in self.found}
        for kind, name in own:
            if kind in _EITHER and name in prefer and (kind, name) not in taken:
                self.found[Found(name, kind, f"java:{name}", "plugin.path")] = refuse

    def _add(self, plugin: JavaPlugin, host: JavaHost) -> None:
        def make() -> type[Any]:
            from heeler.java_host.proxy_classes import class_of  # noqa: PLC0415 - imports PySpark

            return class_of(plugin, host)

        self.found[Found(plugin.name, plugin.kind, f"java:{plugin.name}", plugin.location)] = make

    def on_host_end(self, report: OnHostEnd) -> None:
        """Sets the function that is called when a host ends or is replaced: see OnHostEnd."""
        if self._host is not None:
            self._host.on_end = report

    def figures(self) -> Sequence[Figures]:
        """The metrics of config providers (KIP-877)."""
        return self._host.figures() if self._host is not None else ()

    def set_level(self, logger: str, level: int) -> None:
        """The level of a logger of the worker was set: sets it also for plugins, in the background."""
        if self._host is not None and logger != "root":
            try:
                threading.Thread(target=self._host.set_level, args=(logger, slf4j_level(level)), name="java-level",
                                 daemon=True).start()
            except RuntimeError as error:  # it must not end the herder, which follows the cluster's levels
                _logger.warning("Java plugins do not get the level of logger %s: %s", logger, error)

    def close(self) -> None:
        """Ends the host, if there is one."""
        if self._host is not None:
            self._host.close()


def _has_jars(folder: Path) -> bool:
    """Whether an entry of plugin.path is a jar, or contains one."""
    with suppress(OSError):  # the registry reports what may not be read
        if not folder.is_dir():
            return folder.suffix == ".jar"
        return any(True for depth in ("*.jar", "*/**/*.jar") for _ in folder.glob(depth))
    return False
