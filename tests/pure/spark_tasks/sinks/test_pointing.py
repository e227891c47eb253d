"""The record whose value an error quotes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_tasks.sinks.pointing import quoted_row

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
    ("Failing row contains (99, x y, null).", 3),
    ("no such thing as 'k2'", 2),
    ("dup key: (6)", 2),
    ("""bad name "it's" here""", 0),
    ("nothing that anybody has: 'z', (99999999999999999999)", None),
    ("refused", None),
    ("", None),
])  # fmt: skip
def test_which_row(message, row):
    assert quoted_row(ValueError(message), batches()) == row


def test_values_that_are_no_structs_and_no_key():
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
    assert quoted_row(ValueError("'b'"), [batch]) == 1
    assert quoted_row(ValueError("'b'"), []) is None
