"""A sink whose writer keeps a count in its process, and notes which process calls it; its commit can hang."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from spark_tasks.config.definition import ConfigDef
from spark_tasks.plugins.api import Options, SinkConnector
from tests.rigs.task_processes import note_call


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    count: int


class PlainWriter(DataSourceWriter):
    """Does nothing when a batch ends."""

    def __init__(self, options: Options) -> None:
        self.options = dict(options)
        note_call(self.options, "made")

    def write(self, iterator: Iterator[Any]) -> Written:
        return Written(sum(1 for _ in iterator))


class CountingWriter(PlainWriter):
    """Counts what it has committed. Its second commit holds the GIL for ever (`do=hold`) or ends the process (`exit`).
    """

    total = commits = 0

    def commit(self, messages: list[Any]) -> None:
        self.commits += 1
        if self.commits > 1 and self.options.get("do") == "hold":
            note_call(self.options, "holds")
            re.match("(a+)+$", "a" * 60 + "b")
        if self.commits > 1 and self.options.get("do") == "exit":
            os._exit(7)
        self.total += sum(one.count for one in messages)
        note_call(self.options, f"commit-{self.total}")

    def resume_from(self, topic: str, partition: int) -> int | None:  # noqa: ARG002
        note_call(self.options, "resume")
        return self.total


class Counting(DataSource):  # type: ignore[misc]
    def schema(self) -> str:
        return "value string"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        return PlainWriter(self.options) if self.options.get("plain") else CountingWriter(self.options)


class CountingSink(SinkConnector):
    config_def = ConfigDef()

    @classmethod
    def data_source(cls, options: Options) -> DataSource:
        return Counting(dict(options))
