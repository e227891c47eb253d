"""A sink in a page of Python for a table of a real PostgreSQL, one connection for each executor process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from heeler import ConfigDef, ConfigKey, SinkConnector, Type


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """Writes all records of a call in one transaction, or none."""

    connections: ClassVar[dict[str, psycopg.Connection]] = {}

    def __init__(self, port: int) -> None:
        self.server = f"host=127.0.0.1 port={port} user=postgres"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Values are structs whose fields are columns of the table."""
        connection = self.connections.get(self.server)
        if connection is None or connection.closed:
            connection = self.connections[self.server] = psycopg.connect(self.server)
        with connection.transaction(), connection.cursor() as cursor:
            for batch in iterator:
                value = batch.column("value")
                names = ", ".join(field.name for field in value.type)
                columns = [value.field(at).to_pylist() for at in range(value.type.num_fields)]
                with cursor.copy(f"COPY target ({names}) FROM STDIN") as copy:  # type: ignore[arg-type]
                    for row in zip(*columns, strict=True):
                        copy.write_row(row)
        return WriterCommitMessage()


class Table(DataSource):  # type: ignore[misc]  # PySpark has no types
    """The table `target`."""

    def writer(self, schema: Any, overwrite: bool) -> TableWriter:  # noqa: ARG002  # PySpark's signature
        """For the server at the option's port."""
        return TableWriter(int(self.options["port"]))


class TableSinkConnector(SinkConnector):
    """JSON objects into rows."""

    config_def = ConfigDef(ConfigKey("port", Type.INT, doc="The server's port."))

    @classmethod
    def data_source(cls, options: dict[str, str]) -> Table:
        """The table."""
        return Table(options)
