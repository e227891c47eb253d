"""The data plane of a worker, and the runners of its tasks.

Importing the data plane (PySpark, numba) takes about a second, and starting Spark several: both happen in the
background, after REST is up. A task that is started earlier waits in its own thread. The engine is started first,
because its processes do the same imports in parallel.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.messages.commands import StartTask
from actors.messages.events import Remark
from actors.peers.start_guard import HerderGuard, Peers
from heeler.worker.config import WorkerConfig
from heeler.worker.part_settings import executor_settings
from spark_tasks.config.masking import hide_passwords
from spark_tasks.metrics.engine import EngineFigures
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.plugin_processes.call_limit import CallLimit
from spark_tasks.plugins import Plugins
from spark_tasks.plugins.connector_instance import ConnectorInstance, on_worker, third_party_methods
from spark_tasks.plugins.third_party import Calls
from spark_tasks.process.pandas_import import defer_pandas
from spark_tasks.spark.residents.fairness import subject_of
from spark_tasks.task import TaskContext, TaskRunner, WorkerSettings
from spark_tasks.tasks.configs import check_tasks_max
from storage.config.view import ConfigView
from storage.ids import ConnectorName, ConnectorTaskId, TopicName
from storage.offsets.stores import OffsetStores

if TYPE_CHECKING:
    from spark_tasks.engines import AnyEngine
    from spark_tasks.plugins.api import Connector, ConnectorContext
    from spark_tasks.runners import Runners

_logger = logging.getLogger(__name__)


class DataPlane:
    """`start_engine` and `start` return at once; `runners` waits until everything is ready."""

    def __init__(self, config: WorkerConfig, plugins: Plugins, tell_herder: Callable[[Remark], None]) -> None:
        self._config = config
        self._tell_herder = tell_herder
        self._plugins = plugins
        self._runners: Future[Runners] = Future()
        self._lock = threading.Lock()
        self._closed = False
        self._engine: Future[AnyEngine] = Future()
        self._call_limit = CallLimit()

    def start_engine(self) -> None:
        """Starts the processes that run splits, in the background."""
        threading.Thread(target=self._start_engine, name="engine", daemon=True).start()

    def _start_engine(self) -> None:
        try:
            from spark_tasks.engines import engine_of  # noqa: PLC0415 - see the module

            engine = engine_of(self._config.originals, executor_settings(self._config), self._hangs)
            with self._lock:
                if not self._closed:
                    engine.start()
                self._engine.set_result(engine)  # before `close` can look for it
        except Exception as error:  # noqa: BLE001 - reported where it is needed
            self._engine.set_exception(error)

    def _hangs(self, task: str, where: str) -> None:
        about = subject_of(task)
        item = ConnectorName(about) if isinstance(about, str) else ConnectorTaskId(ConnectorName(about[0]), about[1])
        self._tell_herder(Remark(item, where, "executors"))

    def start(self) -> None:
        """Imports the data plane, in the background."""
        threading.Thread(target=self._start, name="data-plane", daemon=True).start()

    def _start(self) -> None:
        try:
            defer_pandas()
            from spark_tasks.runners import Runners  # noqa: PLC0415 - see the module

            runners = Runners(self._plugins, self._engine.result())
        except Exception as error:
            # If this installation of Spark does not work, each task that is started reports it in its status.
            _logger.exception("The data plane could not be started")
            self._runners.set_exception(error)
            return
        with self._lock:
            if not self._closed:
                self._runners.set_result(runners)

    def calls(self, connector: str) -> Calls:
        """What calls functions of third parties' plugins for a connector."""
        from spark_tasks.plugin_processes.plugin_calls import PluginCalls  # noqa: PLC0415 - see the module

        return PluginCalls(self._engine_if_started, self._call_limit, connector)

    def _engine_if_started(self) -> AnyEngine | None:
        """Waits for the engine; None if it cannot be started, which then is the error of all tasks."""
        return None if self._engine.exception() is not None else self._engine.result()

    def connector(self, connector: type[Connector], config: Mapping[str, str], context: ConnectorContext,
                  lost: Callable[[], None]) -> ConnectorInstance:
        """The MakeInstance of the worker: third parties' connectors have a process of their own."""
        if not third_party_methods(connector) or (engine := self._engine_if_started()) is None:
            return on_worker(connector, config, context, lost)
        from spark_tasks.plugin_processes.connector_process import ConnectorProcess  # noqa: PLC0415 - see the module

        return ConnectorProcess(engine, config["name"], connector, config, context, lost)

    def runners(self) -> Runners:
        """Waits for the runners; raises the error of the start."""
        return self._runners.result()

    def degraded(self) -> Sequence[str]:
        """Tasks with problems (see SparkEngine); empty before the engine has started."""
        ready = self._runners.done() and self._runners.exception() is None
        return self._runners.result().engine.degraded() if ready else ()

    def where(self, batch: Future[list[Any]]) -> str | None:
        """The stack traces of a batch's splits; None if none of them runs. Takes seconds."""
        ready = self._runners.done() and self._runners.exception() is None
        return self._runners.result().engine.where(batch) if ready else None

    def release(self, connector: ConnectorName) -> None:
        """The last task of a connector has ended or was given up. Does not block."""
        if self._engine.done() and self._engine.exception() is None:
            self._engine.result().release(connector)

    def figures(self) -> EngineFigures:
        """The figures of the engine; zeros before it has started."""
        ready = self._runners.done() and self._runners.exception() is None
        return self._runners.result().engine.figures() if ready else EngineFigures()

    def close(self) -> None:
        """Stops Spark, once all tasks have ended. It is not started again."""
        with self._lock:
            self._closed = True
        if self._runners.done() and self._runners.exception() is None:
            self._runners.result().close()
        elif self._engine.done() and self._engine.exception() is None:
            self._engine.result().close()


@dataclass(frozen=True, slots=True)
class TaskRunners:
    """Creates runners, in the task actor's thread; an exception makes the task FAILED."""

    config: WorkerConfig
    settings: WorkerSettings
    plugins: Plugins
    data_plane: DataPlane
    offsets: OffsetStores
    configs: ConfigView
    resolve: Callable[[Mapping[str, Any], ConnectorName], Mapping[str, str]]
    topic_used: Callable[[ConnectorTaskId, TopicName], None]
    peers: Peers
    metrics: Callable[[ConnectorTaskId], TaskMetrics]

    def make(self, command: StartTask, wake: Callable[[], None]) -> TaskRunner:
        """Creates a task's runner without starting it. `wake` may be called on any thread when there is work.

        Raises ConfigError, TooManyTasksError, PluginNotFoundError.
        """
        task = command.task
        metrics = self.metrics(task)
        connector = self.resolve(command.connector_config, task.connector)
        check_tasks_max(task.connector, self.configs.config.task_count(task.connector), connector)
        plugin = self.plugins.connector_of(connector)
        hide_passwords(task.connector, connector, plugin.cls)
        runners = self.data_plane.runners()
        source = plugin.type == "source"
        guard = HerderGuard(self.peers, task, command.config_generation)
        offsets = self.offsets.of(task.connector, self.config.own_offsets(connector)) if source else None
        try:
            return runners.make(TaskContext(
                connector_name=task.connector, task=task.task, worker=self.settings, connector=connector,
                config=self.resolve(command.task_config, task.connector), engine=runners.engine, offsets=offsets,
                wake=wake, topic_used=lambda topic: self.topic_used(task, TopicName(topic)),
                guard=guard if source and self.config.exactly_once else None, metrics=metrics,
            ))
        except Exception:
            if offsets is not None:
                offsets.close_soon()
            raise
