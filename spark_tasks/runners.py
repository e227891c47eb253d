"""The door to this package: everything a worker needs to run tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_tasks.errors import ConfigError
from spark_tasks.kafka.membership import GroupIo
from spark_tasks.kafka.watcher import EndWatchers
from spark_tasks.pipeline.stages import SinkPipeline, SourcePipeline
from spark_tasks.plugins import Plugins
from spark_tasks.plugins.api import SinkConnector, SourceConnector
from spark_tasks.sinks.task import SinkTask
from spark_tasks.sources.delivery import Delivery
from spark_tasks.sources.task import SourceTask
from spark_tasks.sources.transactional import delivery_of
from spark_tasks.spark.engines import AnyEngine, engine_of
from spark_tasks.task import TaskContext, TaskRunner

MakeDelivery = Callable[[TaskContext], Delivery | None]


class Runners:
    """One for a worker: the engine, what sink tasks share, and making runners.

    `make_delivery`: what a source task's guarantee is; by default exactly once where the context has a guard.
    """

    def __init__(
        self, worker: Mapping[str, str], plugins: Plugins, *, engine: AnyEngine | None = None,
        make_delivery: MakeDelivery | None = None,
    ) -> None:
        """Starts nothing. `worker`: the worker's properties. `engine`: one that has been made already."""
        self.engine = engine or engine_of(worker)
        self._plugins = plugins
        self._watchers = EndWatchers()
        self._io = GroupIo()
        self._make_delivery = make_delivery or delivery_of

    def make(self, context: TaskContext) -> TaskRunner:
        """The runner of a task, not started. Raises ConfigError, PluginNotFoundError."""
        name = context.connector.get("connector.class", "")
        connector = self._plugins.connector_of(context.connector).cls
        if (make := getattr(connector, "make_runner", None)) is not None:  # of another runtime
            sink = issubclass(connector, SinkConnector)
            shared = (self._watchers, self._io) if sink else (self._make_delivery(context),)
            runner: TaskRunner = make(context, *shared)
            return runner
        if issubclass(connector, SinkConnector):
            pipeline = SinkPipeline(context.worker, context.connector)
            return SinkTask(context, connector, pipeline, self._watchers, self._io)
        if issubclass(connector, SourceConnector):
            rows = connector.yields == "rows"
            source = SourcePipeline(context.worker, context.connector, rows=rows)
            return SourceTask(context, connector, source, self._make_delivery(context))
        raise ConfigError(f"Invalid value {name} for configuration connector.class: it is neither a source nor a sink")

    def close(self) -> None:
        """Stop Spark and close the connections; the tasks must be gone."""
        self.engine.close()
        self._watchers.close()
        self._io.close()
