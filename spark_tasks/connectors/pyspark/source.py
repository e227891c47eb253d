"""A source that reads with any Python data source of PySpark. Each row becomes the value of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonEmpty, Type
from spark_tasks.connectors.pyspark.formats import FORMAT_KEYS, has, make, problems
from spark_tasks.plugins.api import Options, SourceConnector

_STREAMS = ("streamReader", "simpleStreamReader")


class PySparkSourceConnector(SourceConnector):
    """Reads a data source with one task. A streaming data source continues from its offset; a data source that supports
    only batch reads is read once. The setting `option.<name>` is the option <name> of the data source.
    """

    version = "0.1.0"
    yields = "rows"
    config_def: ClassVar[ConfigDef] = FORMAT_KEYS.plus(
        ConfigKey("topic", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH, doc="The topic to write to."),
    )

    @classmethod
    @override
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        return problems(config, "reader", *_STREAMS)

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        source = make(options)
        return source if has(type(source), *_STREAMS) else ReadOnce(source)

    @classmethod
    @override
    def exactly_once_support(cls, config: Options) -> bool | None:
        """Returns True, as PySpark requires that streaming data sources can be read again from an offset."""
        return True


class ReadOnce(DataSource):  # type: ignore[misc]  # PySpark has no types
    """Wraps a data source that supports only batch reads as a stream that ends."""

    def __init__(self, source: DataSource) -> None:
        super().__init__(source.options)
        self._source = source

    @override
    def schema(self) -> StructType | str:
        return self._source.schema()

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return OnceReader(self._source.reader(schema))


class OnceReader(DataSourceStreamReader):  # type: ignore[misc]  # PySpark has no types
    """Reads a data source once. The offset is {"done": false} before and {"done": true} after the read."""

    def __init__(self, reader: DataSourceReader) -> None:
        self._reader = reader

    @override
    def initialOffset(self) -> dict[str, Any]:
        return {"done": False}

    @override
    def latestOffset(self) -> dict[str, Any]:
        return {"done": True}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Returns all partitions of the reader for the first batch, none later."""
        if start["done"] or not end["done"]:
            return []
        whole = [InputPartition(None)]  # as in Spark, for a reader without partitions
        try:
            return list(self._reader.partitions()) or whole
        except (PySparkNotImplementedError, NotImplementedError):
            return whole

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(self._reader.read(partition))
