"""The parts of a data source that a task uses, and the errors for an author who has forgotten one."""

from __future__ import annotations

from threading import Lock
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_tasks.errors import ConnectError
from spark_tasks.tasks.data_sources import data_source_of, pickled, schema_of, stream_reader_of, writer_of
from tests.rigs.task_plugins import NotesConnector, Numbers, NumbersConnector, SimpleNumbers


class Bare(DataSource):  # type: ignore[misc]
    """Has nothing that a data source may have."""


class Forgetful(NumbersConnector):
    @classmethod
    def data_source(cls, options: Any) -> Any:  # noqa: ARG003
        return None


def test_a_data_source_without_a_schema_has_an_empty_one() -> None:
    assert schema_of(Bare({})) == StructType()


def test_simple_readers_are_distinguished_from_stream_readers(tmp_path: Any) -> None:
    options = {"folder": str(tmp_path)}
    assert [stream_reader_of(kind(options), StructType())[1] for kind in (Numbers, SimpleNumbers)] == [False, True]


def test_the_error_for_an_incomplete_data_source_names_it(tmp_path: Any) -> None:
    with pytest.raises(ConnectError, match=r"data source Bare has no streamReader\(schema\) or simpleStreamReader"):
        stream_reader_of(Bare({}), StructType())
    with pytest.raises(ConnectError, match=r"data source Bare has no writer\(schema, overwrite\)"):
        writer_of(Bare({}))
    assert writer_of(data_source_of(NotesConnector, {"folder": str(tmp_path)}))


def test_a_value_that_is_not_a_data_source_is_refused() -> None:
    with pytest.raises(ConnectError, match=r"Forgetful\.data_source\(\) returns a NoneType, not a PySpark DataSource"):
        data_source_of(Forgetful, {})


class Connected:
    def __init__(self) -> None:
        self.lock = Lock()


def test_the_error_for_a_reader_that_cannot_be_pickled_has_a_remedy() -> None:
    with pytest.raises(ConnectError, match=r"Connected cannot be sent to Spark's executors: cannot pickle '_thread.lock"
                       ".*where they are used"):
        pickled(Connected())
