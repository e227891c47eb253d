"""Python classes that represent Java plugins in the registry and forward calls to the host."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from heeler.java_host.connection import Connection, Event, JavaPluginError, thrown
from heeler.java_host.discovery import JavaPlugin
from heeler.java_host.host import JavaHost
from heeler.java_host.offset_texts import as_texts
from heeler.java_host.plugin_metrics import figures
from heeler.java_host.provider import JavaConfigProvider
from spark_tasks.backoff import doubled
from spark_tasks.config.connector_keys import queue_of
from spark_tasks.config.definition import REQUIRED, ConfigDef, ConfigKey, ConfigValue, Importance, Type, Width
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.host_frames import HostGoneError
from spark_tasks.metrics.plugins import Figures
from spark_tasks.plugins.api import Connector, ConnectorContext, Options, SinkConnector, SourceConnector
from spark_tasks.task import AlteredOffsets, TaskContext, TaskRunner

if TYPE_CHECKING:
    from spark_tasks.kafka.end_watchers import EndWatchers
    from spark_tasks.kafka.group_io import GroupIo
    from spark_tasks.plugins.chain_cut import Cut
    from spark_tasks.sinks.settings import SinkSettings
    from spark_tasks.sources.delivery import Delivery
    from spark_tasks.sources.settings import SourceSettings
    from spark_tasks.tasks.leases import Lease

_logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
_RETRIES: Final = 7  # some six seconds in all


class _Definition:
    """The `config_def` of a Java class, requested from the host on first use and then cached."""

    def __init__(self) -> None:
        self._known: ConfigDef | None = None

    def __get__(self, instance: object, owner: type[JavaPlugins]) -> ConfigDef:
        if self._known is None:
            keys = owner.host.ask("config", **owner.named())["keys"]
            self._known = ConfigDef(*map(_key, keys))
        return self._known


class JavaPlugins:
    """Base of all classes that represent Java plugins."""

    runtime: ClassVar[str] = "java"
    host: ClassVar[JavaHost]
    java_class: ClassVar[str]
    version: ClassVar[str]

    @classmethod
    def named(cls) -> Mapping[str, str]:
        """The plugin's name for the host, which may have several versions of it."""
        return {"class": cls.java_class, "version": cls.version}

    @classmethod
    def lease_for(cls, context: TaskContext) -> Lease:
        """A lease of the host for a task of a Python connector that has this plugin in its chain."""
        from heeler.java_host.lease import HostLease  # noqa: PLC0415 - for such tasks only

        return HostLease(cls.host, context)

    @classmethod
    def examine(cls, config: Options) -> list[ConfigValue]:
        """Every key's value, errors, recommended values and visibility, from the plugin's definition and a connector's
        `validate`.
        """
        given = {key: value for key, value in config.items() if value is not None}
        values = cls.host.ask("validate", **cls.named(), config=given)["values"]
        return [ConfigValue(v["name"], v["value"], v["recommended"], v["errors"], v["visible"]) for v in values]


class _JavaConnector(JavaPlugins, Connector):
    """The common part of source and sink connectors: at most one instance in the hosts at a time. A run is from `start`
    to `stop` or a failure, and has one instance after the other. Events of a former run or instance start nothing.
    """

    task_class: str | None = None
    """The Java class of its tasks; None until it has started."""

    def __init__(self, config: Options, context: ConnectorContext) -> None:
        super().__init__(config, context)
        self._run: object | None = None
        self._instance: object | None = None  # None: there is none, or its host has ended
        self._connection: Connection | None = None  # of the latest instance
        self._starting: Connection | None = None  # the latest one, which may never become `_connection`
        self._lock = threading.Lock()
        self._leaving = threading.Lock()  # so that `stop` waits for a stop that has begun

    @classmethod
    @override
    def data_source(cls, options: Options) -> Any:
        """Not supported: its records do not come from PySpark."""
        raise ConnectError(f"{cls.java_class} is a Java plugin and has no data source")

    @override
    def start(self) -> None:
        """Creates the connector in the host and starts it."""
        self._run = run = object()
        self._begin_retrying(run)

    def _begin_retrying(self, run: object) -> None:
        """Starts in the host, or in the next host if this one is just ending."""
        for attempt in itertools.count():
            try:
                self._begin(run)
                break
            except HostGoneError:
                if self._run is not run or attempt == _RETRIES:
                    raise
            time.sleep(doubled(_FIRST_PAUSE_S, attempt, _LONGEST_PAUSE_S))
            if self._run is not run:
                break

    def _begin(self, run: object) -> None:
        name, instance = self.config.get("name", ""), object()
        connection = self._starting = self.host.connect(
            partial(self._take, run, instance), self._offsets, name, name)
        try:
            response = connection.ask("connector", **self.named(), name=name, config=dict(self.config))
        except BaseException:
            connection.close()
            raise
        with self._lock:
            wanted = self._run is run
            if wanted:
                self.task_class = str(response["taskClass"])
                self._connection, self._instance = connection, instance
        if not wanted:  # it was stopped meanwhile
            self._end(connection)
        elif connection.gone and self._lost(instance):
            raise HostGoneError("The Java plugin host has ended")

    def _lost(self, instance: object) -> bool:
        """Clears the instance if it is this one. Returns whether it was."""
        with self._lock:
            was = self._instance is instance
            if was:
                self._instance = None
            return was

    @override
    def stop(self) -> None:
        """Stops the connector; the host forgets it."""
        self._run = None
        self._leave()

    def _leave(self) -> None:
        with self._leaving:
            with self._lock:
                connection, self._connection, self._instance = self._connection, None, None
            if connection is None:
                return
            try:
                self._end(connection)
            finally:
                self.context.metrics.replace(Figures())

    def _end(self, connection: Connection) -> None:
        try:
            connection.ask("stop")
        except HostGoneError:
            _logger.info("The Java plugin host has ended before %s was stopped", self.java_class)
        finally:
            connection.close()

    @override
    def abandon(self) -> None:
        """Gives up a start that hangs. The host counts its thread as hung."""
        self._run = self._instance = None
        if self._starting is not None:
            self._starting.close()

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        """The configurations from the connector in the host, without null values."""
        if self._connection is None:
            raise ConnectError(f"{self.java_class} is not running")
        configs = self._connection.ask("taskConfigs", maxTasks=max_tasks)["configs"]
        if not isinstance(configs, list):
            raise ConfigError(f"{self.java_class}.taskConfigs() must return a list")
        return [{key: str(value) for key, value in (config or {}).items() if value is not None} for config in configs]

    def _offsets(self) -> list[tuple[str, str]]:
        return as_texts(self.context.offsets())

    def _take(self, run: object, instance: object, event: Event) -> None:
        """Handles an event. Called by the reading thread."""
        if self._run is not run:
            return
        if isinstance(event, HostGoneError):
            if self._lost(instance):
                self._in_background(self._again, run)
        elif isinstance(event, Mapping) and event.get("op") == "retire":
            if self._lost(instance):  # do not wait for a connector that is just starting or stopping
                self._in_background(self._move, run)
        elif isinstance(event, Mapping) and event.get("op") == "metrics":
            self.context.metrics.replace(figures(event["values"]))
        elif isinstance(event, Mapping) and event.get("op") == "reconfigure":
            self.context.request_task_reconfiguration()
        elif isinstance(event, Mapping) and event.get("op") == "failed":
            self._run = self._instance = None  # do not start it again if the host then ends
            self.context.raise_error(thrown(event))

    def _in_background(self, work: Callable[[object], None], run: object) -> None:
        threading.Thread(target=work, args=(run,), name=f"again-{self.config.get('name')}", daemon=True).start()

    def _move(self, run: object) -> None:
        """The host is being replaced: stops the connector there cleanly, and continues in the next host."""
        _logger.info("%s continues in another Java plugin host", self.config.get("name"))
        try:
            self._leave()
        except JavaPluginError as error:
            _logger.warning("Could not stop %s cleanly: %s", self.config.get("name"), error)
        self._again(run)

    def _again(self, run: object) -> None:
        """Starts again in the next host, because the host has ended or the connector has left it."""
        if self._run is not run:
            return
        try:
            self._begin_retrying(run)
        except Exception as error:  # noqa: BLE001 - any error of the plugin fails the connector
            if self._run is run:
                self.context.raise_error(error)


class JavaSourceConnector(_JavaConnector, SourceConnector):
    """Base of the classes that represent source connectors."""

    nested_offsets = False

    @classmethod
    @override
    def exactly_once_support(cls, config: Options) -> bool | None:
        """Calls its `exactlyOnceSupport`."""
        support = cls.host.ask("exactlyOnce", **cls.named(), config=dict(config))["support"]
        return {"SUPPORTED": True, "UNSUPPORTED": False}.get(support)

    @classmethod
    @override
    def can_define_transaction_boundaries(cls, config: Options) -> bool:
        """Calls its `canDefineTransactionBoundaries`."""
        support = cls.host.ask("boundaries", **cls.named(), config=dict(config))["support"]
        return bool(support == "SUPPORTED")

    @classmethod
    @override
    def alter_offsets(cls, config: Options, offsets: AlteredOffsets) -> bool:
        """Calls its `alterOffsets`."""
        response = cls.host.ask("alterOffsets", **cls.named(), config=dict(config), pairs=as_texts(offsets))
        return bool(response["altered"])

    @classmethod
    def make_runner(
        cls, context: TaskContext, settings: SourceSettings, cut: Cut | None, delivery: Delivery | None
    ) -> TaskRunner:
        """The runner of one of its tasks. `cut`: where heeler has a part of the chain."""
        from heeler.java_host.source_task import JavaSourceTask  # noqa: PLC0415 - numba and more, for tasks only

        return JavaSourceTask(context, settings, cls.host, cls.named(), delivery, cut)


class JavaSinkConnector(_JavaConnector, SinkConnector):
    """Base of the classes that represent sink connectors."""

    @classmethod
    @override
    def alter_offsets(cls, config: Options, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Calls its `alterOffsets`, which does not see the progress of replays in the dead letter queue."""
        queue = queue_of(config)
        places = [(topic, partition, offset) for (topic, partition), offset in offsets.items() if topic != queue]
        response = cls.host.ask("alterOffsets", **cls.named(), config=dict(config), places=places)
        return bool(response["altered"])

    @classmethod
    def make_runner(
        cls, context: TaskContext, settings: SinkSettings, cut: Cut | None, watchers: EndWatchers, io: GroupIo
    ) -> TaskRunner:
        """The runner of one of its tasks. `cut`: where heeler has a part of the chain."""
        from heeler.java_host.sink_task import JavaSinkTask  # noqa: PLC0415 - numba and more, for tasks only

        return JavaSinkTask(context, settings, cls.host, cls.named(), watchers, io, cut)


_BASES: Final[Mapping[str, type[Any]]] = {
    "source": JavaSourceConnector, "sink": JavaSinkConnector, "configprovider": JavaConfigProvider,
}


def class_of(plugin: JavaPlugin, host: JavaHost) -> type[Any]:
    """Creates the class that represents a plugin in the registry."""
    simple = plugin.name.rpartition(".")[2]
    base = _BASES.get(plugin.type, JavaPlugins)
    return type(simple, (base,), {
        "host": host, "java_class": plugin.name, "version": plugin.version, "config_def": _Definition(),
        "__doc__": f"{plugin.name} in {plugin.location}.", "__module__": __name__,
    })


def _key(key: Mapping[str, Any]) -> ConfigKey:
    return ConfigKey(
        key["name"], Type[key["type"]], default=REQUIRED if key["required"] else key["default"],
        importance=Importance[key["importance"]], doc=key["doc"] or "", group=key["group"], order=key["order"],
        width=Width[key["width"]], display_name=key["display"], dependents=tuple(key["dependents"] or ()),
    )
