"""What a task does with its writer when executors have written a batch."""

from __future__ import annotations

from typing import Any

import pytest

from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.sinks.split import SinkResult
from spark_tasks.sinks.writer_commits import WriterCommits

WRITTEN = [SinkResult("t", 0, 5, 5, messages=("a", "b")), SinkResult("t", 1, 3, messages=(None,))]


class Noting:
    """In the place of a TaskWriter."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def commit(self, messages: Any) -> None:
        self.calls.append(("commit", messages))

    def abort(self, messages: Any) -> None:
        self.calls.append(("abort", messages))
        raise ValueError("the target is away")


def commits_of(writer: Any) -> WriterCommits:
    return WriterCommits(writer, TaskMetrics())


def test_a_batch_with_records_is_committed_with_all_messages() -> None:
    writer = Noting()
    commits = commits_of(writer)
    commits.commit(WRITTEN[1:])
    assert writer.calls == [], "nobody has written anything"
    commits.commit(WRITTEN)
    assert writer.calls == [("commit", ["a", "b", None])]


def test_an_error_while_a_batch_is_aborted_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    writer = Noting()
    commits_of(writer).abort(WRITTEN[:1])
    assert writer.calls == [("abort", ["a", "b"])]
    assert "the target is away" in caplog.text
