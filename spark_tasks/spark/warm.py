"""Runs a few records through the codec, the converters and the file connectors without Kafka. This loads numba's
machine code before Spark's Python daemon forks, so that forked workers have it and share its memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from spark_tasks.connectors.lines import split_lines, to_lines
from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA
from spark_tasks.kafka.records.decode import decode
from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.partitioner import Partitioner, rows_by_partition
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline

_logger = logging.getLogger(__name__)

_STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_TEXTS = [json.dumps({"id": i, "name": "n", "amount": i / 4, "flag": i > 1, "none": None}) for i in range(3)]

Headers = list[tuple[str, bytes | None]]


def warm_up() -> None:
    """Loads the kernels that most records need. Only logs errors: the split that needs the kernel will fail."""
    for converter in (_STRING, JSON):
        try:
            round_trip(converter, _TEXTS)
        except Exception as error:  # noqa: BLE001 - without it, the first split only takes longer
            _logger.warning("Warming up %s failed: %s", converter, error)


def round_trip(
    converter: str, texts: Sequence[str], *, schemas: bool = False, headers: Headers | None = None,
    transforms: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Encodes three records with these values, decodes, converts and transforms them, and back."""
    enable = "true" if schemas else "false"
    converters = {
        "key.converter": _STRING, "value.converter": converter, "value.converter.schemas.enable": enable,
    }  # fmt: skip
    raw = three_records([text.encode() for text in texts], headers)
    partitioner = Partitioner(2)
    placed = rows_by_partition(partitioner.assign(raw, None))
    for _, rows in placed:
        for batch in encode(raw, rows=rows, no_timestamp=0, producer_id=1, epoch=0, base_sequence=0):
            decode(bytes(batch.data), start=0)
    for connect in SinkPipeline(converters, transforms).to_connect_batches("t", 0, raw):
        to_lines(connect.column("value"), connect.schema.field("value").metadata)
        for _ in SourcePipeline(converters, {}).to_raw(connect):
            pass
    for text in (b"a\nb\n", b"a\r\nb\n"):
        split_lines(np.frombuffer(text, np.uint8), final=True)


def three_records(values: Sequence[bytes], headers: Headers | None = None) -> pa.RecordBatch:
    """Returns three records as they are in Kafka, each with the same headers."""
    return pa.RecordBatch.from_arrays(
        [pa.array([0, 1, 2]), pa.array([5, 6, 7]), pa.array([b"k", None, b""], pa.binary()),
         pa.array(values, pa.binary()), pa.array([headers] * 3, HEADERS_TYPE)],
        schema=RAW_SCHEMA,
    )  # fmt: skip
