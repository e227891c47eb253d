"""Creates the runners of tasks: the entry point of this package for a worker."""

from __future__ import annotations

from spark_tasks.engines import AnyEngine
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.end_watchers import EndWatchers
from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.pipeline.java_chain import JavaFirstPipeline, JavaLastPipeline, JavaPart
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.plugins import Plugins
from spark_tasks.plugins.api import SinkConnector, SourceConnector
from spark_tasks.plugins.chain_cut import Cut, cut_of, far_plugin, with_converters
from spark_tasks.sinks.java_chain_task import JavaChainSinkTask
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.shared_batches import SharedBatches
from spark_tasks.sinks.task import SinkTask
from spark_tasks.sources.delivery import Delivery
from spark_tasks.sources.java_chain_task import JavaChainSourceTask
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.sources.task import SourceTask
from spark_tasks.sources.transactional import delivery_of
from spark_tasks.spark.plugin_sessions import SharedSpark
from spark_tasks.task import TaskContext, TaskRunner
from spark_tasks.tasks.leases import Lease
from spark_tasks.tasks.pace import IdleTasks


class Runners:
    """Creates the runners of a worker's tasks, and owns what they share. A worker has one."""

    def __init__(self, plugins: Plugins, engine: AnyEngine) -> None:
        """Starts nothing, but plugins that ask PySpark for a session get the engine's from now on."""
        self.engine = engine
        self._shared_spark = SharedSpark(self.engine.await_spark)
        self._plugins = plugins
        self._watchers = EndWatchers()
        self._io = GroupIo()
        self._shared_batches = SharedBatches(self.engine)
        self._idle = IdleTasks()

    def make(self, context: TaskContext) -> TaskRunner:
        """Returns the runner of a task, not started. Raises ConfigError, PluginNotFoundError."""
        name = context.connector.get("connector.class", "")
        connector = self._plugins.connector_of(context.connector).cls
        make = getattr(connector, "make_runner", None)  # only the classes of Java connectors have it
        runner: TaskRunner
        if issubclass(connector, SinkConnector):
            sink = SinkSettings.of(context)
            if make is not None:
                runner = make(context, sink, self._cut(context, is_sink=True, java=True), self._watchers, self._io)
            else:
                runner = self._sink(context, sink, connector)
        elif issubclass(connector, SourceConnector):
            settings = SourceSettings.of(context)
            delivery = delivery_of(context, settings)
            if make is not None:
                runner = make(context, settings, self._cut(context, is_sink=False, java=True), delivery)
            else:
                runner = self._source(context, settings, connector, delivery)
        else:
            raise ConfigError(
                f"Invalid value {name} for configuration connector.class: it is neither a source nor a sink")
        return runner

    def _sink(self, context: TaskContext, settings: SinkSettings, connector: type[SinkConnector]) -> TaskRunner:
        worker, config = context.worker.converters, context.connector
        cut = self._cut(context, is_sink=True, java=False)
        if cut is None or not cut.divides:
            own = config if cut is None else cut.for_near(config)
            pipeline = SinkPipeline(worker, own)
            return SinkTask(context, settings, connector, pipeline, self._watchers, self._io, self._shared_batches)
        part, lease = self._java_part("sink", context, cut)
        first = JavaFirstPipeline(worker, config, cut, part)
        return JavaChainSinkTask(context, settings, connector, first, self._watchers, self._io, lease)

    def _source(
        self, context: TaskContext, settings: SourceSettings, connector: type[SourceConnector],
        delivery: Delivery | None,
    ) -> TaskRunner:
        worker, config, rows = context.worker.converters, context.connector, connector.yields == "rows"
        cut = self._cut(context, is_sink=False, java=False)
        if cut is None or not cut.divides:
            own = config if cut is None else cut.for_near(config)
            pipeline = SourcePipeline(worker, own, rows=rows)
            return SourceTask(context, settings, connector, pipeline, delivery, self._idle)
        part, lease = self._java_part("source", context, cut)
        last = JavaLastPipeline(worker, config, cut, part, rows=rows)
        return JavaChainSourceTask(context, settings, connector, last, lease, delivery, self._idle)

    def _java_part(self, kind: str, context: TaskContext, cut: Cut) -> tuple[JavaPart, Lease]:
        worker, config = context.worker.converters, context.connector
        plugin = far_plugin(self._plugins, config, worker)
        if plugin is None:
            raise ConfigError("transforms: there is no Java plugin in the chain")
        lease = plugin.cls.lease_for(context)
        complete = with_converters({"name": context.connector_name, **config}, worker)
        return JavaPart(kind, context.connector_name, context.task, lease.token, complete, cut), lease

    def _cut(self, context: TaskContext, *, is_sink: bool, java: bool) -> Cut | None:
        cut, refusals = cut_of(self._plugins, context.connector, context.worker.converters, is_sink=is_sink, java=java)
        for refusal in refusals:
            raise ConfigError(f"{refusal.key}: {refusal.message}")
        return cut

    def close(self) -> None:
        """Stops Spark and closes the connections. All tasks must have ended."""
        self._shared_spark.close()
        self._shared_batches.close()
        self.engine.close()
        self._watchers.close()
        self._io.close()
