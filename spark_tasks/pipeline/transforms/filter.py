"""Filter."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from typing_extensions import override

from spark_tasks.pipeline.transforms.base import Transform


class Filter(Transform):
    """Drops every record that it is applied to, that is, every record that its predicate chooses."""

    version = "4.3.1"

    def configure(self, configs: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    @override
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, 0)
