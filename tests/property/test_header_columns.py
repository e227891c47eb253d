"""Headers that are added to columns are what they would be record by record, whether all records have the same or
not.
"""

from __future__ import annotations

from itertools import cycle, islice

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.data.columns import HEADERS_TYPE
from spark_tasks.pipeline.transforms.headers import has_header, with_headers, without

NAMES = st.sampled_from(["a", "b", "ab", "", "ä"])
VALUES = st.none() | st.binary(max_size=3)
PAIRS = st.none() | st.lists(st.tuples(NAMES, VALUES), max_size=3)
ALIKE = st.lists(NAMES, max_size=3).flatmap(
    lambda names: st.lists(st.tuples(*(st.tuples(st.just(name), VALUES) for name in names)).map(list), max_size=8))


def named(*rows):
    return [[(name, b"x") for name in row] for row in rows]


def plain(batch):
    rows = batch.column("headers").to_pylist()
    return [None if row is None else [(pair["key"], pair["value"]) for pair in row] for row in rows]


@example(named("ab", "ac", "ab"), ["n"], [b"v"], 0)  # other letters
@example(named("a", "", "aa"), ["n"], [b"v"], 0)  # as many headers in all, but in other rows
@example(named(["ab", ""], ["a", "b"]), ["n"], [b"v"], 0)  # the same letters
@example(named("ab", "ab", "ab"), ["n", "m"], [b"v", None, b""], 1)
@given(st.lists(PAIRS, max_size=8) | ALIKE, st.lists(NAMES, min_size=1, max_size=3), st.lists(VALUES, min_size=1),
       st.integers(0, 3))
def test_added_headers_follow_the_existing_ones(rows, names, values, cut):
    batch = pa.record_batch({"headers": pa.array(rows, HEADERS_TYPE)}).slice(cut)
    rows, one = rows[cut:], cycle(values)
    columns = [list(islice(one, len(rows))) for _ in names]
    found = with_headers(batch, [(name, pa.array(column, pa.binary())) for name, column in
                                 zip(names, columns, strict=True)])
    found.validate(full=True)
    wanted = [[*(row or ()), *((name, column[at]) for name, column in zip(names, columns, strict=True))]
              for at, row in enumerate(rows)]
    assert plain(found) == wanted
    assert has_header(found, "a").to_pylist() == ["a" in dict(row) for row in wanted]
    assert plain(without(found, {"a"})) == [[pair for pair in row if pair[0] != "a"] for row in wanted]
