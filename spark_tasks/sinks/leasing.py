"""A sink task in Python of whose chain the host of Java plugins has the first part."""

from __future__ import annotations

import pickle
from dataclasses import replace

from typing_extensions import override

from spark_tasks.kafka.group_io import GroupIo
from spark_tasks.kafka.watcher import EndWatchers
from spark_tasks.pipeline.java_chain import JavaFirstPipeline
from spark_tasks.plugins.api import SinkConnector
from spark_tasks.sinks.settings import SinkSettings
from spark_tasks.sinks.task import SinkTask
from spark_tasks.task import Progress, TaskContext
from spark_tasks.tasks.leases import Lease


class LeasingSinkTask(SinkTask):
    """Its splits know where the host is; when that moves, those that come next."""

    def __init__(
        self, context: TaskContext, settings: SinkSettings, connector: type[SinkConnector], pipeline: JavaFirstPipeline,
        watchers: EndWatchers, io: GroupIo, lease: Lease,
    ) -> None:
        super().__init__(context, settings, connector, pipeline, watchers, io)
        self._chain = pipeline
        self._lease = lease

    @override
    def _next_batch(self) -> Progress:
        folder = self._lease.folder()
        if folder != self._chain.java.folder:
            self._chain.java.folder = folder
            self._job = pickle.dumps(replace(pickle.loads(self._job), pipeline=self._chain))
        return super()._next_batch()

    @override
    def close(self) -> None:
        try:
            super().close()
        finally:
            self._lease.close()
