"""Transforms that are written as one function of a record or of a batch.

The function gets a record's values as Python values: dict for a struct or a map, int, float, str, bytes, Decimal, and
datetime (UTC) for Connect's Date, Time and Timestamp, which it may set to a date or a time as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef
from spark_tasks.data.arrow_types import fitting_decimal, from_arrow, to_arrow
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type
from spark_tasks.errors import ConfigError, ConnectError, DataError
from spark_tasks.limits import MAX_DEPTH
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.java_values import Moment, Struct, is_number
from spark_tasks.pipeline.converters.long_decimals import with_long_decimals
from spark_tasks.pipeline.errors.failures import class_of
from spark_tasks.pipeline.errors.outages import is_of_machine, is_outage
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.columns_or_rows import Record as Row
from spark_tasks.pipeline.transforms.columns_or_rows import put, read_records, write_records
from spark_tasks.pipeline.transforms.java_casts import cast

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SMALL = (Type.INT8, Type.INT16, Type.INT32, Type.FLOAT32)


@dataclass(slots=True)
class Record:
    """One record. All but `offset` can be changed. `timestamp`: ms since the epoch. `headers`: names and bytes."""

    topic: str | None
    partition: int | None
    offset: int | None  # None in a source
    timestamp: int | None
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def _raised(name: str, error: Exception) -> DataError:
    """The error of a record for which the function `name` has raised one, whose class and trace dead letters have."""
    made = DataError(f"{name} raised {error!r}")
    made.java_class = class_of(error)
    made.__cause__ = error
    return made


class _FunctionTransform(Transform):
    """The base class of transforms from @transform."""

    function: Callable[..., Any]
    by_batches = False

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        self._options: Mapping[str, Any] = self.config_def.parse(configs) if len(self.config_def) else dict(configs)
        takes = len(inspect.signature(self.function).parameters)
        self._more = (self._options,) if takes > 1 else ()

    @override
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        if not len(batch):
            return batch
        return self._batch(batch) if self.by_batches else self._records(batch)

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        try:
            returned = self.function(batch, *self._more)
        except ConnectError:
            raise
        except Exception as error:  # the function is plugin code
            if is_outage(error) or is_of_machine(error):
                raise
            raise _raised(type(self).__name__, error) from error
        if returned is None:
            return []
        if not isinstance(returned, pa.RecordBatch | list | tuple):
            raise DataError(f"{type(self).__name__} returned a {type(returned).__name__}; return a pyarrow.RecordBatch")
        return returned

    def _records(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        rows = read_records(batch, ("key", "value", "headers"))
        kept, bad = [], list[tuple[int, Exception]]()
        for number, row in enumerate(rows):
            try:
                if self._changed(row):
                    kept.append(number)
            except DataError as error:
                bad.append((number, error))
            except ConnectError:
                raise
            except Exception as error:  # the function is plugin code
                if is_outage(error) or is_of_machine(error):
                    raise
                bad.append((number, _raised(type(self).__name__, error)))
        if bad:
            raise BadRowsError(bad)
        if len(kept) < len(rows):
            rows, batch = [rows[number] for number in kept], batch.take(pa.array(kept, pa.int64()))
        if not rows:
            return []
        for name, kind in (("topic", pa.string()), ("partition", pa.int32()), ("timestamp", pa.int64())):
            column = pa.array([getattr(row, name) for row in rows], kind)
            if name in batch.schema.names or column.null_count < len(column):
                batch = put(batch, name, column.dictionary_encode() if name == "topic" else column)
        parts = [part for part in ("key", "value", "headers") if part in batch.schema.names or self._has(rows, part)]
        return write_records(batch, rows, parts)

    @staticmethod
    def _has(rows: list[Row], part: str) -> bool:
        return any(getattr(row, part) not in (None, []) for row in rows)

    def _changed(self, row: Row) -> bool:
        """Calls the function with the record. Returns False if it drops the record."""
        values = plain(row.key), plain(row.value)
        record = Record(row.topic, row.partition, row.offset, row.timestamp, *values, row.headers)
        returned = self.function(record, *self._more)
        if returned is None:
            return False
        if not isinstance(returned, Record):
            raise DataError(f"{type(self).__name__} returned a {type(returned).__name__}; return the record, or None "
            "to drop it")  # fmt: skip
        if returned.topic is None and row.topic is not None:
            raise DataError(f"{type(self).__name__} returned a record whose topic is None; set a topic, or return None "
            "to drop the record")  # fmt: skip
        row.topic, row.partition, row.timestamp = returned.topic, returned.partition, returned.timestamp
        row.headers = list(returned.headers)
        for part, value in (("key", returned.key), ("value", returned.value)):
            row.set(part, *java(value, row.get(part)[0]))
        return True


def plain(value: Any) -> Any:
    """Converts a value of a Java class to a Python value."""
    if isinstance(value, Struct):
        return {field.name: plain(value.values.get(field.name)) for field in value.schema.fields}
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Moment):
        return _EPOCH + timedelta(milliseconds=value.millis)
    return value.item() if isinstance(value, np.generic) else value


def java(value: Any, schema: Schema | None) -> tuple[Schema | None, Any]:
    """Converts a Python value to its schema and a value of a Java class. `schema`: the schema before the change;
    removed fields are dropped from it, new ones are optional.
    """
    if schema is None or value is None:
        return schema if value is not None else None, _java_value(value)
    if schema.type is Type.STRUCT:
        return _struct(value, schema)
    if schema.type is Type.ARRAY and schema.value and isinstance(value, list):
        inner = schema.value
        return schema, [java(item, inner)[1] for item in value]
    if schema.type is Type.MAP and schema.value and isinstance(value, dict):
        inner = schema.value
        return schema, {_java_value(name): java(one, inner)[1] for name, one in value.items()}
    java_value = _java_value(value)
    if schema.logical == DECIMAL and isinstance(java_value, Decimal | int) and not isinstance(java_value, bool):
        return schema, _scaled(Decimal(java_value), schema)
    return schema, _small(java_value, schema.type) if schema.type in _SMALL and not schema.logical else java_value


def _scaled(value: Decimal, schema: Schema) -> Decimal:
    try:
        return fitting_decimal(value, to_arrow(with_long_decimals(schema)))
    except ValueError as error:
        raise DataError(f"a value does not fit schema type {schema.type.name}: {error}") from None


def _small(value: Any, kind: Type) -> Any:
    """Returns a number as one of the small type. Raises DataError if it does not fit: a cast cuts bits or decimal
    places off. Anything but a number remains unchanged; the record's schema refuses it.
    """
    if not is_number(value):
        return value
    try:
        small = cast(float(value) if kind is Type.FLOAT32 else value, kind)
        fits = np.isfinite(small) or not np.isfinite(float(value)) if kind is Type.FLOAT32 else small == value
    except OverflowError:
        fits = False
    if not fits:
        raise DataError(f"{value} does not fit schema type {kind.name}")
    return small


def _struct(value: Any, schema: Schema) -> tuple[Schema | None, Any]:
    if not isinstance(value, dict):
        return _inferred(value), _java_value(value)
    known = {field.name: field.schema for field in schema.fields}
    names = [field.name for field in schema.fields if field.name in value]
    names += [name for name in value if name not in known]
    fields, values = [], {}
    for name in names:
        kind, found = java(value[name], known.get(name) or _inferred(value[name]))
        fields.append(Field(name, kind or known.get(name) or _inferred(value[name])))
        values[name] = found
    changed = schema if tuple(fields) == schema.fields else replace(schema, fields=tuple(fields), default=None)
    struct = Struct(changed)
    for name, one in values.items():
        struct.put(name, one)
    return changed, struct


def _inferred(value: Any) -> Schema:
    _java_value(value)  # PyArrow would end the process if a value contains itself
    return from_arrow(pa.array([value]).type)


def _java_value(value: Any, level: int = 0) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, date | time):
        return Moment.of(value)
    if level > MAX_DEPTH:
        raise DataError(f"a value is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        return {name: _java_value(one, level + 1) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_java_value(item, level + 1) for item in value]
    if value is None or isinstance(value, bool | int | float | str | bytes | Decimal):
        return value
    raise DataError(f"a {type(value).__name__} cannot be a value of a record")


def transform(
    function: Callable[..., Any] | None = None, *, batches: bool = False, config: ConfigDef | None = None,
    adds_records: bool = False,
) -> Any:
    """Makes a transform from a function `(record) -> record`; the function returns None to drop the record.

    `batches`: the function gets and returns a pyarrow.RecordBatch (data/columns.py describes its columns), which is
    hundreds of times faster; with `adds_records` it may return several records for one. `config`: the definition of its
    keys. A second parameter of the function gets their values as a dict; without `config`, all keys with the prefix
    `transforms.<alias>.`, as texts. A record for which the function raises an exception is a bad record, except for
    outages (a ConnectionError, TimeoutError or RetriableError, see `is_outage`): the batch is tried again.
    """
    if function is not None and not callable(function):
        raise ConfigError("@transform must decorate a function")
    if adds_records and not batches:
        raise ConfigError("@transform with adds_records needs batches=True: a function of a record returns one or none")

    def decorate(found: Callable[..., Any]) -> type[Transform]:
        members = {
            "__module__": found.__module__, "__doc__": found.__doc__, "function": staticmethod(found),
            "by_batches": batches, "config_def": config or ConfigDef(), "adds_records": adds_records,
        }  # fmt: skip
        return type(found.__name__, (_FunctionTransform,), members)

    return decorate if function is None else decorate(function)
