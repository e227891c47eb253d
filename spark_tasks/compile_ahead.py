"""Creates the files that make later starts fast, for `heeler warm`: numba's compiled kernels and the class archive of
Spark's JVM. `make` runs it; the build of a container image should run it, too.
"""

from __future__ import annotations

import json
import logging
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import frozen
from spark_tasks.connectors.files import csv_rows
from spark_tasks.connectors.files.settings import FilesSettings
from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.scan import batch_table
from spark_tasks.kafka.records.unpack import windows
from spark_tasks.registry.wire import framed, unframed
from spark_tasks.sinks.row_guesser import RowGuesser
from spark_tasks.spark.archive import record
from spark_tasks.spark.warm import JSON, Headers, round_trip, three_records, warm_up

_logger = logging.getLogger(__name__)

# Less common records: escapes, arrays, nested objects, numbers and times in texts, maps with a schema, several schemas,
# headers.
_RARE = [json.dumps({"text": 'a"\\\n\u00e9\U0001f600', "list": [i, 2], "object": {"deep": {"x": i}}, "number": "1.5",
                     "time": "2026-01-02 03:04:05"}) for i in range(3)]  # fmt: skip
_LIST: dict[str, Any] = {"type": "array", "items": {"type": "int32"}}
_MAP: dict[str, Any] = {"type": "map", "keys": {"type": "string"}, "values": _LIST}
_TYPED = [json.dumps({"schema": _MAP, "payload": {f"k{n}": [n, i] for n in range(i + 2)}}) for i in range(3)]
_STRUCT: dict[str, Any] = {"type": "struct", "fields": [
    {"field": "id", "type": "int32"}, {"field": "name", "type": "string", "optional": True}]}  # fmt: skip
_STRUCTS = [json.dumps({"schema": _STRUCT, "payload": {"name": "n", "id": i}}) for i in range(3)]
_KINDS = ("float", "double", "float")
_MIXED = [json.dumps({"schema": {"type": kind}, "payload": n / 8}) for n, kind in enumerate(_KINDS)]
_HEADERS: Headers = [("h", b"v"), ("n", None)]
_HEADER = {"transforms": "h", "transforms.h.type": "InsertHeader", "transforms.h.header": "h",
           "transforms.h.value.literal": "x"}  # fmt: skip
_TRANSFORMS = "org.apache.kafka.connect.transforms."
_CONVERSIONS = {
    **_HEADER, "transforms": "h,n,t",
    "transforms.n.type": f"{_TRANSFORMS}Cast$Value", "transforms.n.spec": "number:float64",
    "transforms.t.type": f"{_TRANSFORMS}TimestampConverter$Value", "transforms.t.field": "time",
    "transforms.t.format": "yyyy-MM-dd HH:mm:ss", "transforms.t.target.type": "Timestamp",
}  # fmt: skip


def prepare() -> None:
    """Compiles all kernels and records the class archive. Takes up to a minute."""
    warm_up()
    compile_rest()
    record()


def compile_rest() -> None:
    """Compiles and caches the kernels that `warm_up` omits to keep the start of daemons fast. Only logs errors."""
    for compile_some in (_compile_json, _compile_protobuf, _compile_compressed, _compile_framed, _compile_files,
                         _compile_guesses):
        try:
            compile_some()
        except Exception as error:  # noqa: BLE001 - without it, what needs the kernels only takes longer
            _logger.warning("Compiling a part of the data plane (%s) failed: %s", compile_some.__name__, error)


def _compile_json() -> None:
    """What converts and transforms less common records."""
    round_trip(JSON, _RARE, headers=_HEADERS, transforms=_CONVERSIONS)
    for texts in (_TYPED, _STRUCTS, _MIXED):
        round_trip(JSON, texts, schemas=True, headers=_HEADERS, transforms=_HEADER)


def _compile_protobuf() -> None:
    """What finds the bytes that Java's parser rejects."""
    if find_spec("ptars") is None:  # an optional package
        return
    from spark_tasks.pipeline.converters.protobuf.tree import Message  # noqa: PLC0415
    from spark_tasks.pipeline.converters.protobuf.wire_faults import WireFaults  # noqa: PLC0415

    WireFaults(Message("M", "M", ())).rows(pa.array([b"\x08\x01"], pa.binary()))


def _compile_compressed() -> None:
    """What counts the records of a compressed batch that is larger than a window."""
    [batch] = encode(three_records([b"0" * 1000] * 3), compression="gzip")
    data = bytes(batch.data)
    for _ in windows(memoryview(data), batch_table(frozen(np.frombuffer(data, np.uint8))), 0, 3, 4000, 2000):
        pass


def _compile_framed() -> None:
    """What reads the schema ids of a registry."""
    unframed(framed(1, pa.array([b"v", None], pa.binary())), None, is_key=False)


def _compile_files() -> None:
    """What finds the ends of CSV rows whose fields may have several lines."""
    settings = FilesSettings(path="", topic="", format=None, pattern="", recursive=False, columns=None, delimiter=",",
                             quote='"', header=True, nulls=(), multiline=True, wait_ms=0, parallel=1)  # fmt: skip
    rows = b'a,"b\n"\n'
    csv_rows.complete_rows(rows, settings)
    csv_rows.quoted_line_end(np.frombuffer(rows, np.uint8), settings)


def _compile_guesses() -> None:
    """What guesses bad records by the errors of a sink."""
    values = pa.array(["x1", "a", "x2"])
    guesser = RowGuesser([pa.RecordBatch.from_arrays([values], ["value"])])
    for bad in (0, 2):  # texts that look alike
        guesser.guess(ValueError(f"'{values[bad]}'"), 0, 3)
