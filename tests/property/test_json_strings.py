"""JSON's strings of any length, which kernels write and read in words of eight bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.arrays.buffers import all_valid, texts
from spark_tasks.pipeline.converters import json_columns
from spark_tasks.pipeline.converters.json_strings import literals
from spark_tasks.pipeline.converters.json_tape import tokenize

SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
PLAIN = st.sampled_from("ab\x7f \u00e9\u07ff\u20ac\uffff")
SPECIAL = st.sampled_from([*SHORT, "\x00", "\x1f", "\U0001f600"])
TEXTS = st.text(st.one_of(PLAIN, PLAIN, PLAIN, SPECIAL), max_size=60)
ARRAYS = st.lists(st.none() | TEXTS, max_size=8)


def jackson(text: str) -> str:
    """The literal as Jackson writes it."""
    written = []
    for char in text:
        code = ord(char)
        if char in SHORT:
            written.append(SHORT[char])
        elif code < 32:
            written.append(f"\\u{code:04X}")
        elif code > 0xFFFF:
            written.append(f"\\u{0xD800 + (code - 0x10000 >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}")
        else:
            written.append(char)
    return f'"{"".join(written)}"'


@given(ARRAYS, st.integers(0, 3))
@example(['"' * 30, "\\" * 7, "\U0001f600" * 9, "\x01" * 17, "x" * 8], 0)
@example(["x" * n + '"' for n in range(17)], 1)
def test_strings_are_written_as_jackson_does(values: list[str | None], start: int) -> None:
    array = pa.array(values, pa.string())[start:]
    written = literals(array)
    written.validate(full=True)
    assert written.to_pylist() == [None if value is None else jackson(value) for value in values[start:]]


@given(ARRAYS, st.booleans())
def test_what_is_written_is_read(values: list[str | None], escapes: bool) -> None:
    """`escapes`: whether all characters beyond ASCII are escapes, which halves the words without one."""
    written = [None if value is None else jackson(value) for value in values]
    if escapes:
        written = [text and "".join(c if c < "\x80" else f"\\u{ord(c):04x}" for c in text) for text in written]
    column = texts(pa.array(written, pa.string()))
    valid = all_valid(len(values)) if column.valid is None else column.valid
    tape = tokenize(column.data, column.offsets[:-1], column.offsets[1:], valid)
    assert not len(tape.unusual)
    present = None if None not in values else valid
    read = json_columns.strings(tape, tape.roots, present, escaped=True)
    assert read.to_pylist() == values
    assert json_columns.raw(tape, tape.roots).to_pylist() == written


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_strings_without_escapes_are_copied(values: list[str]) -> None:
    plain = ["".join(c for c in value if c not in SHORT and c >= " ") for value in values]
    column = texts(pa.array([f'"{text}"' for text in plain], pa.string()))
    tape = tokenize(column.data, column.offsets[:-1], column.offsets[1:], all_valid(len(plain)))
    assert json_columns.strings(tape, tape.roots, None, escaped=False).to_pylist() == plain


@given(st.binary(max_size=40), st.integers(0, 24))
def test_invalid_strings_are_found(junk: bytes, at: int) -> None:
    """A control character or an open escape makes a row unusual wherever it is in a word."""
    text = b'"' + b"x" * at + b"\x1f" + junk + b'"'
    data = np.frombuffer(text, np.uint8)
    tape = tokenize(data, np.zeros(1, np.int32), np.array([len(text)], np.int32), all_valid(1))
    assert tape.unusual.tolist() == [0]
