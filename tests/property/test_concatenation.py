"""Texts concatenated in columns equal those that Python concatenates row by row."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.arrays.concatenation import concatenated, join

TEXTS = st.text(max_size=5) | st.sampled_from(["exactly sixteen!", "seventeen letters", "many " * 9])


@st.composite
def rows(draw):
    """Pieces as lists of texts, or as one text for all rows; the length; what is cut off before."""
    length, cut = draw(st.integers(0, 8)), draw(st.integers(0, 3))
    column = st.lists(st.none() | TEXTS, min_size=length + cut, max_size=length + cut)
    return draw(st.lists(TEXTS | column, min_size=1, max_size=6)), length, cut


def arrays(pieces, cut):
    return [one if isinstance(one, str) else pa.array(one, pa.string()).slice(cut) for one in pieces]


@given(rows())
@example((["x"], 0, 0))
def test_the_pieces_of_each_row_are_concatenated(made):
    pieces, length, cut = made
    each = [[one if isinstance(one, str) else one[cut + row] or "" for one in pieces] for row in range(length)]
    expected = ["".join(one) for one in each]
    found = concatenated(arrays(pieces, cut), length)
    found.validate(full=True)
    assert found.to_pylist() == expected
    found = concatenated([b"\0", pa.array([b"\xff"] * length, pa.binary())], length, pa.binary())
    assert found.to_pylist() == [b"\0\xff"] * length


@given(rows())
def test_join_replaces_or_emits_nulls(made):
    pieces, length, cut = made
    columns = [one if isinstance(one, str) else one[cut:] for one in pieces]
    if all(isinstance(one, str) for one in columns):
        return
    row = [[one if isinstance(one, str) else one[i] for one in columns] for i in range(length)]
    found = arrays(pieces, cut)
    assert join(*found).to_pylist() == ["".join("null" if one is None else one for one in each) for each in row]
    assert join(*found, nulls="emit_null").to_pylist() == [None if None in each else "".join(each) for each in row]
