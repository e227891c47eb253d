"""Texts of many parts put together, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import Texts, string_array, texts
from spark_tasks.arrays.jit import copy_bytes, kernel

_MOST: Final = 2**31 - 1  # bytes of a column with 32-bit offsets


class JoinedField(NamedTuple):
    """One field's part of each row's text: `prefix` and the text. `optional`: where the text is null, nothing."""

    prefix: str
    text: pa.Array
    optional: bool


def join(*pieces: Any, nulls: str = "replace") -> pa.Array:
    """Strings and string arrays, one after the other; nulls become the text null, or with nulls="emit_null" make the
    whole null.
    """
    arrays = [piece for piece in pieces if not isinstance(piece, str)]
    if arrays and not any(array.null_count for array in arrays):
        return concatenated(pieces, len(arrays[0]))
    return pc.binary_join_element_wise(*pieces, "", null_handling=nulls, null_replacement="null")


def join_members(members: Sequence[JoinedField], opening: str, separator: str, closing: str, length: int) -> pa.Array:
    """Opening, the members with separators between those that are there, closing."""
    if not members:
        return pa.array([opening + closing], pa.string()).take(pa.nulls(length, pa.int32()).fill_null(0))
    anchor = next((i for i, member in enumerate(members) if not member.optional), None)
    if anchor is None:
        return _join_optional(members, opening, separator, closing)
    pieces: list[Any] = [opening]
    for i, (prefix, text, optional) in enumerate(members):
        if i < anchor:  # the separator after it, for there is a member that will come
            pieces.append(join(prefix, text, separator, nulls="emit_null"))
        elif optional:
            pieces.append(join(separator + prefix, text, nulls="emit_null"))
        else:
            pieces += [prefix if i == anchor else separator + prefix, text.fill_null("null")]
    merged: list[Any] = []
    for piece in [*pieces, closing]:
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    return concatenated(merged, length)


def concatenated(pieces: Sequence[str | bytes | pa.Array], length: int, kind: pa.DataType | None = None) -> pa.Array:
    """The pieces of each row as one string (or `kind`: binary): its own of an array (nothing where that is null), each
    text as it is. (pyarrow's own join takes more than twice as long.)
    """
    columns = [texts(piece) if isinstance(piece, pa.Array) else _constant(piece) for piece in pieces]
    steps = np.array([isinstance(piece, pa.Array) for piece in pieces], np.int64)
    sizes = [int(column.offsets[-1] - column.offsets[0]) for column in columns]
    total = sum(size if step else size * length for size, step in zip(sizes, steps, strict=True))
    if total > _MOST:
        raise OverflowError(f"{length} texts of one batch have {total} bytes, more than a column holds")
    data = np.concatenate([c.data[c.offsets[0] : c.offsets[-1]] for c in columns])
    bounds, there = np.empty((len(pieces), max(length, 1) + 1), np.int32), np.ones((len(pieces), length), np.bool_)
    at = 0
    for row, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        bounds[row, : len(column.offsets)] = column.offsets - column.offsets[0] + at
        if column.valid is not None:
            there[row] = column.valid
        at += size
    out, ends = np.empty(total, np.uint8), np.zeros(length + 1, np.int32)
    used = _concatenate(data, bounds, steps, there, out, ends)
    return string_array(out[:used], ends, type_=kind)


def _constant(text: str | bytes) -> Texts:
    data = np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)
    return Texts(data, np.array([0, len(data)], np.int32), None)


@kernel
def _concatenate(data: Any, bounds: Any, steps: Any, there: Any, out: Any, ends: Any) -> int:
    at = 0
    for row in range(len(ends) - 1):
        for piece in range(len(steps)):
            if there[piece, row]:  # what lies under a null is nothing
                place = row * steps[piece]
                begin, count = bounds[piece, place], bounds[piece, place + 1] - bounds[piece, place]
                copy_bytes(out, at, data, np.int64(begin), np.int64(count))
                at += count
        ends[row + 1] = at
    return at


def _join_optional(members: Sequence[JoinedField], opening: str, separator: str, closing: str) -> pa.Array:
    """Where each member may be missing. (pyarrow's own skipping join loses the rows in which all are null.)"""
    pieces = [join(separator + member.prefix, member.text, nulls="emit_null") for member in members]
    whole = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
    return join(opening, pc.utf8_slice_codeunits(whole, len(separator)), closing)


def null_like(array: pa.Array, strings: pa.Array) -> pa.Array:
    """The strings, null where the array is."""
    if not array.null_count:
        return strings
    return pc.if_else(array.is_valid(), strings, pa.scalar(None, pa.string()))
