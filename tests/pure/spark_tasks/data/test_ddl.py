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
    assert parse("t time, u TIME(3), struct int").simpleString() == "struct<t:time(6),u:time(3),struct:int>"
    assert parse("a timestamp without time zone, b timestamp with local time zone, c timestamp").simpleString() == (
        "struct<a:timestamp_ntz,b:timestamp,c:timestamp>")


def test_the_text_of_a_schema_is_a_schema() -> None:
    text = "struct<a:int,b:struct<c:array<string>>>"
    assert parse(text).simpleString() == text


@pytest.mark.parametrize(
    "text", ["id", "id int,", "id foo", "a array<int", "a map<int>", "a int; b int", "a decimal(x)",
             "struct<a:int>, b int", "a timestamp with time zone"]
)
def test_an_invalid_schema_text_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        parse(text)
