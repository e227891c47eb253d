"""Converts rows of any Arrow types to values of Connect records, and to PySpark's Rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_tasks.data.arrow_types import from_arrow, to_arrow, with_child_types
from spark_tasks.data.columns import SCHEMA_KEY, struct_array
from spark_tasks.data.schema import to_text
from spark_tasks.errors import ConnectError, DataError


def plain(array: pa.Array) -> pa.Array:
    """Casts an array to the Arrow type of its Connect schema, also what it contains: decodes dictionaries, replaces
    large, view and fixed-size types. Times keep their unit. Raises DataError for an unsigned number of more than 63
    bits, which no type of Connect has.
    """
    wanted = _plain_type(array.type)
    try:
        return array if array.type == wanted else array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise DataError(f"a value of type {array.type} does not fit Kafka Connect's type {wanted}: {error}") from error


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _plain_type(pa.list_(kind.value_field))
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_list(kind):
        return with_child_types(kind, _plain_type)
    return _plain_scalar(kind)


@lru_cache(maxsize=1000)
def _plain_scalar(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return kind
    return to_arrow(from_arrow(kind))


def as_value(batch: pa.RecordBatch) -> pa.StructArray:
    """Returns each row as one struct."""
    columns = [plain(column) for column in batch.columns]
    fields = [f.with_type(column.type).remove_metadata() for f, column in zip(batch.schema, columns, strict=True)]
    return struct_array(columns, fields, len(batch), None)


def value_field(schema: pa.Schema) -> dict[bytes, bytes]:
    """Returns the metadata of the column that `as_value` returns: the Connect schema for the rows' types."""
    return {SCHEMA_KEY: to_text(from_arrow(pa.struct(list(schema)), optional=False)).encode()}


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns Spark's schema for batches of this Arrow schema."""
    return from_arrow_schema(pa.schema([field.with_type(_known_to_spark(field.type)) for field in schema]))


def spark_rows(batch: pa.RecordBatch) -> list[Row]:
    """Returns the rows as PySpark passes them to a DataSourceWriter: structs as Rows, maps as dicts, timestamps as
    naive datetimes in local time.
    """
    rows: list[Row] = ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), spark_schema(batch.schema))
    return rows


def write_batches(writer: DataSourceWriter, batches: Iterable[pa.RecordBatch]) -> Any:
    """Writes the batches and returns the writer's commit message. A writer that does not take Arrow gets Rows. Raises
    ConnectError if `write` is a generator, which has written nothing.
    """
    by_row = (row for batch in batches for row in spark_rows(batch))
    message = writer.write(iter(batches) if isinstance(writer, DataSourceArrowWriter) else by_row)
    if isinstance(message, Generator):
        raise ConnectError(f"{type(writer).__name__}.write() contains yield, so it writes nothing when it is called; "
                           "it must write all records, and return a WriterCommitMessage or None")
    return message


def _known_to_spark(kind: pa.DataType) -> pa.DataType:
    """Replaces times of day in milliseconds, as Connect has them, with nanoseconds, which Spark requires."""
    if pa.types.is_time32(kind):
        return pa.time64("ns")
    return with_child_types(kind, _known_to_spark)
