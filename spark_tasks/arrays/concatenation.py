"""Concatenates strings and string columns row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import Texts, string_array, texts
from spark_tasks.arrays.jit import kernel
from spark_tasks.arrays.memory import SLACK, copy_bytes, copy_short

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
            shown = text.fill_null("null") if text.null_count else text
            pieces += [prefix if i == anchor else separator + prefix, shown]
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
    before, columns = [b""], list[Texts]()  # the text before each column, and behind the last one
    for piece in pieces:
        if isinstance(piece, pa.Array):
            columns.append(texts(piece))
            before.append(b"")
        else:
            before[-1] += piece.encode() if isinstance(piece, str) else piece
    sizes = [int(column.offsets[-1] - column.offsets[0]) for column in columns]
    total = sum(sizes) + sum(map(len, before)) * length
    if total > _MAX_BYTES:
        raise OverflowError(f"{length} texts of one batch have {total} bytes, more than a column holds")
    slack = np.empty(SLACK, np.uint8)
    data = np.concatenate([*(c.data[c.offsets[0] : c.offsets[-1]] for c in columns), slack])
    constants = np.concatenate([np.frombuffer(b"".join(before), np.uint8), slack])
    bounds, there = np.empty((len(columns), length + 1), np.int32), np.ones((len(columns), length), np.bool_)
    for row, (column, at) in enumerate(zip(columns, accumulate(sizes, initial=0), strict=False)):
        np.add(column.offsets, at - column.offsets[0], out=bounds[row])
        if column.valid is not None:
            there[row] = column.valid
    some_null = np.array([column.valid is not None for column in columns], np.bool_)
    out, ends = np.empty(total + SLACK, np.uint8), np.zeros(length + 1, np.int32)
    starts = np.array([0, *accumulate(map(len, before))], np.int64)
    used = _concatenate(data, bounds, some_null, there, constants, starts, out, ends)
    return string_array(out[:used], ends, type_=kind)


@kernel
def _concatenate(
    data: Any, bounds: Any, some_null: Any, there: Any, constants: Any, starts: Any, out: Any, ends: Any
) -> int:  # fmt: skip
    at = 0
    for row in range(len(ends) - 1):
        for column in range(len(starts) - 1):
            begin = starts[column]
            count = starts[column + 1] - begin
            if count <= SLACK:
                copy_short(out, at, constants, begin)
            else:
                copy_bytes(out, at, constants, begin, count)
            at += count
            if column < len(bounds) and not (some_null[column] and not there[column, row]):  # under a null is nothing
                begin = np.int64(bounds[column, row])
                count = np.int64(bounds[column, row + 1]) - begin
                if count <= SLACK:
                    copy_short(out, at, data, begin)
                else:
                    copy_bytes(out, at, data, begin, count)
                at += count
        ends[row + 1] = at
    return at


def _join_optional(members: Sequence[JoinedField], opening: str, separator: str, closing: str) -> pa.Array:
    """As `join_members` if all members are optional. (pyarrow's join with null_handling="skip" does not keep rows whose
    members are all null.)
    """
    pieces = [join(separator + member.prefix, member.text, nulls="emit_null") for member in members]
    joined = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
    return join(opening, pc.utf8_slice_codeunits(joined, len(separator)), closing)


def null_like(array: pa.Array, strings: pa.Array) -> pa.Array:
    """Returns the strings, with nulls where `array` has them."""
    if not array.null_count:
        return strings
    return pc.if_else(array.is_valid(), strings, pa.scalar(None, pa.string()))
