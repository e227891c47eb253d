"""Commits a batch of a sink's replay: to the writer, and its progress in the connector's consumer group."""

from __future__ import annotations

from collections.abc import Callable

from spark_tasks.dead_letters.replay.letter_range import LetterRange
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.sinks.pending_offsets import COMMIT_TIMEOUT_MS
from spark_tasks.sinks.replay_split import ReplayResult
from spark_tasks.sinks.task_writer import TaskWriter
from spark_tasks.spark.executor import value_of


def commit_replay(
    part: LetterRange, result: ReplayResult, writer: TaskWriter | None, consumer: GroupConsumer,
    may_commit: Callable[[], bool], abort: Callable[[ReplayResult], None],
) -> bool:
    """Commits a batch, or returns False if the task is no longer the member that it was when the batch began
    (`may_commit`). Raises the error of a split that has failed, of the writer, and of Kafka.
    """
    if result.failure is not None:
        abort(result)
        value_of(result.failure)
    if part.order.dry_run:
        return True
    if not may_commit():
        abort(result)
        return False
    if result.messages and writer is not None:
        writer.commit(list(result.messages))
    done = result.counts.done
    consumer.commit({(part.queue, part.partition): done.low}, COMMIT_TIMEOUT_MS, done.metadata())
    return True
