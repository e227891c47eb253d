"""Which record an error speaks of: what drivers and Python itself raise mostly quotes the value that is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# 'x', "x", (x, y): invalid literal for int() with base 10: 'x'; Key (id)=(7) already exists
_QUOTED: Final = re.compile(r"""'([^']+)'|"([^"]+)"|\(([^()]+)\)""")
_INTEGER: Final = re.compile(r"-?\d{1,18}")
_MOST_WORDS: Final = 8
_MOST_TEXT: Final = 2000  # letters of a message that are looked at


def quoted_row(error: Exception, batches: Iterable[pa.RecordBatch]) -> int | None:
    """The first row, over all batches, in whose key or value a text or an integer is what the error's message quotes;
    None where there is none. It may be another one than the error means.
    """
    words = _quoted(str(error)[:_MOST_TEXT])
    begin = 0
    for batch in batches if words else ():
        rows = [row for row in (_first(batch, word) for word in words) if row is not None]
        if rows:
            return begin + rows[0]
        begin += len(batch)
    return None


def _quoted(message: str) -> list[str]:
    found: list[str] = []
    for single, double, listed in _QUOTED.findall(message):
        found += [single or double] if single or double else listed.split(", ")
    return list(dict.fromkeys(found))[:_MOST_WORDS]


def _first(batch: pa.RecordBatch, word: str) -> int | None:
    text = pa.scalar(word, pa.string())
    number = pa.scalar(int(word), pa.int64()) if _INTEGER.fullmatch(word) else None
    for name in ("value", "key"):
        for column in _scalars(batch.column(name)) if name in batch.schema.names else ():
            wanted = text if pa.types.is_string(column.type) else number if pa.types.is_integer(column.type) else None
            same = None if wanted is None else pc.equal(column, wanted)
            if same is not None and same.true_count:
                there = same.fill_null(False) if same.null_count else same
                return int(np.argmax(there.to_numpy(zero_copy_only=False)))
    return None


def _scalars(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from _scalars(array.field(i))
    else:
        yield array
