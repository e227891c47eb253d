"""InsertHeader."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonNull, Type
from spark_tasks.pipeline.converters.values import parse_string
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.headers import with_headers


class InsertHeader(Transform):
    """Adds a header with a fixed value. Infers its type from its text."""

    version = "4.3.1"
    config_def = ConfigDef(
        ConfigKey("header", Type.STRING, importance=Importance.HIGH, validator=NonNull(), doc="The header's name."),
        ConfigKey("value.literal", Type.STRING, importance=Importance.HIGH, validator=NonNull(),
                  doc="The header's value as text: 5 is a number, true a boolean, [1,2] a list."),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._name, self._value = values["header"], parse_string(values["value.literal"])

    @override
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        written = self.header_writer.write("", self._name, *self._value)
        same = pa.array([written], pa.binary()).take(pa.array(np.zeros(len(batch), np.int32)))
        return with_headers(batch, [(self._name, same)])
