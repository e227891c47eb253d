"""TimestampRouter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.data.columns import milliseconds
from spark_tasks.errors import ConfigError
from spark_tasks.java.simple_date_format import format_millis, pieces
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.columns_or_rows import put
from spark_tasks.pipeline.transforms.topics import topics_of

_DAY = 86_400_000


class TimestampRouter(Transform):
    """Adds the timestamp of each record to the name of its topic."""

    version = "4.3.1"
    config_def = ConfigDef(
        ConfigKey("topic.format", Type.STRING, default="${topic}-${timestamp}", importance=Importance.HIGH,
                  doc="The new name: ${topic} is the old name, ${timestamp} the record's timestamp."),
        ConfigKey("timestamp.format", Type.STRING, default="yyyyMMdd", importance=Importance.HIGH,
                  doc="The pattern of the timestamp, as for Java's SimpleDateFormat."),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._topic, self._pattern = values["topic.format"], values["timestamp.format"]
        try:
            letters = {letter for letter, count in pieces(self._pattern) if count}
        except ValueError as error:
            raise ConfigError(f"timestamp.format: {error}") from error
        # timestamps are rounded to the smallest unit in the pattern, and each distinct one is formatted once
        units = ((1, "S"), (1000, "s"), (60_000, "m"), (3_600_000, "hHkKa"), (_DAY, ""))
        self._unit = next(unit for unit, finest in units if unit == _DAY or letters & set(finest))

    @override
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not len(batch):
            return batch
        missing = self._missing(batch)
        if missing is not None:
            raise BadRowError(missing, "Timestamp missing on record")
        topics = topics_of(batch)
        millis = milliseconds(batch.column("timestamp")).to_numpy(zero_copy_only=False)
        times = np.floor_divide(millis, self._unit)
        distinct, which = np.unique(times, return_inverse=True)
        pair = which.astype(np.int64) * len(topics.dictionary) + topics.indices.to_numpy(zero_copy_only=False)
        pairs, index = np.unique(pair, return_inverse=True)
        old = topics.dictionary.to_pylist()
        names = [
            self._name(old[p % len(old)], int(distinct[p // len(old)]) * self._unit) for p in pairs.tolist()
        ]
        again = {name: number for number, name in enumerate(dict.fromkeys(names))}
        places = np.array([again[name] for name in names], np.int32)[index]
        return put(batch, "topic", pa.DictionaryArray.from_arrays(pa.array(places), pa.array(list(again), pa.string())))

    @staticmethod
    def _missing(batch: pa.RecordBatch) -> int | None:
        if "timestamp" not in batch.schema.names:
            return 0
        known = batch.column("timestamp").is_valid()
        return None if known.false_count == 0 else int(pc.index(known, False).as_py())

    def _name(self, topic: str, millis: int) -> str:
        name = str(self._topic).replace("${topic}", topic)
        return name.replace("${timestamp}", format_millis(self._pattern, millis))
