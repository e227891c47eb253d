"""Texts of many parts put together, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Member(NamedTuple):
    """One field's part of each row's text: `prefix` and the text. `optional`: where the text is null, nothing."""

    prefix: str
    text: pa.Array
    optional: bool


def join(*pieces: Any, nulls: str = "replace") -> pa.Array:
    """Strings and string arrays, one after the other; nulls become the text null, or with nulls="emit_null" make the
    whole null.
    """
    return pc.binary_join_element_wise(*pieces, "", null_handling=nulls, null_replacement="null")


def join_members(members: Sequence[Member], opening: str, separator: str, closing: str, length: int) -> pa.Array:
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
    return pc.binary_join_element_wise(*merged, "", null_handling="replace", null_replacement="")


def _join_optional(members: Sequence[Member], opening: str, separator: str, closing: str) -> pa.Array:
    """Where each member may be missing. (pyarrow's own skipping join loses the rows in which all are null.)"""
    pieces = [join(separator + member.prefix, member.text, nulls="emit_null") for member in members]
    whole = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
    return join(opening, pc.utf8_slice_codeunits(whole, len(separator)), closing)


def null_like(array: pa.Array, strings: pa.Array) -> pa.Array:
    """The strings, null where the array is."""
    if not array.null_count:
        return strings
    return pc.if_else(array.is_valid(), strings, pa.scalar(None, pa.string()))
