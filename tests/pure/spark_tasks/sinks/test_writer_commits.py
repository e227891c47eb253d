"""What a task does with its writer when executors have written a batch."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceWriter

from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.split import SinkResult
from spark_tasks.sinks.writer_commits import WriterCommits

WRITTEN = [SinkResult("t", 0, 5, 5, messages=("a", "b")), SinkResult("t", 1, 3, messages=(None,))]


class Silent(DataSourceWriter):
    def write(self, iterator: Any) -> Any: ...


class Noting(Silent):
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def commit(self, messages: Any) -> None:
        self.calls.append(("commit", messages))

    def abort(self, messages: Any) -> None:
        self.calls.append(("abort", messages))
        raise ValueError("the target is away")


def test_a_batch_with_records_is_committed_with_all_messages() -> None:
    writer = Noting()
    commits = WriterCommits(writer, TaskMetrics())
    commits.commit(WRITTEN[1:])
    assert writer.calls == [], "nobody has written anything"
    commits.commit(WRITTEN)
    assert writer.calls == [("commit", ["a", "b", None])]


def test_an_error_while_a_batch_is_aborted_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    writer = Noting()
    WriterCommits(writer, TaskMetrics()).abort(WRITTEN[:1])
    assert writer.calls == [("abort", ["a", "b"])]
    assert "the target is away" in caplog.text


@pytest.mark.parametrize(("writer", "empty"), [(Silent(), True), (Noting(), False)])
def test_whether_a_plugin_does_anything_when_a_batch_ends(writer: DataSourceWriter, empty: bool) -> None:
    assert WriterCommits(writer, TaskMetrics()).does_nothing is empty
