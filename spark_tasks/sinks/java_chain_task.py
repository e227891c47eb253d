"""A sink task of a Python connector whose pipeline begins in the Java plugin host."""

from __future__ import annotations

from contextlib import closing

from typing_extensions import override

from spark_tasks.kafka.end_watchers import EndWatchers
from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.pipeline.java_chain import JavaFirstPipeline
from spark_tasks.plugins.api import SinkConnector
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.task import SinkTask
from spark_tasks.task import Progress, TaskContext
from spark_tasks.tasks.leases import Lease, LeasedChain


class JavaChainSinkTask(SinkTask):
    """A SinkTask whose splits contain the folder of the current host."""

    def __init__(
        self, context: TaskContext, settings: SinkSettings, connector: type[SinkConnector], pipeline: JavaFirstPipeline,
        watchers: EndWatchers, io: GroupIo, lease: Lease,
    ) -> None:
        super().__init__(context, settings, connector, pipeline, watchers, io)
        self._chain = LeasedChain(pipeline, lease)

    @override
    def _next_batch(self, pause: Progress | None) -> Progress:
        if pause is None:  # else a JVM that is away would delay the group's rebalance
            self._job = self._chain.follow(self._job)
        return super()._next_batch(pause)

    @override
    def close(self) -> None:
        with closing(self._chain):
            super().close()
