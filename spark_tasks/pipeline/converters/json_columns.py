"""Converts JSON texts to Connect columns, with the values of JsonConverter with schemas.enable=false.

A column of objects becomes a struct column, a column of integers becomes int64, and so on. Values of different types
in one column remain JSON text (FORM_JSON), so that nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import Bytes, Ints, Texts, all_valid, bool_array, number_array, string_array, texts
from spark_tasks.arrays.memory import SLACK
from spark_tasks.data.columns import (
    ABSENT_KEY,
    ABSENT_NULL,
    FORM_JSON,
    FORM_KEY,
    is_json,
    nulls_of_texts,
    struct_array,
)
from spark_tasks.errors import DataError
from spark_tasks.java.hash import hash_order
from spark_tasks.pipeline.converters import json_kernels as kernels
from spark_tasks.pipeline.converters import json_text
from spark_tasks.pipeline.converters.base import BadRowsError, Column
from spark_tasks.pipeline.converters.json_tape import (
    ABSENT,
    ARRAY,
    ESCAPED,
    FALSE,
    FLOAT,
    INT,
    NULL,
    OBJECT,
    STRING,
    TRUE,
    Tape,
    tokenize,
)
from spark_tasks.pipeline.converters.json_unescape import unescape

MAX_MEMBERS = 1000  # names in one column; if there are more, the names are data
MAX_CELLS = 50_000_000  # names times rows


def _bits(*kinds: int) -> int:
    return sum(1 << kind for kind in kinds)


def parse_columns(array: pa.Array) -> Column:
    """Converts a binary array of JSON texts to a Connect column. Raises BadRowsError for texts that are not JSON."""
    tape = _tape(array)
    unusual = _unusual(array, tape)
    try:
        tape = _usual(array, tape, unusual)
    except BadRowsError as error:
        if len(error.bad) == len(unusual):  # no other text has to be rewritten
            error.rest = partial(whole_values, tape, np.delete(tape.roots, unusual))
        raise
    return whole_values(tape, tape.roots)


def whole_values(tape: Tape, tokens: Ints) -> Column:
    """Returns a column of whole keys or values, as `build` does."""
    found, metadata = build(tape, tokens)
    return (nulls_of_texts(found), metadata) if is_json(metadata) else (found, metadata)


def read_tape(array: pa.Array, dialect: json_text.Dialect = json_text.OF_KAFKA) -> Tape:
    """Returns the tokens of all texts. Rewrites unusual texts in plain form first (json_text). Raises BadRowsError for
    texts that are not JSON.
    """
    tape = _tape(array)
    return _usual(array, tape, _unusual(array, tape), dialect)


def _unusual(array: pa.Array, tape: Tape) -> list[int]:
    return sorted({*tape.unusual.tolist(), *_not_utf8(array)})


def _usual(array: pa.Array, tape: Tape, unusual: list[int], dialect: json_text.Dialect = json_text.OF_KAFKA) -> Tape:
    """Returns the tape, or a new one with the unusual rows."""
    return _tape(_plain(array, unusual, dialect), rewritten=True) if unusual else tape


def _tape(array: pa.Array, *, rewritten: bool = False) -> Tape:
    values: Texts = texts(array)
    valid = all_valid(len(array)) if values.valid is None else values.valid
    return tokenize(values.data, values.offsets[:-1], values.offsets[1:], valid, rewritten=rewritten)


def _not_utf8(array: pa.Array) -> list[int]:
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return [i for i, text in enumerate(array.to_pylist()) if text is not None and not _is_utf8(text)]
    return []


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _plain(array: pa.Array, rows: list[int], dialect: json_text.Dialect) -> pa.Array:
    """Returns the array with the texts in `rows` in canonical form."""
    mask = np.zeros(len(array), np.bool_)
    mask[rows] = True
    plain = []
    bad: list[tuple[int, Exception]] = []
    for row in rows:
        try:
            value = json_text.parse(array[row].as_py(), numbers_as_written=True, dialect=dialect)
            plain.append(json_text.canonical(value).encode())
        except DataError as error:
            bad.append((row, json_text.NotJsonError(str(error))))
    if bad:
        raise BadRowsError(bad)
    return pc.replace_with_mask(array, pa.array(mask), pa.array(plain, pa.binary()))


def build(tape: Tape, tokens: Ints) -> Column:
    """Returns a column of the values that begin at `tokens` (-1: null)."""
    mask = kernels.kinds_of(tape.kinds, tokens)
    some = mask & ~_bits(NULL, ABSENT)
    if not some:
        return pa.nulls(len(tokens)), {}
    valid = None
    if some != mask:
        valid = np.empty(len(tokens), np.bool_)
        kernels.present(tape.kinds, tokens, valid)
    if some == _bits(OBJECT):
        return _objects(tape, tokens, valid)
    if some == _bits(ARRAY):
        return _arrays(tape, tokens, valid)
    if not some & ~_bits(FALSE, TRUE):
        flags = np.empty(len(tokens), np.bool_)
        kernels.booleans(tape.kinds, tokens, flags)
        return bool_array(flags, valid), {}
    if some == _bits(INT):
        return integers(tape, tokens, valid), {}
    if some == _bits(FLOAT):
        return floats(tape, tokens), {}
    if not some & ~_bits(STRING, ESCAPED):
        return strings(tape, tokens, valid, escaped=bool(mask & _bits(ESCAPED))), {}
    return raw(tape, tokens), {FORM_KEY: FORM_JSON}


def integers(tape: Tape, tokens: Ints, valid: np.ndarray | None) -> pa.Array:
    """Returns INT tokens as int64."""
    out = np.empty(len(tokens), np.int64)
    kernels.integers(tape.data, tape.kinds, tape.starts, tape.ends, tokens, out)
    return number_array(out, pa.int64(), valid)


def floats(tape: Tape, tokens: Ints) -> pa.Array:
    """Returns FLOAT and INT tokens as doubles, rounded as in Java; negative zero becomes zero."""
    numbers = raw(tape, np.where((tokens >= 0) & (tape.kinds[tokens] != NULL), tokens, -1).astype(np.int32))
    cast = numbers.cast(pa.float64())
    values = np.frombuffer(cast.buffers()[1], np.float64, count=len(cast), offset=8 * cast.offset)
    return pa.Array.from_buffers(
        pa.float64(), len(cast), [numbers.buffers()[0], pa.py_buffer(values + 0.0)], null_count=numbers.null_count
    )


def strings(tape: Tape, tokens: Ints, valid: np.ndarray | None, *, escaped: bool) -> pa.Array:
    """Returns STRING and ESCAPED tokens as text."""
    offsets = np.empty(len(tokens) + 1, np.int32)
    if escaped or valid is not None:
        room = kernels.spans(tape.starts, tape.ends, tokens, False, tape.kinds, offsets)
        out = np.empty(room + SLACK, np.uint8)
        unescape(tape.data, tape.kinds, tape.starts, tape.ends, tokens, offsets, out)
    else:
        out = _copied(tape, tokens, offsets, quotes=False)
    return string_array(out, offsets, valid)


def raw(tape: Tape, tokens: Ints) -> pa.Array:
    """Returns the JSON text of each value, null for the token -1."""
    offsets = np.empty(len(tokens) + 1, np.int32)
    return string_array(_copied(tape, tokens, offsets, quotes=True), offsets, tokens >= 0)


def _copied(tape: Tape, tokens: Ints, offsets: Ints, *, quotes: bool) -> Bytes:
    """Returns the tokens' texts, one after the other, and fills `offsets` with their places."""
    size = kernels.spans(tape.starts, tape.ends, tokens, quotes, tape.kinds, offsets)
    out = np.empty(size + SLACK, np.uint8)
    kernels.copy_texts(tape.data, tape.starts, tape.ends, tokens, offsets, out)
    return out[:size]


def _arrays(tape: Tape, tokens: Ints, valid: np.ndarray | None) -> Column:
    offsets = np.empty(len(tokens) + 1, np.int32)
    inner = np.empty(kernels.item_counts(tape.kinds, tape.nexts, tokens, offsets), np.int32)
    kernels.items(tape.kinds, tape.nexts, tokens, inner)
    values, metadata = build(tape, inner)
    item = pa.field("item", values.type, metadata=metadata or None)
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [mask, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(item), len(tokens), buffers, children=[values]), {}


def _objects(tape: Tape, tokens: Ints, valid: np.ndarray | None) -> Column:
    members = find_members(tape, tokens)
    if members is None:
        return raw(tape, tokens), {FORM_KEY: FORM_JSON}
    names, cells = members
    rows = len(tokens) if valid is None else int(valid.sum())
    children: list[pa.Array] = []
    fields: list[pa.Field] = []
    for name in hash_order(names):
        values = cells[names.index(name)]
        array, metadata = build(tape, values)
        present = int(np.count_nonzero(values >= 0))
        if present < rows:
            metadata = {**metadata, ABSENT_KEY: ABSENT_NULL}
            if array.null_count > len(tokens) - present and FORM_KEY not in metadata:
                array, metadata[FORM_KEY] = raw(tape, values), FORM_JSON
        children.append(array)
        fields.append(pa.field(name, array.type, metadata=metadata or None))
    nulls = None if valid is None else pa.array(~valid)
    return struct_array(children, fields, len(tokens), nulls), {}


def max_members(rows: int) -> int:
    """Returns how many names of members a column of objects may have. If there are more, the names are data."""
    return min(MAX_MEMBERS, MAX_CELLS // max(rows, 1))


def find_members(tape: Tape, tokens: Ints) -> tuple[list[str], np.ndarray] | None:
    """Returns the member names in order of appearance, which Java's hash maps keep within a bucket, and for each name
    the tokens of its values (-1: no such member). Returns None if there are so many names that they must be data.
    """
    limit = max_members(len(tokens))
    cells = np.empty((8, len(tokens)), np.int32)
    written: list[bytes] = []
    packed, ends = np.empty(256, np.uint8), np.zeros(9, np.int32)  # as of packed_names, with room for more
    state, row = kernels.NEW_KEY, 0
    while True:
        state, row, key = kernels.members(
            tape.data, tape.kinds, tape.starts, tape.ends, tape.nexts, tokens, packed, ends, len(written), row, cells
        )
        if state == kernels.FOUND:
            break
        if len(written) >= limit:
            return None
        name, used = tape.data[tape.starts[key] : tape.ends[key]], int(ends[len(written)])
        written.append(name.tobytes())
        if len(written) > len(cells):
            cells, ends = np.concatenate([cells, np.empty_like(cells)]), np.concatenate([ends, np.empty_like(ends)])
        cells[len(written) - 1, :row] = -1
        if used + len(name) > len(packed):
            packed = np.concatenate([packed[:used], np.empty(used + len(name), np.uint8)])
        packed[used : used + len(name)] = name
        ends[len(written)] = used + len(name)
    names = [json_text.parse(b'"' + name + b'"') if b"\\" in name else name.decode() for name in written]
    cells = cells[: len(written)]
    if len(tokens) and (cells[:, 0] < 0).any():  # some appear later: use the order of an object with all names
        whole = (cells >= 0).all(axis=0)
        if whole.any():
            order = np.argsort(cells[:, np.argmax(whole)])
            return [names[i] for i in order], cells[order]
    return names, cells


def members_named(tape: Tape, tokens: Ints, names: Sequence[str]) -> np.ndarray[Any, Any]:
    """Returns for each name the tokens of its values in the objects among `tokens` (-1: no such member)."""
    cells = np.full((len(names), len(tokens)), -1, np.int32)
    if not names:
        return cells
    written = [json.dumps(name, ensure_ascii=False)[1:-1].encode() for name in names]
    order = sorted(range(len(names)), key=lambda k: (len(written[k]), written[k]))
    packed, ends = packed_names([written[k] for k in order])
    place_of = np.argsort(order).astype(np.int32)
    after = np.empty(len(names) + 1, np.int32)
    after[place_of], after[-1] = np.roll(place_of, -1), place_of[0]
    kernels.declared_members(
        tape.data, tape.kinds, tape.starts, tape.ends, tape.nexts, tokens, packed, ends, np.array(order, np.int32),
        after, cells,
    )
    return cells


def packed_names(names: Sequence[bytes]) -> tuple[Bytes, Ints]:
    """Returns the names, one after the other, and the places at which each begins and ends."""
    return np.frombuffer(b"".join(names), np.uint8), np.array([*accumulate(map(len, names), initial=0)], np.int32)
