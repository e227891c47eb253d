"""Gets readers, writers and schemas from a connector's PySpark data source. Errors name the method that is missing."""

from __future__ import annotations

from pickle import PicklingError
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_tasks.data import ddl
from spark_tasks.errors import ConnectError
from spark_tasks.plugins.api import Connector, Options

_MISSING = (PySparkNotImplementedError, NotImplementedError)


def data_source_of(connector: type[Connector], config: Options) -> DataSource:
    """Returns the data source of a task. `config`: the task's configuration. Raises ConnectError."""
    source = connector.data_source(dict(config))
    if not isinstance(source, DataSource):
        raise ConnectError(
            f"{connector.__qualname__}.data_source() returns a {type(source).__name__}, not a PySpark DataSource")
    return source


def schema_of(source: Any) -> StructType:
    """Returns the data source's schema, which is empty if it has none: for Connect records none is needed."""
    try:
        schema = source.schema()
    except _MISSING:
        return StructType()
    return ddl.parse(schema) if isinstance(schema, str) else schema


def stream_reader_of(source: Any, schema: StructType) -> tuple[Any, bool]:
    """Returns the data source's stream reader and whether it is a SimpleDataSourceStreamReader. Raises ConnectError."""
    try:
        return source.streamReader(schema), False
    except _MISSING:
        pass
    try:
        return source.simpleStreamReader(schema), True
    except _MISSING as error:
        raise _without(source, "streamReader(schema) or simpleStreamReader(schema), so nothing can be read from it"
                       ) from error


def writer_of(source: Any) -> Any:
    """Returns the data source's writer, for appending. Raises ConnectError."""
    try:
        return source.writer(schema_of(source), False)
    except _MISSING as error:
        raise _without(source, "writer(schema, overwrite), so nothing can be written to it") from error


def pickled(plugin: Any) -> bytes:
    """Pickles a reader, writer or partition for executors. Raises ConnectError."""
    try:
        pickled: bytes = cloudpickle.dumps(plugin)
    except (TypeError, PicklingError) as error:
        what = f"{type(plugin).__qualname__} cannot be sent to Spark's executors: {error}"
        remedy = "create connections, locks and similar objects where they are used, in read() or write()"
        raise ConnectError(f"{what}; {remedy}") from error
    return pickled


def _without(source: Any, what: str) -> ConnectError:
    return ConnectError(f"the data source {type(source).__qualname__} has no {what}")
