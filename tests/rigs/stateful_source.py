"""A source whose reader keeps a count in its process, and notes which process calls it; it can be told to hang."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader

from heeler import plugin_metrics
from spark_tasks.config.definition import ConfigDef
from spark_tasks.errors import DataError
from spark_tasks.plugins.api import Options, SourceConnector
from tests.rigs.task_processes import note_call


class CountingReader(DataSourceStreamReader):  # type: ignore[misc]
    """The nth plan ends at n. `do`: what `latestOffset` does once it is not the first time."""

    def __init__(self, options: Options) -> None:
        self.options = dict(options)
        self.plans = 0
        if options.get("do") == "fail":
            note_call(options, "made")
            raise DataError("wrong password")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's names
        note_call(self.options, "initial")
        return {"n": 0}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        note_call(self.options, "latest")
        self.plans += 1
        plugin_metrics().counter("plans_total").inc()
        if self.plans > 1:
            self.misbehave(self.options.get("do", ""))
        return {"n": self.plans}

    def misbehave(self, how: str) -> None:
        match how:
            case "hold":
                re.match("(a+)+$", "a" * 60 + "b")  # for ever, with the GIL
            case "sleep":
                time.sleep(3600)
            case "exit":
                os._exit(7)
            case "refuse":
                raise DataError("refused")
            case "session":
                SparkSession.builder.getOrCreate()
            case "wrapped":
                try:
                    SparkSession.builder.getOrCreate()
                except Exception as error:
                    raise ValueError("it failed") from error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        note_call(self.options, "partitions")
        return [InputPartition((start["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        for n in range(*partition.value):
            yield (str(n),)

    def commit(self, end: dict[str, Any]) -> None:
        if self.options.get("do") == "commit":
            SparkSession.builder.getOrCreate()
        note_call(self.options, f"commit-{end['n']}")

    def stop(self) -> None:
        note_call(self.options, "stop")


class Counting(DataSource):  # type: ignore[misc]
    def schema(self) -> str:
        return "value string"

    def streamReader(self, schema: Any) -> CountingReader:  # noqa: N802, ARG002
        if self.options.get("needs") == "session":
            SparkSession.builder.getOrCreate()
        return CountingReader(self.options)


class CountingConnector(SourceConnector):
    yields = "rows"
    config_def = ConfigDef()

    @classmethod
    def data_source(cls, options: Options) -> DataSource:
        return Counting(dict(options))


class SimpleReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: Options) -> None:
        self.options = dict(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        note_call(self.options, "initial")
        return {"n": 5}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[str]], dict[str, Any]]:
        return iter(()), start


class Simple(DataSource):  # type: ignore[misc]
    def schema(self) -> str:
        return "value string"

    def simpleStreamReader(self, schema: Any) -> SimpleReader:  # noqa: N802, ARG002
        return SimpleReader(self.options)


class SimpleConnector(CountingConnector):
    @classmethod
    def data_source(cls, options: Options) -> DataSource:
        return Simple(dict(options))
