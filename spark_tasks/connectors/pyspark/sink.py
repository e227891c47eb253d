"""A sink that writes with any Python data source of PySpark. The fields of the values are the columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.connectors.pyspark.formats import FORMAT_KEYS, make, problems
from spark_tasks.data.rows import spark_schema, write_batches
from spark_tasks.plugins.api import Options, SinkConnector


class PySparkSinkConnector(SinkConnector):
    """Writes with a data source in append mode, with at-least-once delivery: a commit may be repeated after a crash.
    The setting `option.<name>` is the option <name> of the data source.
    """

    version = "0.1.0"
    accepts = "rows"
    config_def = FORMAT_KEYS

    @classmethod
    @override
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        return problems(config, "writer")

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        return AnySink(make(options))


class AnySink(DataSource):  # type: ignore[misc]  # PySpark has no types
    """Wraps a data source, and gets its writers only when the columns of the data are known."""

    def __init__(self, source: DataSource) -> None:
        super().__init__(source.options)
        self._source = source

    @override
    def schema(self) -> StructType | str:
        return self._source.schema()

    @override
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return AnyWriter(self._source)


@dataclass
class Wrapped(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no types
    """The commit messages of the data source's writers, each with its writer, pickled before it wrote."""

    messages: list[tuple[bytes, WriterCommitMessage | None]]


class AnyWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """Uses a separate writer of the data source for each schema in the data. As in Spark, a writer that writes is a
    copy of the one that commits: it may have made up the name of a temporary folder when it was created.
    """

    def __init__(self, source: DataSource) -> None:
        self._source = source

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrapped:
        messages = []
        groups = itertools.groupby(iterator, key=lambda batch: batch.schema.remove_metadata())
        for schema, batches in groups:
            writer = cloudpickle.dumps(self._source.writer(spark_schema(schema), False))
            messages.append((writer, write_batches(cloudpickle.loads(writer), batches)))
        return Wrapped(messages)

    @override
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        for writer, own in _by_writer(messages):
            writer.commit(own)

    @override
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        for writer, own in _by_writer(messages):
            writer.abort(own)


def _by_writer(
    messages: Sequence[WriterCommitMessage | None],
) -> Iterator[tuple[DataSourceWriter, list[WriterCommitMessage | None]]]:
    """Yields each writer with its messages. Equal writers count as one."""
    by_writer: dict[bytes, list[WriterCommitMessage | None]] = {}
    for message in messages:
        for writer, own in message.messages if isinstance(message, Wrapped) else ():
            by_writer.setdefault(writer, []).append(own)
    for writer, own in by_writer.items():
        yield cloudpickle.loads(writer), own
