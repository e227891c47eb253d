"""Records at the cut of a chain (plugins/chain_cut.py), where they pass between heeler and the Java plugin host. Keys
and values that heeler converts are JSON, as Kafka's JsonConverter writes it, with separate schemas; all others are the
bytes in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA

CUT: Final = "cut."  # prefix of the columns with a record as it passes the cut
CUT_SCHEMA: Final = pa.schema([  # of a sink: a record as it was read, and as it passes the cut
    *RAW_SCHEMA,
    pa.field(f"{CUT}topic", pa.dictionary(pa.int32(), pa.string())),
    pa.field(f"{CUT}partition", pa.int32()),
    pa.field(f"{CUT}timestamp", pa.int64()),
    pa.field(f"{CUT}key", pa.binary()),
    pa.field(f"{CUT}value", pa.binary()),
    pa.field(f"{CUT}headers", HEADERS_TYPE),
])


def described(converted: frozenset[str], schemas: dict[str, str | None]) -> dict[bytes, bytes]:
    """Returns the metadata of a CUT_SCHEMA batch. `converted`: which of "key" and "value" are JSON; `schemas`: their
    schemas as JSON.
    """
    metadata = {f"{CUT}{part}".encode(): text.encode() for part, text in schemas.items() if text is not None}
    return metadata | {b"cut.converted": ",".join(sorted(converted)).encode()}


def schema_text(batch: pa.RecordBatch, part: str) -> str | None:
    """Returns the schema of the batch's keys or values as JSON, or None. `part`: "key" or "value"."""
    text = (batch.schema.metadata or {}).get(f"{CUT}{part}".encode())
    return None if text is None else text.decode()


def is_converted(batch: pa.RecordBatch, part: str) -> bool:
    """Returns whether the batch's keys or values are JSON. `part`: "key" or "value"."""
    return part in (batch.schema.metadata or {}).get(b"cut.converted", b"").decode().split(",")


@dataclass(frozen=True, slots=True)
class CutRecords:
    """Records that the host passes to heeler at the cut. For each record, `topic` (int32) is an index into `topics`,
    `partition` is -1 if the partitioner chooses, `key_schema` and `value_schema` (int32) are indexes into `schemas`, -1
    for none. `raw`: RAW_SCHEMA.
    """

    topics: tuple[str, ...]
    topic: np.ndarray[Any, Any]
    partition: np.ndarray[Any, Any]
    raw: pa.RecordBatch
    key_schema: np.ndarray[Any, Any]
    value_schema: np.ndarray[Any, Any]
    schemas: tuple[str, ...]
