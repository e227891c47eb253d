"""The columns of Connect's records where a Java connector's chain is cut (plugins/cut.py): keys and values that heeler
converts are JSON, as Kafka's JsonConverter writes it, with the schema apart; all others are the bytes of Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA

CUT: Final = "cut."  # what the names of the columns behind the cut begin with
CUT_SCHEMA: Final = pa.schema([  # of a sink: a record as it was read, and what has become of it
    *RAW_SCHEMA,
    pa.field(f"{CUT}topic", pa.dictionary(pa.int32(), pa.string())),
    pa.field(f"{CUT}partition", pa.int32()),
    pa.field(f"{CUT}timestamp", pa.int64()),
    pa.field(f"{CUT}key", pa.binary()),
    pa.field(f"{CUT}value", pa.binary()),
    pa.field(f"{CUT}headers", HEADERS_TYPE),
])


def described(converted: frozenset[str], schemas: dict[str, str | None]) -> dict[bytes, bytes]:
    """The metadata of a CUT_SCHEMA batch. `converted`: of key and value those that are JSON; `schemas`: theirs."""
    found = {f"{CUT}{part}".encode(): text.encode() for part, text in schemas.items() if text is not None}
    return found | {b"cut.converted": ",".join(sorted(converted)).encode()}


def schema_text(batch: pa.RecordBatch, part: str) -> str | None:
    """The schema of its keys or values, None where they have none."""
    found = (batch.schema.metadata or {}).get(f"{CUT}{part}".encode())
    return None if found is None else found.decode()


def is_converted(batch: pa.RecordBatch, part: str) -> bool:
    """Whether its keys or values are JSON."""
    return part in (batch.schema.metadata or {}).get(b"cut.converted", b"").decode().split(",")


@dataclass(frozen=True, slots=True)
class Handed:
    """Records of a Java source at the cut. `topics`: the names that `topic` (int32, one a record) counts; `partition`:
    -1 where the partitioner decides; `raw`: RAW_SCHEMA; `key_schema`, `value_schema` (int32): which of `schemas` a
    record's is, -1 for none.
    """

    topics: tuple[str, ...]
    topic: np.ndarray[Any, Any]
    partition: np.ndarray[Any, Any]
    raw: pa.RecordBatch
    key_schema: np.ndarray[Any, Any]
    value_schema: np.ndarray[Any, Any]
    schemas: tuple[str, ...]
