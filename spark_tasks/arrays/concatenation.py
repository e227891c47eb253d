"""Concatenates strings and string columns row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import Texts, string_array, texts
from spark_tasks.arrays.jit import copy_bytes, kernel

_MAX_BYTES: Final = 2**31 - 1  # of a column with 32-bit offsets


class JoinedField(NamedTuple):
    """One member of each row's result: `prefix`, then `text`. A null `text` is the word null or, with `optional`, omits
    the member.
    """

    prefix: str
    text: pa.Array
    optional: bool


def join(*pieces: Any, nulls: str = "replace") -> pa.Array:
    """Concatenates strings and string arrays. A null becomes the word null or, with nulls="emit_null", makes the row's
    result null.
    """
    arrays = [piece for piece in pieces if not isinstance(piece, str)]
    if arrays and not any(array.null_count for array in arrays):
        return concatenated(pieces, len(arrays[0]))
    return pc.binary_join_element_wise(*pieces, "", null_handling=nulls, null_replacement="null")


def join_members(members: Sequence[JoinedField], opening: str, separator: str, closing: str, length: int) -> pa.Array:
    """Returns for each row: `opening`, its members with a separator between each two, `closing`. `length`: the number
    of rows.
    """
    if not members:
        return pa.array([opening + closing], pa.string()).take(pa.nulls(length, pa.int32()).fill_null(0))
    anchor = next((i for i, member in enumerate(members) if not member.optional), None)
    if anchor is None:
        return _join_optional(members, opening, separator, closing)
    pieces: list[Any] = [opening]
    for i, (prefix, text, optional) in enumerate(members):
        if i < anchor:  # the separator follows the member, since the anchor always follows
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
    """Concatenates the pieces of each row: the row's value of an array (nothing if it is null), and each constant as it
    is. `length`: the number of rows; `kind`: the result's type, by default string. (pyarrow's join takes more than
    twice as long.) Raises OverflowError if the result exceeds 2 GiB.
    """
    columns = [texts(piece) if isinstance(piece, pa.Array) else _constant(piece) for piece in pieces]
    steps = np.array([isinstance(piece, pa.Array) for piece in pieces], np.int64)
    sizes = [int(column.offsets[-1] - column.offsets[0]) for column in columns]
    total = sum(size if step else size * length for size, step in zip(sizes, steps, strict=True))
    if total > _MAX_BYTES:
        raise OverflowError(f"{length} values of one batch have {total} bytes, more than an Arrow column can have")
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
            if there[piece, row]:  # a null may have bytes, which do not count
                place = row * steps[piece]
                begin, count = bounds[piece, place], bounds[piece, place + 1] - bounds[piece, place]
                copy_bytes(out, at, data, np.int64(begin), np.int64(count))
                at += count
        ends[row + 1] = at
    return at


def _join_optional(members: Sequence[JoinedField], opening: str, separator: str, closing: str) -> pa.Array:
    """As `join_members` if all members are optional. (pyarrow's join with null_handling="skip" does not keep rows whose
    members are all null.)
    """
    pieces = [join(separator + member.prefix, member.text, nulls="emit_null") for member in members]
    whole = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
    return join(opening, pc.utf8_slice_codeunits(whole, len(separator)), closing)


def null_like(array: pa.Array, strings: pa.Array) -> pa.Array:
    """Returns the strings, with nulls where `array` has them."""
    if not array.null_count:
        return strings
    return pc.if_else(array.is_valid(), strings, pa.scalar(None, pa.string()))
