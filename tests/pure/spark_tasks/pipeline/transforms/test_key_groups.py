"""The order of a map's keys after a transform is that of Java's copy of it, whatever keys other records have."""

import itertools
import json

import pyarrow as pa
import pytest

from spark_tasks.java.hash import hash_order
from spark_tasks.pipeline.converters.java_column_text import to_texts
from spark_tasks.pipeline.converters.java_columns import untyped
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.transforms.columns_or_rows import put
from spark_tasks.pipeline.transforms.mask_field import MaskField
from tests.rigs.raw_records import JSON, raw_batch, worker

T = "org.apache.kafka.connect.transforms."
SMALL, LARGE = {"a": -5, "other": 1}, {"b": 1, "c": 2, "d": 3, "e": 4}
KINDS = [{f"k{n % 4}": n, f"l{n % 5}": n, "a": 1, **({"z": 0} if n % 3 else {})} for n in range(60)]
MANY = KINDS * 5
STEPS = [
    ("Cast$Value", {"spec": "a:string,new:int8"}),
    ("HeaderFrom$Value", {"fields": "a", "headers": "h", "operation": "move"}),
    ("InsertField$Value", {"topic.field": "tp"}),
    ("MaskField$Value", {"fields": "a,x"}),
    ("ReplaceField$Value", {"exclude": "z", "renames": "a:first"}),
    ("TimestampConverter$Value", {"field": "a", "target.type": "string", "format": "yyyy"}),
    ("MaskField$Value", {"fields": "inner.a,inner.x", "field.syntax.version": "V2"}),
]


def texts(records, *steps):
    """The records after the transforms, as FileStreamSink writes them, and the number of batches."""
    chain = {"transforms": ",".join(f"t{i}" for i in range(len(steps)))}
    for i, (name, config) in enumerate(steps):
        chain |= {f"transforms.t{i}.{key}": value for key, value in {"type": T + name, **config}.items()}
    options = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    raw = raw_batch([json.dumps(one).encode() for one in records])
    batches = list(SinkPipeline(worker(), {**options, **chain}).to_connect_batches("t", 0, raw))
    written = [to_texts(one.column("value"), one.schema.field("value").metadata).to_pylist() for one in batches]
    return [text for some in written for text in some], len(batches)


def alone(records, *steps):
    """Each of the records, after the transforms, in a batch of its own. Those that are equal are transformed once."""
    found = {}
    for one in records:
        if (key := json.dumps(one)) not in found:
            [found[key]], _ = texts([one], *steps)
    return [found[json.dumps(one)] for one in records]


def test_the_order_of_a_small_map_beside_a_larger_one():
    found, _ = texts([SMALL, LARGE], STEPS[2])
    assert found == ["{tp=t, a=-5, other=1}", texts([LARGE], STEPS[2])[0][0]]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[0])
@pytest.mark.parametrize("records", [[SMALL, LARGE, {}], MANY, [*MANY, *[SMALL, LARGE] * 50]])
def test_each_map_has_the_order_that_it_has_alone(step, records):
    records = [{"inner": one} for one in records] if "inner.a" in str(step) else records
    found, batches = texts(records, step)
    assert found == alone(records, step)
    assert batches == 1


def test_orders_are_kept_by_the_transforms_that_follow():
    steps = [STEPS[3], ("HoistField$Value", {"field": "w"}), ("ReplaceField$Value", {"exclude": "no"})]
    found, _ = texts(MANY, *steps)
    assert found == alone(MANY, *steps)


def test_maps_whose_equal_keys_have_different_orders_are_in_separate_batches():
    """`a` and `other` of a map that had two more keys, which ReplaceField removes."""
    step = ("ReplaceField$Value", {"include": "a,other,b"})
    more = [SMALL, {**SMALL, "k": 1, "l": 2, "m": 3, "n": 4}, {"b": 1}]
    found, _ = texts(more * 5, step)
    assert found == alone(more, step) * 5


def pairs(text):
    return text.strip("{}").split(", ")


def test_more_than_64_kinds_of_maps_have_the_order_of_a_map_with_all_keys():
    keys = "abcdefghij"  # in a table of 16 buckets, `h` is behind `a` to `g`; in one of 8, before them
    kinds = [dict.fromkeys(some, 1) for count in (3, 4, 10) for some in itertools.combinations(keys, count)]
    found, batches = texts(kinds, STEPS[2])
    each = alone(kinds, STEPS[2])
    assert batches == 1
    assert [sorted(pairs(one)) for one in found] == [sorted(pairs(one)) for one in each]
    assert sum("h=1, a=1" in one for one in each) > 20
    assert [pairs(one) for one in found] == [
        [pair for pair in pairs(each[-1]) if pair in pairs(one)] for one in each
    ]


def test_records_that_would_become_more_than_64_batches_become_one():
    """ReplaceField leaves the keys `h` and `a`: in this order in a small table, in the other order in a large one."""
    step = ("ReplaceField$Value", {"include": "a,h"})
    more = [{"a": 1, "h": 2}, dict.fromkeys("abcdefghij", 1)]
    assert alone(more, step) == ["{h=2, a=1}", "{a=1, h=1}"]
    assert texts(more * 32, step) == (["{h=2, a=1}", "{a=1, h=1}"] * 32, 64)
    assert texts(more * 33, step) == (["{a=1, h=2}", "{a=1, h=1}"] * 33, 1)


@pytest.mark.parametrize(("records", "apart"), [
    ([{"h": 1}, dict.fromkeys("abcdefghij", 1)], False),
    ([{"h": 1}, {"a": 1, "h": 1}, dict.fromkeys("abcdefghij", 1)], False),
    ([{"b": 1, "i": 1}, {"a": 1, "b": 1, "h": 1, "i": 1}, dict.fromkeys("abcdefghij", 1)], True),
])
def test_masked_maps_are_taken_apart_only_if_one_column_cannot_have_their_orders(records, apart):
    """With the keys of `fields`, all maps but the largest have the same keys; tables of different size order them."""
    step = {"fields": "a,h"}
    mask = MaskField()
    mask.configure(step)
    array, metadata = untyped([{key: one[key] for key in hash_order(one)} for one in records])
    batch = put(pa.record_batch({"topic": ["t"] * len(records)}), "value", array, metadata)
    assert bool(mask.groups(batch)) is apart
    found, _ = texts(records, ("MaskField$Value", step))
    assert found == [texts([one], ("MaskField$Value", step))[0][0] for one in records]
