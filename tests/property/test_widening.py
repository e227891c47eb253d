"""Parts of a batch with other members keep their values if they get the same schema, which they do if possible."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.pipeline.converters.java_values import values
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.transforms.columns_or_rows import joined
from spark_tasks.pipeline.transforms.widening import widened

NAMES = st.sampled_from(["a", "b", "longer_name"])
LEAVES = st.sampled_from([1, 2.5, "x", "null", None, [1], [{"a": 1}], {}])
ANY = st.none() | st.dictionaries(NAMES, LEAVES | st.dictionaries(NAMES, LEAVES), max_size=3)
SAME_TYPES = st.fixed_dictionaries({}, optional={
    "a": st.just(1), "b": st.just("x"), "c": st.fixed_dictionaries({}, optional={"a": st.just(1.5), "b": st.just([1])}),
})  # fmt: skip


def part(records):
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"})
    array, metadata = converter.to_connect("t", pa.array([json.dumps(one).encode() for one in records], pa.binary()))
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([pa.field("value", array.type, metadata=metadata)]))


def read(batches):
    return [one for batch in batches for one in values(batch.column(0), batch.schema.field(0).metadata)]


@example([[{"x": None, "y": 1}], [{"x": 5, "y": 2}], [{"y": 3}]])
@example([[{"m": {"x": None, "y": 1}}], [{"m": {"x": 5, "y": 2}}], [{"m": {"y": 3}}]])
@given(st.lists(st.lists(ANY, min_size=1, max_size=3), min_size=1, max_size=4))
def test_values_remain_the_same(parts):
    assert read(joined(widened([part(one) for one in parts]))) == [one for records in parts for one in records]


@given(st.lists(st.lists(SAME_TYPES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_maps_whose_members_have_the_same_types_become_one_batch(parts):
    (whole,) = joined(widened([part(one) for one in parts]))
    assert read([whole]) == [one for records in parts for one in records]


def of_order(*names):
    return pa.RecordBatch.from_pydict({"value": pa.array([dict.fromkeys(names, 1)], pa.struct(
        [pa.field(name, pa.int64()) for name in names]))})


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1), min_size=2, max_size=5))
def test_the_order_of_names_is_kept(orders):
    """Texts have it, such as keys, whose partition depends on their bytes."""
    parts = [of_order(*names) for names in orders]
    assert [list(one) for one in read(widened(parts))] == orders


def test_names_that_have_an_order_in_common_become_one_batch():
    (whole,) = joined(widened([of_order("m", "zz", "w"), of_order("m", "abc", "w"), of_order("zz", "abc")]))
    assert [one.name for one in whole.schema.field("value").type] == ["m", "zz", "abc", "w"]
    assert len(joined(widened([of_order("a", "b"), of_order("b", "a")]))) == 2
