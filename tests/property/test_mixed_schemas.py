"""A sink's records of several schemas in any order: the same results, in the same order, as for each record alone."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.data.columns import SCHEMA_KEY, in_order
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from tests.rigs.raw_records import JSON, raw_batch, worker

SCHEMAS = (
    {"type": "int32"}, {"type": "struct", "fields": [{"field": "a", "type": "string", "optional": True}]},
    {"type": "struct", "fields": [{"field": "b", "type": "int64"}]}, None,
)
PAYLOADS = (7, {"a": None}, {"b": 1}, {"c": [1]})
T = "org.apache.kafka.connect.transforms."
CHAIN = {
    "transforms": "where,first,tombstones", "transforms.where.type": f"{T}InsertField$Value",
    "transforms.where.offset.field": "at", "transforms.where.predicate": "tombstone", "transforms.where.negate": "true",
    "transforms.first.type": f"{T}HoistField$Key", "transforms.first.field": "k",
    "transforms.tombstones.type": f"{T}Filter", "transforms.tombstones.predicate": "tombstone",
    "predicates": "tombstone", "predicates.tombstone.type": f"{T}predicates.RecordIsTombstone",
}
parts = st.none() | st.integers(0, len(SCHEMAS) - 1) | st.just("bad")


def written(part):
    if part is None:
        return None
    if part == "bad":
        return b"{"
    return json.dumps({"schema": SCHEMAS[part], "payload": PAYLOADS[part]}).encode()


def shown(batch):
    schemas = [(batch.schema.field(part).metadata or {}).get(SCHEMA_KEY) for part in ("key", "value")]
    return [(row["offset"], row["key"], row["key"] is not None and schemas[0],
             row["value"], row["value"] is not None and schemas[1]) for row in batch.to_pylist()]


def converted(pipeline, raw):
    refused = []
    batches = in_order(pipeline.to_connect_by_schema(
        "t", 0, raw, lambda failure: refused.append((failure.row, failure.stage, str(failure.error)))))
    return [row for batch in batches for row in shown(batch)], refused


@example([(None, 0), (1, 1), (None, 0), (0, "bad"), (1, 2), ("bad", 0), (0, 2), (0, None)], True)
@example([(None, 1), (None, None), (1, 2), (None, 1), (None, "bad"), (2, 2), (3, 1)], False)
@given(st.lists(st.tuples(parts, parts), min_size=5, max_size=16), st.booleans())
def test_records_of_several_schemas_are_converted_as_each_alone(kinds, with_transforms):
    config = {"topics": "t", **(CHAIN if with_transforms else {})}
    pipeline = SinkPipeline(worker(**{"key.converter": JSON, "value.converter": JSON}), config)
    raw = raw_batch([written(value) for _, value in kinds], offset=5, keys=[written(key) for key, _ in kinds])
    found, refused = converted(pipeline, raw)
    alone = [converted(pipeline, raw.slice(row, 1)) for row in range(len(raw))]
    assert found == [row for rows, _ in alone for row in rows]
    expected = [(row, *rest) for row, (_, failures) in enumerate(alone) for _, *rest in failures]
    assert sorted(refused, key=lambda one: one[0]) == expected
