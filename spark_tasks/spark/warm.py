"""Runs a few records through the codec, the converters and the file connectors without Kafka. This loads numba's
machine code before Spark's Python daemon forks, so that forked workers have it and share its memory.

`heeler warm` creates the files that make later starts fast: numba's compiled kernels and the class archive of Spark's
JVM. `make` runs it; the build of a container image should run it, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.connectors.lines import split_lines, to_lines
from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA
from spark_tasks.kafka.records.decode import decode
from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.partitioner import Partitioner, rows_by_partition
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.spark.archive import record

_logger = logging.getLogger(__name__)

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TEXTS = [json.dumps({"id": i, "name": "n", "amount": i / 4, "flag": i > 1, "none": None}) for i in range(3)]
# Less common records: escapes, arrays, nested objects, numbers and times in texts, maps with a schema, several schemas,
# headers.
_RARE = [json.dumps({"text": 'a"\\\n\u00e9\U0001f600', "list": [i, 2], "object": {"deep": {"x": i}}, "number": "1.5",
                     "time": "2026-01-02 03:04:05"}) for i in range(3)]  # fmt: skip
_LIST: dict[str, Any] = {"type": "array", "items": {"type": "int32"}}
_MAP: dict[str, Any] = {"type": "map", "keys": {"type": "string"}, "values": _LIST}
_TYPED = [json.dumps({"schema": _MAP, "payload": {f"k{n}": [n, i] for n in range(i + 2)}}) for i in range(3)]
_KINDS = ("float", "double", "float")
_MIXED = [json.dumps({"schema": {"type": kind}, "payload": n / 8}) for n, kind in enumerate(_KINDS)]
_HEADERS = [("h", b"v"), ("n", None)]
_HEADER = {"transforms": "h", "transforms.h.type": "InsertHeader", "transforms.h.header": "h",
           "transforms.h.value.literal": "x"}  # fmt: skip
_TRANSFORMS = "org.apache.kafka.connect.transforms."
_CONVERSIONS = {
    **_HEADER, "transforms": "h,n,t",
    "transforms.n.type": f"{_TRANSFORMS}Cast$Value", "transforms.n.spec": "number:float64",
    "transforms.t.type": f"{_TRANSFORMS}TimestampConverter$Value", "transforms.t.field": "time",
    "transforms.t.format": "yyyy-MM-dd HH:mm:ss", "transforms.t.target.type": "Timestamp",
}  # fmt: skip


def warm_up() -> None:
    """Loads the kernels that most records need. Only logs errors: the split that needs the kernel will fail."""
    for converter in (_STRING, _JSON):
        try:
            _round_trip(_converters(converter), _TEXTS)
        except Exception as error:  # noqa: BLE001 - without it, the first split only takes longer
            _logger.warning("Warming up %s failed: %s", converter, error)


def prepare() -> None:
    """Compiles all kernels and records the class archive, for `heeler warm`. Takes up to a minute."""
    warm_up()
    compile_all()
    record()


def compile_all() -> None:
    """Compiles and caches the kernels that `warm_up` omits to keep the start of daemons fast. Only logs errors."""
    for texts, schemas, transforms in ((_RARE, False, _CONVERSIONS), (_TYPED, True, _HEADER), (_MIXED, True, _HEADER)):
        try:
            _round_trip(_converters(_JSON, schemas=schemas), texts, _HEADERS, transforms)
        except Exception as error:  # noqa: BLE001 - as above
            _logger.warning("Compiling the rest of the data plane failed: %s", error)
    try:
        _read_protobuf()
    except Exception as error:  # noqa: BLE001 - as above
        _logger.warning("Compiling Protobuf's kernel failed: %s", error)


def _read_protobuf() -> None:
    if find_spec("ptars") is None:  # an optional package
        return
    from spark_tasks.pipeline.converters.protobuf.tree import Message  # noqa: PLC0415
    from spark_tasks.pipeline.converters.protobuf.wire_faults import WireFaults  # noqa: PLC0415

    WireFaults(Message("M", "M", ())).rows(pa.array([b"\x08\x01"], pa.binary()))


def _converters(value: str, *, schemas: bool = False) -> dict[str, str]:
    enable = "true" if schemas else "false"
    return {"key.converter": _STRING, "value.converter": value, "value.converter.schemas.enable": enable}


def _round_trip(
    converters: Mapping[str, str], texts: Sequence[str], headers: list[tuple[str, bytes | None]] | None = None,
    transforms: Mapping[str, str] = MappingProxyType({}),
) -> None:
    values = [text.encode() for text in texts]
    raw = pa.RecordBatch.from_arrays(
        [pa.array([0, 1, 2]), pa.array([5, 6, 7]), pa.array([b"k", None, b""], pa.binary()),
         pa.array(values, pa.binary()), pa.array([headers] * 3, HEADERS_TYPE)],
        schema=RAW_SCHEMA,
    )  # fmt: skip
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
