"""Batches in pieces for frames of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

FRAME_BYTES: Final = 1 << 20  # one record may be larger


def whole_records(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces of about FRAME_BYTES at most. All results of one record, which have its offset, are in the same piece."""
    rows = max(1, min(len(batch), len(batch) * FRAME_BYTES // max(batch.nbytes, 1)))
    firsts = np.flatnonzero(np.diff(batch.column("offset").to_numpy(), prepend=-1))
    begin = 0
    while begin < len(batch):
        place = int(np.searchsorted(firsts, begin + rows))
        end = int(firsts[place]) if place < len(firsts) else len(batch)
        yield batch.slice(begin, end - begin)
        begin = end
