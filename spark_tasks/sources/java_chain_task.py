"""A Python source task whose chain ends in the Java plugin host."""

from __future__ import annotations

from contextlib import closing

from typing_extensions import override

from spark_tasks.pipeline.java_chain import JavaLastPipeline
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.sources.delivery import Delivery
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.sources.task import SourceTask
from spark_tasks.task import TaskContext
from spark_tasks.tasks.leases import Lease, LeasedChain
from spark_tasks.tasks.pace import IdleTasks


class JavaChainSourceTask(SourceTask):
    """A SourceTask whose splits connect to the current host."""

    def __init__(
        self, context: TaskContext, settings: SourceSettings, connector: type[SourceConnector],
        pipeline: JavaLastPipeline, lease: Lease, delivery: Delivery | None, idle: IdleTasks,
    ) -> None:
        super().__init__(context, settings, connector, pipeline, delivery, idle)
        self._chain = LeasedChain(pipeline, lease)

    @override
    def _current_job(self) -> bytes:
        self._job = self._chain.follow(self._job)
        return self._job

    @override
    def close(self) -> None:
        with closing(self._chain):
            super().close()
