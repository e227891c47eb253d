"""The record whose value an error quotes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_tasks.sinks.row_guesser import RowGuesser

ROWS = [
    {"id": 7, "name": "it's", "in": {"n": 5}}, {"id": 12, "name": None, "in": None},
    {"id": None, "name": "x", "in": {"n": 6}},
    {"id": 12, "name": "x y", "in": {"n": 12}},
]  # fmt: skip


def batches():
    value = pa.array(ROWS, pa.struct({"id": pa.int32(), "name": pa.string(), "in": pa.struct({"n": pa.int64()})}))
    one = pa.RecordBatch.from_arrays([pa.array(["k0", "k1", "k2", "k3"]), value], names=["key", "value"])
    return [one.slice(0, 1), one.slice(1)]


@pytest.mark.parametrize(("message", "row"), [
    ("invalid literal for int() with base 10: 'x'", 2),
    ('value too long: "x y"', 3),
    ("Key (id)=(12) already exists.", 1),
    ('duplicate key value violates unique constraint "t_pkey"\nDETAIL:  Key (n)=(12) already exists.', 3),
    ("Key (id, name)=(12, x y) already exists.", 3),
    ("Key (id, name)=(12, x) already exists.", 1),
    ("Key (id, day)=(12, 2026-11-27) already exists.", 1),
    ("Key (id, day)=(12) already exists.", 1),
    ("Key (name)=(\ud83d) already exists, 'x'", 2),
    ("Failing row contains (99, x y, null).", 3),
    ("no such thing as 'k2'", 2),
    ("dup key: (6)", 2),
    ("""bad name "it's" here""", 0),
    ("nothing that anybody has: 'z', (99999999999999999999)", None),
    ("half of a character: '\ud83d', 'x'", 2),
    ("refused", None),
    ("", None),
])  # fmt: skip
def test_the_first_row_with_the_quoted_value_is_guessed(message, row):
    assert RowGuesser(batches()).guess(ValueError(message), 0, 4) == ([] if row is None else [row])


def test_values_that_are_not_structs_and_batches_without_keys():
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
    assert RowGuesser([batch]).guess(ValueError("'b'"), 0, 2) == [1]
    assert RowGuesser([]).guess(ValueError("'b'"), 0, 0) == []


def test_rows_with_a_value_that_is_quoted_twice_are_guessed_in_all_batches():
    one = pa.RecordBatch.from_pydict({"value": ["a", "b", None, "b"]})
    other = pa.RecordBatch.from_pydict({"value": ["c", "b"], "key": ["b", "b"]})
    numbers = pa.RecordBatch.from_pydict({"value": [1, 2]})
    guesser = RowGuesser([one, other, numbers])
    assert guesser.guess(ValueError("'b'"), 0, 3) == [1]
    assert guesser.guess(ValueError("'b'"), 2, 3) == [], "not in this stretch"
    assert guesser.guess(ValueError("'b'"), 2, 4) == [3, 5], "in the same column"
    assert guesser.guess(ValueError("'c'"), 4, 6) == [4]
    assert guesser.guess(ValueError("'b'"), 4, 6) == [5], "another one came in between"


def test_rows_that_look_like_quoted_ones_only_are_guessed_in_all_batches():
    one = pa.RecordBatch.from_pydict({"key": ["a", "b", "c", "d"], "value": ["1", "x2", "-3", "4"]})
    other = pa.RecordBatch.from_pydict({"key": ["e", "f", "g", "h"], "value": ["y5", None, "", "7z"]})
    guesser = RowGuesser([one, other, one])
    assert guesser.guess(ValueError("'x2'"), 0, 4) == [1]
    assert guesser.guess(ValueError("'x2'"), 1, 3) == [1, 9], "the same again"
    assert guesser.guess(ValueError("'y5'"), 2, 12) == [4, 7, 9], "letters and digits"
    assert guesser.guess(ValueError("'b'"), 0, 12) == [1]
    assert guesser.guess(ValueError("'c'"), 0, 12) == [2], "the first row looks like that too"
    numbers = RowGuesser([pa.RecordBatch.from_pydict({"value": [1, 70000, 3, 70001]})])
    assert numbers.guess(ValueError("(70000)"), 0, 4) == [1]
    assert numbers.guess(ValueError("(70001)"), 2, 4) == [3], "numbers have no look"
