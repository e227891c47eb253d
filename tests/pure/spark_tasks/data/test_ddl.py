"""Schema strings."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_tasks.data.ddl import parse
from spark_tasks.errors import ConfigError


def test_schemas_are_parsed_as_by_spark() -> None:
    assert parse("id BIGINT NOT NULL COMMENT 'the key', name: string") == StructType([
        StructField("id", LongType(), nullable=False), StructField("name", StringType()),
    ])  # fmt: skip
    assert parse("a array<struct<x:int,y:double>>, m MAP<STRING, ARRAY<timestamp>>") == StructType([
        StructField("a", ArrayType(StructType([StructField("x", IntegerType()), StructField("y", DoubleType())]))),
        StructField("m", MapType(StringType(), ArrayType(TimestampType()))),
    ])
    assert parse("d decimal(12, 3), e decimal, f dec(5), v varchar(10)") == StructType([
        StructField("d", DecimalType(12, 3)), StructField("e", DecimalType(10, 0)), StructField("f", DecimalType(5, 0)),
        StructField("v", StringType()),
    ])
    assert parse("`a b` int, `back``tick` int").names == ["a b", "back`tick"]
    assert parse("") == StructType()


@pytest.mark.parametrize(
    "text", ["id", "id int,", "id foo", "a array<int", "a map<int>", "a int; b int", "a decimal(x)"]
)
def test_an_invalid_schema_text_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        parse(text)
