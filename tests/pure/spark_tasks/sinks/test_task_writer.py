"""A task's writer on the worker; integration/test_task_writer.py has those in processes of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pyspark.sql.datasource import DataSource, DataSourceWriter

from spark_tasks.config.definition import ConfigDef
from spark_tasks.plugins.api import Options, SinkConnector
from spark_tasks.sinks.task_writer import TaskWriter
from tests.rigs.tasks import ThreadEngine, context_of

calls: list[Any] = []


class Silent(DataSourceWriter):
    def write(self, iterator: Any) -> Any: ...


class Noting(Silent):
    def commit(self, messages: Any) -> None:
        calls.append(("commit", messages))

    def abort(self, messages: Any) -> None:
        calls.append(("abort", messages))


class Resuming(Silent):
    def resume_from(self, topic: str, partition: int) -> int | None:
        calls.append((topic, partition))
        return 7


class Source(DataSource):  # type: ignore[misc]
    kinds: ClassVar[Any] = {"silent": Silent, "noting": Noting, "resuming": Resuming}

    def schema(self) -> str:
        return "value string"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        return self.kinds[self.options["kind"]]()  # type: ignore[no-any-return]


class Connector(SinkConnector):
    config_def = ConfigDef()

    @classmethod
    def data_source(cls, options: Options) -> DataSource:
        return Source(dict(options))


def opened(kind: str) -> TaskWriter:
    calls.clear()
    writer = TaskWriter(context_of(ThreadEngine(), {}, {"name": "c", "kind": kind}, lambda: None), Connector)
    assert kind.capitalize().encode() in writer.open()
    return writer


@pytest.mark.parametrize(("kind", "nothing"), [("silent", True), ("noting", False), ("resuming", True)])
def test_whether_a_plugin_does_anything_when_a_batch_ends(kind: str, nothing: bool) -> None:
    assert opened(kind).commits_nothing is nothing


def test_only_what_the_plugin_defines_is_called() -> None:
    silent = opened("silent")
    silent.commit(["a"])
    silent.abort(["b"])
    assert silent.resume_from is None
    noting = opened("noting")
    noting.commit(["a"])
    noting.abort(["b"])
    assert calls == [("commit", ["a"]), ("abort", ["b"])]


def test_a_writer_that_knows_where_to_resume() -> None:
    resume_from = opened("resuming").resume_from
    assert resume_from is not None
    assert resume_from("t", 3) == 7
    assert calls == [("t", 3)]
