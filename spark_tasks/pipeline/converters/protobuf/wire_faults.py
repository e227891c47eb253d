"""Finds records whose bytes are no message, by the rules of Java's parser. ptars does not check all of them: it takes a
group without an end, and a packed list that ends within a number.
"""
# ruff: noqa: SIM110 - compiled code: plain comparisons and loops are faster

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_tasks.arrays.buffers import Bools, Ints, frozen, texts
from spark_tasks.arrays.jit import kernel as jit
from spark_tasks.pipeline.converters.protobuf.tree import Message, ProtobufField

_OPAQUE, _VARINTS, _FOURS, _EIGHTS = range(4)  # what the bytes of a field contain
_NESTED: Final = 4  # and more: a message
_UNKNOWN: Final = -1  # the message within a group: it has no known fields
_MAX_DEPTH: Final = 100  # of Java's parser
_FOURS_KINDS, _EIGHTS_KINDS = ("fixed32", "sfixed32", "float"), ("fixed64", "sfixed64", "double")


class WireFaults:
    """Of one message type, whose fields have numbers below a few thousand."""

    def __init__(self, message: Message) -> None:
        tables: list[list[int]] = []
        _add(message, tables)
        sizes = [len(table) for table in tables]
        self._contents = frozen(np.array([entry for table in tables for entry in table], np.int64))
        self._begins = frozen(np.cumsum([0, *sizes]).astype(np.int64))

    def rows(self, payloads: pa.Array) -> Ints:
        """Returns the rows of a binary array without nulls that are no message of this type."""
        values = texts(payloads)
        wrong: Bools = np.empty(len(payloads), np.bool_)
        stack = np.empty((3, _MAX_DEPTH), np.int64)
        _check(frozen(values.data), frozen(values.offsets), self._contents, self._begins, stack, wrong)
        return np.flatnonzero(wrong).astype(np.int32)


def _add(message: Message, tables: list[list[int]]) -> int:
    """Adds the table of a message and those of its fields: what each field number contains. Returns its place."""
    place = len(tables)
    table = [_OPAQUE] * (1 + max((member.number for member in message.members), default=0))
    tables.append(table)
    for member in message.members:
        table[member.number] = _content(member) if member.message is None else _NESTED + _add(member.message, tables)
    return place


def _content(member: ProtobufField) -> int:
    if not member.repeated or member.kind in ("string", "bytes"):
        return _OPAQUE
    if member.kind in _FOURS_KINDS:
        return _FOURS
    return _EIGHTS if member.kind in _EIGHTS_KINDS else _VARINTS


@jit
def _check(data: Any, offsets: Any, contents: Any, begins: Any, stack: Any, wrong: Any) -> None:
    for row in range(len(wrong)):
        wrong[row] = not _is_message(data, np.int64(offsets[row]), np.int64(offsets[row + 1]), contents, begins, stack)


@jit
def _varint_end(data: Any, pos: Any, end: Any) -> Any:
    """Returns the position after the varint, -1 if it does not end within ten bytes."""
    stop = min(end, pos + 10)
    while pos < stop:
        if data[pos] < 128:
            return pos + 1
        pos += 1
    return -1


@jit
def _low_bits(data: Any, pos: Any, after: Any) -> Any:
    """Returns a varint without its bits from the 35th on, which mean nothing to Java where it reads 32 bits."""
    value: Any = 0
    for i in range(min(after - pos, 5)):
        value |= (np.int64(data[pos + i]) & 127) << (7 * i)
    return value


@jit
def _is_message(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one automaton
    data: Any, pos: Any, end: Any, contents: Any, begins: Any, stack: Any
) -> bool:
    message: Any = np.int64(0)
    group: Any = np.int64(0)
    depth = 0
    while True:
        if pos == end:
            if group != 0:
                return False
            if depth == 0:
                return True
            depth -= 1
            end, message, group = stack[0, depth], stack[1, depth], stack[2, depth]
            continue
        tag: Any = np.int64(data[pos])
        after = pos + 1
        if tag > 127:  # this and the like: calls only for what is rare
            after = _varint_end(data, pos, end)
            if after < 0:
                return False
            tag = _low_bits(data, pos, after) & 0xFFFFFFFF
        pos, number, kind = after, tag >> 3, tag & 7
        if number == 0 or kind > 5:
            return False
        if kind == 0:
            if pos < end and data[pos] < 128:
                pos += 1
                continue
            pos = _varint_end(data, pos, end)
            if pos < 0:
                return False
        elif kind == 1:
            pos += 8
            if pos > end:
                return False
        elif kind == 5:
            pos += 4
            if pos > end:
                return False
        elif kind == 4:
            if number != group:
                return False
            depth -= 1
            end, message, group = stack[0, depth], stack[1, depth], stack[2, depth]
        else:
            inner = end
            content: Any = _OPAQUE
            if kind == 2:
                if pos == end:
                    return False
                size: Any = np.int64(data[pos])
                after = pos + 1
                if size > 127:
                    after = _varint_end(data, pos, end)
                    if after < 0 or (after - pos > 5 and _has_high_bits(data, pos + 5, after)):
                        return False
                    size = _low_bits(data, pos, after)
                inner, pos = after + size, after
                if inner > end:
                    return False
                if message >= 0 and number < begins[message + 1] - begins[message]:
                    content = contents[begins[message] + number]
                if content < _NESTED:
                    if content != _OPAQUE and not _are_numbers(data, pos, inner, content):
                        return False
                    pos = inner
                    continue
            if depth == _MAX_DEPTH:
                return False
            stack[0, depth], stack[1, depth], stack[2, depth] = end, message, group
            depth += 1
            end, message, group = inner, content - _NESTED, 0
            if kind == 3:
                message, group = _UNKNOWN, number


@jit
def _has_high_bits(data: Any, pos: Any, end: Any) -> bool:
    for i in range(pos, end):
        if data[i] & 127:
            return True
    return False


@jit
def _are_numbers(data: Any, pos: Any, end: Any, content: int) -> bool:
    """Returns whether the bytes are a whole number of numbers of this content."""
    if content == _FOURS:
        return bool((end - pos) % 4 == 0)
    if content == _EIGHTS:
        return bool((end - pos) % 8 == 0)
    while pos < end:
        pos = _varint_end(data, pos, end)
        if pos < 0:
            return False
    return True
