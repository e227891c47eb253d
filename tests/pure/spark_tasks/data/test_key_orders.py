"""Maps of one column keep the order of their keys that each has."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.data.columns import ABSENT_KEY, ABSENT_NULL
from spark_tasks.data.key_orders import (
    ORDERS_KEY,
    alike,
    are_compatible,
    each_order,
    kinds_of_maps,
    orders_of,
    own_orders,
    with_keys,
    with_orders,
)
from spark_tasks.pipeline.converters.java_column_text import to_texts
from spark_tasks.pipeline.converters.java_columns import untyped
from spark_tasks.pipeline.converters.java_values import values
from spark_tasks.pipeline.converters.json_write import JsonWriter

MAPS = [{"a": 1, "b": 2}, None, {"b": 3}, {"c": 4, "a": 5}, {"b": 6}, {}]


def test_the_rows_of_maps_are_found_by_their_keys():
    array, _ = untyped(MAPS)
    found = {frozenset(names): rows.tolist() for names, rows in alike(array)}
    assert found == {frozenset("ab"): [0], frozenset("b"): [2, 4], frozenset("ca"): [3], frozenset(): [5]}
    assert {frozenset(names) for names in kinds_of_maps(array)} == set(found)


def test_a_column_whose_maps_lack_nothing_has_one_kind():
    array, _ = untyped([{"a": 1, "b": None}, {"a": None, "b": 2}])
    assert kinds_of_maps(array) == [("a", "b")]
    assert [(names, rows.tolist()) for names, rows in alike(array)] == [(("a", "b"), [0, 1])]


def test_more_keys_than_an_integer_has_bits():
    names = [f"k{i}" for i in range(70)]
    lacks = [pa.array([1 if row == i else None for row in range(len(names))]) for i in range(len(names))]
    fields = [pa.field(name, pa.int64(), metadata={ABSENT_KEY: ABSENT_NULL}) for name in names]
    array = pa.StructArray.from_arrays(lacks, fields=fields)
    assert sorted(kinds_of_maps(array)) == sorted((name,) for name in names)


def test_keys_that_the_same_maps_lack_in_columns_with_other_offsets():
    names = "abcde"
    lacks = [pa.array([1, None] * 10)[offset : offset + 9] for offset in (0, 2, 1, 8, 9)]
    fields = [pa.field(name, pa.int64(), metadata={ABSENT_KEY: ABSENT_NULL}) for name in names]
    array = pa.StructArray.from_arrays(lacks, fields=fields)
    for begin in range(3):
        part = array.slice(begin, 6)
        assert sorted(kinds_of_maps(part)) == [("a", "b", "d"), ("c", "e")]
        assert {names: rows.tolist() for names, rows in alike(part)} == {
            ("a", "b", "d"): [row for row in range(6) if (row + begin) % 2 == 0],
            ("c", "e"): [row for row in range(6) if (row + begin) % 2],
        }


def test_the_metadata_have_the_orders_that_the_children_do_not_have():
    orders = own_orders(["a", "b", "c"], [("a", "b"), ("c", "a"), ("b", "c"), ("a", "c")])
    assert orders == [("c", "a")], "the first of different orders of the same keys"
    metadata = with_orders({b"x": b"y"}, orders)
    assert metadata == {b"x": b"y", ORDERS_KEY: b'[["c", "a"]]'}
    assert orders_of(metadata) == {frozenset("ac"): ("c", "a")}
    assert with_orders(metadata, []) == {b"x": b"y"}
    assert orders_of(None) == {}


def test_orders_of_the_same_keys_are_not_compatible():
    assert are_compatible([("a", "b"), ("b", "c"), ("a", "b")])
    assert not are_compatible([("a", "b"), ("b", "a")])


def test_maps_with_the_same_keys_become_a_column_of_these():
    array, _ = untyped(MAPS)
    own = with_keys(array, np.array([3]), ["c", "a"])
    assert own.type == pa.struct([("c", pa.int64()), ("a", pa.int64())])
    assert own.to_pylist() == [{"c": 4, "a": 5}]


def test_texts_have_the_order_of_each_map():
    array, metadata = untyped(MAPS)
    assert to_texts(array, metadata).to_pylist() == ["{a=1, b=2}", None, "{b=3}", "{c=4, a=5}", "{b=6}", "{}"]
    assert JsonWriter().write(array, None, metadata)[3].as_py() == '{"c":4,"a":5}'
    assert each_order(array, metadata, lambda some: pa.array([len(some)] * len(some)))[3].as_py() == 1


NAMES = st.lists(st.sampled_from("abcde"), unique=True)


@given(st.lists(st.none() | NAMES.flatmap(lambda names: st.just(dict.fromkeys(names, 1))), min_size=1))
def test_values_read_from_a_column_have_the_order_that_they_were_written_with(maps):
    if not are_compatible(tuple(one) for one in maps if one):
        return
    nested = [{"m": one} for one in maps]
    for found in (maps, nested):
        read = values(*untyped(found))
        assert read == found
        inner = [one["m"] if one else one for one in read] if found is nested else read
        assert [one and list(one) for one in inner] == [one and list(one) for one in maps]
