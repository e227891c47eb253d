"""Sources of one function: the errors for invalid results."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

from spark_tasks.errors import DataError
from spark_tasks.plugins.function_source import source


def reader(answer: Any) -> Any:
    def Ticks(options: Any, start: Any) -> Any:
        return answer

    return source("n bigint")(Ticks).data_source({"topic": "t"}).simpleStreamReader(StructType())


def test_a_source_function_returns_rows_and_the_next_offset() -> None:
    rows, end = reader(([(1,), (2,)], {"next": 3})).read({})
    assert (list(rows), end) == ([(1,), (2,)], {"next": 3})


@pytest.mark.parametrize(("answer", "shown"), [
    ([(1,)], "a list"), ([(1,), (2,)], "a list"), (None, "a NoneType"), (([(1,)], 5), "a list and a int"),
    ((), "an empty tuple"),
])
def test_the_error_for_another_result_names_the_function(answer: Any, shown: str) -> None:
    with pytest.raises(DataError, match=f"Ticks returned {shown}; a source must return two values"):
        reader(answer).read({})


@pytest.mark.parametrize(("schema", "mistake"), [
    ("name strin", "@source: the schema 'name strin' cannot be parsed near 'name strin': unknown type strin"),
    ("name", "@source: the schema 'name' cannot be parsed near 'name': a name, type or string is missing"),
    ("", "@source needs at least one column"),
    ("a int, b int, a string", "@source: the schema 'a int, b int, a string' has the column a more than once"),
    ("id bigint, name string", None),
])
def test_an_invalid_schema_is_reported(schema: str, mistake: str | None) -> None:
    assert source(schema)(lambda _options, _start: ([], {})).mistake == mistake


def test_a_missing_schema_is_reported() -> None:
    forgotten: Any = source(lambda _options, _start: ([], {}))  # type: ignore[arg-type]
    assert forgotten.mistake.startswith("@source needs the schema of its rows, for example")
