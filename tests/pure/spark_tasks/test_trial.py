"""What a trial shows of records."""

from __future__ import annotations

from typing import Any

from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import InputPartition

from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.trial import rows_of, shown
from tests.rigs.raw_records import JSON, raw_batch, worker

INSERTED = {"value.converter": JSON, "value.converter.schemas.enable": "false", "transforms": "i",
            "transforms.i.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.i.static.field": "s", "transforms.i.static.value": "v"}  # fmt: skip


def test_values_of_different_kinds_and_absent_keys_are_shown_as_they_are() -> None:
    texts = [b'{"a":{"m":1},"b":2}', b'{"a":{"m":"x"},"b":null}', b'{"b":3}']
    batches = SinkPipeline(worker(), INSERTED).to_connect_batches("t", 3, raw_batch(texts))
    assert [row["value"] for row in shown(batches)] == [
        {"a": {"m": 1}, "b": 2, "s": "v"}, {"a": {"m": "x"}, "b": None, "s": "v"}, {"b": 3, "s": "v"},
    ]


class Numbered:
    def read(self, partition: Any) -> Any:
        yield partition.value, TaskContext.get().partitionId()


def test_a_reader_has_the_context_of_a_spark_task_for_each_partition() -> None:
    partitions = [cloudpickle.dumps(InputPartition(name)) for name in "ab"]
    assert list(rows_of(Numbered(), partitions)) == [("a", 0), ("b", 1)]
