"""Any Python data source of PySpark as a source: each of its rows becomes a record's value."""

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
    """One task. Streaming data sources go on where they were; of one that can only be read as a whole, the rows are
    read once. `option.<name>` is given to the data source as the option <name>.
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

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        return [dict(self.config)]

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        source = make(options)
        return source if has(type(source), *_STREAMS) else ReadOnce(source)

    @classmethod
    def exactly_once_support(cls, config: Options) -> bool | None:  # noqa: ARG003
        """Streaming data sources can be read from an offset again: PySpark requires it."""
        return True


class ReadOnce(DataSource):  # type: ignore[misc]  # PySpark has no types
    """A data source without a stream, as a stream that ends."""

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
    """Its offset is {"done": false}, then {"done": true}."""

    def __init__(self, reader: DataSourceReader) -> None:
        self._reader = reader

    @override
    def initialOffset(self) -> dict[str, Any]:
        return {"done": False}

    @override
    def latestOffset(self) -> dict[str, Any]:
        return {"done": True}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """All of the reader's, once."""
        if start["done"] or not end["done"]:
            return []
        whole = [InputPartition(None)]  # as Spark: a reader without partitions reads all at once
        try:
            return list(self._reader.partitions()) or whole
        except (PySparkNotImplementedError, NotImplementedError):
            return whole

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(self._reader.read(partition))
