"""Splits that share decoding and conversion have the results that they have apart."""

from __future__ import annotations

import pickle
import struct
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.kafka.records import encode
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins.errant_records import errant_record_reporter
from spark_tasks.plugins.origin import kafka_partition
from spark_tasks.sinks.shared_split import SharedSplit
from spark_tasks.sinks.split import SinkJob, SinkResult, SinkSplit

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
BAD = b"\xff{"


class Keeping(DataSourceArrowWriter):
    """Its message is what it was given, and for which partition."""

    def write(self, iterator: Any) -> Any:
        return kafka_partition(), [batch.to_pylist() for batch in iterator]


class Sleeping(DataSourceArrowWriter):
    def write(self, iterator: Any) -> Any:
        time.sleep(0.1)
        return len(list(iterator))


class Joining(Keeping):
    """Takes the records of several partitions in one call, unless some have `refused` as their value."""

    multi_partition = True

    def __init__(self, refused: str | None = None) -> None:
        self.refused = refused

    def write(self, iterator: Any) -> Any:
        place, batches = super().write(iterator)
        if place is None:
            with pytest.raises(RuntimeError):
                errant_record_reporter()
        if self.refused and any(row["value"] == self.refused for batch in batches for row in batch):
            raise ValueError(self.refused)
        return place, batches


class Failing(DataSourceArrowWriter):
    def write(self, iterator: Any) -> Any:
        raise ValueError(f"{len(list(iterator))} too many")


def split(
    topic: str, partition: int, values: Sequence[bytes | None], *, start: int = 0, converter: str = STRING,
    writer: DataSourceArrowWriter | None = None, compression: str | None = None, **config: str,
) -> SinkSplit:
    raw = pa.RecordBatch.from_pylist(
        [{"offset": 0, "timestamp": 5 + n, "key": b"%d" % n, "value": value, "headers": [{"key": "h", "value": b"v"}]}
         for n, value in enumerate(values)], schema=RAW_SCHEMA,
    )
    data = bytearray(encode(raw, compression=compression)[0].data) if values else bytearray()
    if values:
        struct.pack_into(">q", data, 0, start)
    connector = {"key.converter": STRING, "value.converter": converter, "value.converter.schemas.enable": "false",
                 **config}
    job = SinkJob({"bootstrap_servers": ["nowhere:1"]}, "read_uncommitted", "records", SinkPipeline({}, connector),
                  cloudpickle.dumps(writer or Keeping()), errors=errors(config, partition))
    return SinkSplit(pickle.dumps(job), topic, partition, start, start + len(values), held=bytes(data))


def errors(config: dict[str, str], task: int) -> ErrorHandling:
    """Those of the task with this number: each partition has its own."""
    return ErrorHandling("c", task, tolerant=config.get("errors.tolerance") == "all")


def essence(result: SinkResult) -> Any:
    """What does not depend on time and on memory layout."""
    error = None if result.failure is None else str(result.failure.error)
    return result._replace(seconds=0, size=0, figures=None, failure=None, blocked=0), error


texts = st.lists(st.text(max_size=5).map(str.encode), min_size=1, max_size=4)


@given(parts=st.lists(st.tuples(st.sampled_from(["t", "u"]), texts), min_size=1, max_size=5),
       compression=st.sampled_from([None, None, "gzip"]))
def test_shared_splits_have_the_results_of_single_ones(
    parts: list[tuple[str, list[bytes]]], compression: str | None
) -> None:
    splits = tuple(split(topic, n, values, start=10 * n, compression=compression if n == 1 else None)
                   for n, (topic, values) in enumerate(parts))
    assert list(map(essence, SharedSplit(splits).run())) == [essence(one.run()) for one in splits]


@pytest.mark.parametrize(
    ("converter", "values", "config"),
    [
        (JSON, [b'{"schema":{"type":"string"},"payload":"x"}'], {"value.converter.schemas.enable": "true"}),
        (JSON, [b'{"a":1}', BAD], {"errors.tolerance": "all"}),
        (JSON, [BAD], {}),
        (STRING, [b"x", None], {"transforms": "t", "transforms.t.field": "f",
                                "transforms.t.type": "org.apache.kafka.connect.transforms.HoistField$Value"}),
    ],
    ids=["schemas", "tolerated", "bad", "transforms"],
)
def test_records_that_cannot_be_converted_together_are_converted_apart(
    converter: str, values: list[bytes], config: dict[str, str]
) -> None:
    splits = (split("t", 0, [b'{"schema":{"type":"int32"},"payload":1}'], converter=converter, **config),
              split("t", 1, values, start=7, converter=converter, **config))
    assert list(map(essence, SharedSplit(splits).run())) == [essence(one.run()) for one in splits]


def test_the_error_of_a_writer_is_that_of_its_own_split() -> None:
    good, bad = split("t", 0, [b"x"]), split("t", 1, [b"y"], writer=Failing())
    results = SharedSplit((bad, good)).run()
    assert str(results[0].failure and results[0].failure.error) == "1 too many"
    assert results[1].failure is None
    assert (results[1].next_offset, results[1].records) == (1, 1)


def joint(*parts: tuple[str, int, Sequence[bytes | None]], writer: DataSourceArrowWriter) -> SharedSplit:
    return SharedSplit(tuple(split(topic, n, values, start=10 * n, writer=writer) for topic, n, values in parts))


@given(parts=st.lists(st.tuples(st.sampled_from(["t", "u"]), texts), min_size=1, max_size=5))
def test_a_writer_that_takes_several_partitions_is_called_once_for_each_topic(
    parts: list[tuple[str, list[bytes]]]
) -> None:
    shared = joint(*[(topic, n, values) for n, (topic, values) in enumerate(parts)], writer=Joining())
    for topic in {topic for topic, _ in parts}:
        apart = [one.run() for one in shared.splits if one.topic == topic]
        together = [result for result in shared.run() if result.topic == topic]
        assert [essence(one._replace(messages=())) for one in together] == [
            essence(one._replace(messages=())) for one in apart]
        rows = [row for one in apart for batch in one.messages[0][1] for row in batch]
        assert all(one.messages == ((None, [rows]),) for one in together)
        assert [one.figures and (one.figures.read, one.figures.written) for one in together] == [
            one.figures and (one.figures.read, one.figures.written) for one in apart]


def test_records_of_several_partitions_that_are_refused_are_written_apart() -> None:
    first, second = joint(("t", 0, [b"x"]), ("t", 1, [b"bad"]), writer=Joining(refused="bad")).run()
    assert first.failure is None
    assert first.messages[0][0] == ("t", 0)
    assert str(second.failure and second.failure.error) == "bad"


def test_tasks_with_different_configurations_are_written_apart() -> None:
    splits = split("t", 0, [b"x"], writer=Joining()), split("t", 1, [b"y"], writer=Joining("z"))
    assert [result.messages[0][0] for result in SharedSplit(splits).run()] == [("t", 0), ("t", 1)]


def test_earlier_records_that_are_held_are_left_out() -> None:
    first, second = split("t", 0, [b"a", b"b"]), split("t", 0, [b"c"], start=2)
    one = second._replace(held=first.held + second.held)
    (result,) = SharedSplit((one,)).run()
    assert [row["value"] for row in result.messages[0][1][0]] == ["c"]


def test_the_time_that_splits_share_counts_for_each() -> None:
    results = SharedSplit((split("t", 0, [b"x"]), split("t", 1, [b"y"]))).run()
    assert all({"decode", "convert", "write"} <= set(r.figures.seconds) for r in results if r.figures)


def test_a_split_that_blocks_the_others_is_noted() -> None:
    slow, quick = split("t", 0, [b"x"], writer=Sleeping()), split("t", 1, [b"y"])
    first, second = SharedSplit((slow, quick)).run()
    assert first.blocked > 0.08
    assert second.blocked < 0.05
