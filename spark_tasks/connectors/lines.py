"""Converts bytes of text to a column of lines, and a column of values to bytes of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import Bytes, all_valid, frozen, string_array, texts
from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.arrays.memory import (
    ONES,
    WORD,
    copy_bytes,
    count_bytes,
    first_byte,
    load_word,
    store_word,
    zero_bytes,
)
from spark_tasks.data.columns import Metadata
from spark_tasks.java.utf8 import decoded
from spark_tasks.pipeline.converters.base import rows_by_code
from spark_tasks.pipeline.converters.java_column_text import to_texts

_LF, _CR = 10, 13
_LFS: Final = np.uint64(_LF) * ONES
_CRS: Final = np.uint64(_CR) * ONES
_1, _8 = np.uint64(1), np.uint64(8)
_NULL = frozen(np.frombuffer(b"null", np.uint8))


def split_lines(data: Bytes, *, final: bool) -> tuple[pa.Array, int]:
    """Returns the complete lines in `data` (ended by LF, CR or CR LF) as a string array, and the number of their bytes.

    `final`: whether a CR at the end of `data` ends a line; otherwise a LF may still follow it. Invalid UTF-8 becomes
    U+FFFD.
    """
    data = frozen(data)
    line_feeds, returns = _line_ends(data)
    offsets = np.empty(line_feeds + returns + 1, np.int32)
    out = np.empty(len(data) + WORD, np.uint8)
    count, used = (_split_any if returns else _split)(data, final, offsets, out)
    lines = string_array(out[: offsets[count]], offsets[: count + 1], None, pa.binary())
    return as_text(lines), used


def as_text(lines: pa.Array) -> pa.Array:
    """Decodes a binary array. Invalid UTF-8 becomes U+FFFD."""
    try:
        return lines.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if line is None else decoded(line) for line in lines.to_pylist()], pa.string())


@jit
def _line_ends(data: Any) -> tuple[Any, Any]:
    """Returns the number of LFs and of CRs."""
    line_feeds, returns = np.uint64(0), np.uint64(0)
    last_word = len(data) - WORD
    i = 0
    while i <= last_word:
        word = load_word(data, i)
        line_feeds += count_bytes(zero_bytes(word ^ _LFS))
        returns += count_bytes(zero_bytes(word ^ _CRS))
        i += WORD
    for j in range(i, len(data)):
        line_feeds += np.uint64(data[j] == _LF)
        returns += np.uint64(data[j] == _CR)
    return np.int64(line_feeds), np.int64(returns)


@jit
def _split(data: Any, final: bool, offsets: Any, out: Any) -> tuple[int, int]:  # noqa: ARG001 - as _split_any
    """Copies the bytes without the LFs: the fast path if all line ends are LF."""
    count, at, begin, i = 0, 0, 0, 0
    offsets[0] = 0
    last_word = len(data) - WORD
    while i <= last_word:
        word = load_word(data, i)
        store_word(out, at, word)
        found = zero_bytes(word ^ _LFS)
        done = 0  # bytes of the word
        while found:
            place = first_byte(found)
            at += place - done
            done = place + 1
            store_word(out, at, (word >> np.uint64(8 * place)) >> _8)
            count += 1
            offsets[count] = at
            begin = i + done
            found &= found - _1
        at += WORD - done
        i += WORD
    for j in range(i, len(data)):
        if data[j] == _LF:
            count += 1
            offsets[count] = at
            begin = j + 1
        else:
            out[at] = data[j]
            at += 1
    return count, begin


@jit
def _split_any(data: Any, final: bool, offsets: Any, out: Any) -> tuple[int, int]:
    count, at, i, begin = 0, 0, 0, 0
    offsets[0] = 0
    while i < len(data):
        c = data[i]
        i += 1
        if c == _CR:
            if i == len(data) and not final:
                break
            if i < len(data) and data[i] == _LF:
                i += 1
        elif c != _LF:
            out[at] = c
            at += 1
            continue
        count += 1
        offsets[count] = at
        begin = i
    return count, begin


def to_lines(array: pa.Array, metadata: Metadata | None) -> pa.Buffer:
    """The bytes of lines with each value as Java prints it. Binary values are written unchanged."""
    values = texts(array if pa.types.is_binary(array.type) else to_texts(array, metadata))
    valid = all_valid(len(array)) if values.valid is None else values.valid
    nulls = len(array) - int(np.count_nonzero(valid))
    out = np.empty(int(values.offsets[-1] - values.offsets[0]) + len(array) + nulls * len(_NULL), np.uint8)
    used = _join_lines(frozen(values.data), frozen(values.offsets), valid, _NULL, out)
    return pa.py_buffer(out[:used])


def lines_of_values(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """The lines of the values of batches that may have different schemas, in order."""
    if len(batches) == 1:
        return to_lines(batches[0].column("value"), batches[0].schema.field("value").metadata)
    schemas: list[pa.Schema] = []
    codes = np.array([_code(batch.schema, schemas) for batch in batches])
    sizes = np.array([len(batch) for batch in batches])
    begins = np.cumsum(sizes) - sizes
    texts_of, places = [], []
    for same in rows_by_code(codes):  # the batches of one schema
        values = pa.concat_arrays([batches[number].column("value") for number in same])
        is_text = not pa.types.is_binary(values.type)
        metadata = batches[same[0]].schema.field("value").metadata
        texts_of.append(to_texts(values, metadata).cast(pa.binary()) if is_text else values)
        places += [np.arange(begins[number], begins[number] + sizes[number]) for number in same]
    return to_lines(pa.concat_arrays(texts_of).take(pa.array(np.argsort(np.concatenate(places)))), None)


def _code(schema: pa.Schema, schemas: list[pa.Schema]) -> int:
    """Returns the place of the schema among `schemas`, to which a new one is added."""
    for code, known in enumerate(schemas):
        if known.equals(schema, check_metadata=True):
            return code
    schemas.append(schema)
    return len(schemas) - 1


@jit
def _join_lines(data: Any, offsets: Any, valid: Any, null: Any, out: Any) -> Any:
    at: Any = 0
    for row in range(len(valid)):
        if valid[row]:
            begin, count = np.int64(offsets[row]), np.int64(offsets[row + 1] - offsets[row])
            copy_bytes(out, at, data, begin, count)
            at += count
        else:
            copy_bytes(out, at, null, 0, len(null))
            at += len(null)
        out[at] = _LF
        at += 1
    return at
