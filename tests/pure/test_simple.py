"""Sources of one function: what is told where it answers something else."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

from spark_tasks.errors import ConfigError, DataError
from spark_tasks.simple import source


def reader(answer: Any) -> Any:
    def Ticks(options: Any, start: Any) -> Any:  # noqa: N802
        return answer

    return source("n bigint")(Ticks).data_source({"topic": "t"}).simpleStreamReader(StructType())


def test_rows_and_the_offset_behind_them() -> None:
    rows, end = reader(([(1,), (2,)], {"next": 3})).read({})
    assert (list(rows), end) == ([(1,), (2,)], {"next": 3})


@pytest.mark.parametrize(("answer", "shown"), [
    ([(1,)], "a list"), ([(1,), (2,)], "a list"), (None, "a NoneType"), (([(1,)], 5), "a list and a int"),
    ((), "an empty tuple"),
])
def test_something_else_is_told_in_the_function_s_name(answer: Any, shown: str) -> None:
    with pytest.raises(DataError, match=f"Ticks answers {shown}; a source answers two things"):
        reader(answer).read({})


def test_columns_that_are_forgotten() -> None:
    with pytest.raises(ConfigError, match="@source needs the columns"):
        source(lambda _options, _start: ([], {}))  # type: ignore[arg-type]
