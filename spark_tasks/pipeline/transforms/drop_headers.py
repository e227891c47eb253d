"""DropHeaders."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type, ValidList
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.headers import without


class DropHeaders(Transform):
    """Removes headers by name."""

    version = "4.3.1"
    config_def = ConfigDef(
        ConfigKey("headers", Type.LIST, importance=Importance.HIGH, validator=ValidList(empty=False),
                  doc="The names of the headers."),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        self._names = frozenset(self.config_def.parse(configs)["headers"])

    @override
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return without(batch, self._names)
