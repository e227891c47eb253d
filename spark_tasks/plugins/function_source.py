"""The decorator @source, which makes a source connector of a function that returns the new rows since an offset."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.data import ddl
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.plugins.api import Options, SourceConnector

Offset = dict[str, Any]
ReadNew = Callable[[Options, Offset], tuple[Iterable[tuple[Any, ...]], Offset]]
_OTHER_FUNCTIONS = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
_TOPIC = ConfigKey("topic", Type.STRING, importance=Importance.HIGH, doc="The topic to write to.")


class _Reader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, connector: type[SourceConnector], options: Options) -> None:
        self._connector: Any = connector  # pickled by reference; the function alone would be pickled by value
        self._options = dict(options)

    def initialOffset(self) -> Offset:  # noqa: N802 - PySpark's name
        return {}

    def read(self, start: Offset) -> tuple[Iterator[tuple[Any, ...]], Offset]:
        match self._connector.read_new(self._options, start):
            case rows, dict() as end:
                return iter(rows), end
            case other:
                raise DataError(f"{self._connector.__name__} returned {_shown(other)}; a source must return two "
                                "values: its new rows, and the offset after them, which is a dict")


def _shown(result: Any) -> str:
    parts = result if isinstance(result, tuple) else [result]
    return " and ".join(f"a {type(part).__name__}" for part in parts) or "an empty tuple"


class _FunctionSource(DataSource):  # type: ignore[misc]
    def __init__(self, options: Options, connector: type[SourceConnector], schema: str) -> None:
        super().__init__(dict(options))
        self._connector = connector
        self._schema = schema

    def schema(self) -> str:
        return self._schema

    def simpleStreamReader(self, schema: Any) -> _Reader:  # noqa: N802, ARG002 - PySpark's
        return _Reader(self._connector, self.options)


def source(schema: str) -> Callable[[ReadNew], type[SourceConnector]]:
    """Makes a function a source connector with one task. The function has the form `(options, start) -> (rows, end)`.

    `schema`: the schema of the rows as Spark DDL, such as "id bigint, name string". Each row is a tuple and becomes the
    value of a record. `start`: the last committed offset, {} at first. `end`: the `start` of the next call, a dict of
    JSON values. `options`: the connector's configuration, with `topic` and any keys that the function uses.

    Each call returns one batch, which should have at most about 100,000 rows. The function runs in an executor process,
    at first about ten times a second while it returns no rows. After a failure it is called again with the same
    `start`.
    """
    if not isinstance(schema, str):
        return _connector(schema, "", "@source needs the schema of its rows, for example "
                          '@source("id bigint, name string")')
    return lambda read_new: _connector(read_new, schema, _mistake(read_new, schema))


def _mistake(read_new: ReadNew, schema: str) -> str | None:
    if any(is_one(read_new) for is_one in _OTHER_FUNCTIONS):
        return (f"@source: {read_new.__name__} must return two values, its new rows and the offset after them; a "
                "function with yield or async does not")
    try:
        names = ddl.parse(schema).names
    except ConfigError as error:
        return f"@source: {error}"
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return f"@source: the schema {schema!r} has the column {twice[0]} more than once"
    return None if names else "@source needs at least one column"


def _connector(read_new: ReadNew, schema: str, mistake: str | None) -> type[SourceConnector]:
    def data_source(connector: type[SourceConnector], options: Options) -> DataSource:
        return _FunctionSource(options, connector, schema)

    members = {
        "__module__": read_new.__module__, "__doc__": read_new.__doc__, "yields": "rows", "mistake": mistake,
        "config_def": ConfigDef(_TOPIC), "data_source": classmethod(data_source), "read_new": staticmethod(read_new),
    }  # fmt: skip
    return type(read_new.__name__, (SourceConnector,), members)
