"""A source task in Python of whose chain the host of Java plugins has the last part."""

from __future__ import annotations

import pickle
from dataclasses import replace

from typing_extensions import override

from spark_tasks.pipeline.java_chain import JavaLastPipeline
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.sources.delivery import Delivery
from spark_tasks.sources.settings import SourceSettings
from spark_tasks.sources.task import SourceTask
from spark_tasks.task import TaskContext
from spark_tasks.tasks.leases import Lease


class LeasingSourceTask(SourceTask):
    """Its splits know where the host is; when that moves, those that come next."""

    def __init__(
        self, context: TaskContext, settings: SourceSettings, connector: type[SourceConnector],
        pipeline: JavaLastPipeline, lease: Lease, delivery: Delivery | None = None,
    ) -> None:
        super().__init__(context, settings, connector, pipeline, delivery)
        self._chain = pipeline
        self._lease = lease

    @override
    def _submit(self) -> bool:
        folder = self._lease.folder()
        if folder != self._chain.java.folder:
            self._chain.java.folder = folder
            self._job = pickle.dumps(replace(pickle.loads(self._job), pipeline=self._chain))
        return super()._submit()

    @override
    def close(self) -> None:
        try:
            super().close()
        finally:
            self._lease.close()
