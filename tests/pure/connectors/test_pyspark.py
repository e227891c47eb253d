# ruff: noqa: N802, ARG002 - the names and signatures are PySpark's
import pickle
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from spark_tasks.connectors.pyspark_sink import PySparkSinkConnector
from spark_tasks.connectors.pyspark_source import PySparkSourceConnector

HERE = __name__


class Counting(DataSource):
    def schema(self):
        return "id INT, name STRING"

    def streamReader(self, schema):
        return CountingReader(int(self.options["Most"]))


class CountingReader(DataSourceStreamReader):
    def __init__(self, most):
        self.most = most

    def initialOffset(self):
        return {"at": 0}

    def latestOffset(self):
        return {"at": self.most}

    def partitions(self, start, end):
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition):
        for i in range(*partition.value):
            yield (i, f"n{i}")


class Whole(DataSource):
    def schema(self):
        return "id INT"

    def reader(self, schema):
        return WholeReader()


class WholeReader(DataSourceReader):
    def read(self, partition):
        return iter([(1,), (2,)])


class Unsplit(Whole):
    def reader(self, schema):
        return UnsplitReader()


class UnsplitReader(DataSourceReader):
    def partitions(self):
        return []

    def read(self, partition):
        return iter([(partition.value,)])


class Parts(Whole):
    def reader(self, schema):
        return PartsReader()


class PartsReader(DataSourceReader):
    def partitions(self):
        return [InputPartition(i) for i in range(2)]

    def read(self, partition):
        return iter([(partition.value,)])


@dataclass
class Said(WriterCommitMessage):
    rows: list


class Keeping(DataSource):
    committed: list = []  # noqa: RUF012

    def writer(self, schema, overwrite):
        return (ByRow if self.options.get("by") == "row" else ByBatch)(schema)


class ByRow(DataSourceWriter):
    def __init__(self, schema):
        self.schema = schema

    def write(self, iterator):
        return Said([row.asDict() if isinstance(row, Row) else row for row in iterator])

    def commit(self, messages):
        Keeping.committed.append((self.schema.simpleString(), [row for m in messages for row in m.rows]))

    def abort(self, messages):
        Keeping.committed.append(("aborted", len(messages)))


class ByBatch(ByRow, DataSourceArrowWriter):
    def write(self, iterator):
        return Said([row for batch in iterator for row in batch.to_pylist()])


def source(kind, **options):
    config = {"topic": "t", "format": f"{HERE}:{kind}", **{f"option.{k}": v for k, v in options.items()}}
    return PySparkSourceConnector.data_source(config)


def test_streaming_source_gets_its_options():
    made = source("Counting", most="3")
    assert isinstance(made, Counting)
    reader = made.streamReader(None)
    (part,) = reader.partitions(reader.initialOffset(), reader.latestOffset())
    assert list(reader.read(part)) == [(0, "n0"), (1, "n1"), (2, "n2")]


@pytest.mark.parametrize(("kind", "rows"), [
    ("Whole", [(1,), (2,)]), ("Unsplit", [(None,)]), ("Parts", [(0,), (1,)]),
])  # fmt: skip
def test_a_source_without_a_stream_is_read_once(kind, rows):
    made = source(kind)
    assert made.schema() == "id INT"
    reader = cloudpickle.loads(cloudpickle.dumps(made.streamReader(None)))
    start, end = reader.initialOffset(), reader.latestOffset()
    assert [
        row for part in reader.partitions(start, end) for row in reader.read(pickle.loads(pickle.dumps(part)))
    ] == rows
    assert reader.partitions(end, end) == []


def test_the_schema_can_be_given():
    config = {"topic": "t", "format": f"{HERE}.Counting", "schema": "x BIGINT", "option.most": "1"}
    assert PySparkSourceConnector.data_source(config).schema().simpleString() == "struct<x:bigint>"


def test_formats_that_are_not_there():
    assert "no installed package" in PySparkSourceConnector.validate({"format": "nope"})["format"][0]
    assert "No module" in PySparkSinkConnector.validate({"format": "no.such.Thing"})["format"][0]
    assert "no PySpark DataSource" in PySparkSinkConnector.validate({"format": f"{HERE}:HERE"})["format"][0]
    assert PySparkSinkConnector.validate({"format": f"{HERE}:Keeping"}) == {}
    (error,) = PySparkSinkConnector.validate({"format": f"{HERE}:Whole"})["format"]
    assert error == f"Invalid value {HERE}:Whole for configuration format: it has no writer"
    (error,) = PySparkSourceConnector.validate({"format": f"{HERE}:Keeping"})["format"]
    assert error.endswith("it has no reader and no streamReader and no simpleStreamReader")
    assert [PySparkSourceConnector.validate({"format": f"{HERE}:{kind}"}) for kind in ("Whole", "Counting")] == [{}, {}]
    (error,) = PySparkSourceConnector.validate({"format": f"{HERE}:Whole", "schema": "id BIGIMT"})["schema"]
    assert "unknown type bigimt" in error


def test_a_format_by_name(monkeypatch, tmp_path):
    (tmp_path / "pyspark_sample.py").write_text(
        "from pyspark.sql.datasource import DataSource\n"
        "class DefaultSource(DataSource):\n"
        "    @classmethod\n"
        "    def name(cls): return 'sample'\n"
        "    def reader(self, schema): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert PySparkSourceConnector.validate({"format": "sample"}) == {}


@pytest.mark.parametrize("by", ["row", "batch"])
def test_sink_writers_get_the_columns_of_the_data(by):
    Keeping.committed.clear()
    made = PySparkSinkConnector.data_source({"format": f"{HERE}:Keeping", "option.by": by})
    writer = made.writer(None, overwrite=False)
    batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]}), pa.record_batch({"name": ["x"]})]
    message = pickle.loads(pickle.dumps(cloudpickle.loads(cloudpickle.dumps(writer)).write(iter(batches))))
    writer.commit([message, None])
    assert Keeping.committed == [
        ("struct<id:bigint>", [{"id": 1}, {"id": 2}, {"id": 3}]), ("struct<name:string>", [{"name": "x"}]),
    ]  # fmt: skip
    writer.abort([message])
    assert Keeping.committed[2:] == [("aborted", 1), ("aborted", 1)]
