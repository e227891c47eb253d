"""The records for a sink task whose chain is cut: heeler's part of it runs in splits, as for a Python sink."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

from heeler.java_host.feed import FRAME_RECORDS, Feed
from heeler.java_host.pieces import whole_records
from spark_tasks.errors import ConnectError
from spark_tasks.futures import ended
from spark_tasks.host_frames import cut_records
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.metrics.task import SplitFigures, TaskMetrics
from spark_tasks.sinks.java_sink_split import BATCH_BYTES
from spark_tasks.sinks.positions import Positions
from spark_tasks.sinks.split import SinkResult, SinkSplit, within_reach
from spark_tasks.spark.executor import value_of
from spark_tasks.task import TaskContext

MAX_WAIT_S: Final = 1.0  # how long one step waits for a batch; messages are handled between steps
_FIRST_RECORD_BYTES: Final = 16 << 10  # assumed until the size of records is known

_Piece = tuple[TopicPartition, int, int, pa.RecordBatch | None]


class CutFeed(Feed):
    """A Feed of frames with Connect's records. `job`: see java_sink_job. `tolerant`: errors.tolerance is all."""

    def __init__(self, positions: Positions, context: TaskContext, job: bytes, *, tolerant: bool) -> None:
        self.batch: Future[list[Any]] | None = None
        self._job = job
        self._engine, self._task, self._wake = context.engine, context.id, context.wake
        self._metrics: TaskMetrics = context.metrics
        self._tolerant = tolerant
        self._ready: deque[_Piece] = deque()
        self._starts: dict[TopicPartition, int] = {}
        super().__init__(positions, {}, "read_uncommitted", 0, context.topic_used)
        self._record_bytes = _FIRST_RECORD_BYTES

    @override
    def open(self, positions: Any) -> None:
        super().open(positions)
        self._give_up()

    def _is_next(self, place: TopicPartition, start: int) -> bool:
        """Whether the host needs records from this offset. The others are dropped, and read again if it needs them: the
        plugin has paused the partition, or moved to another offset.
        """
        return place not in self._held and self._positions.at().get(place) == start

    def _give_up(self) -> None:
        """Drops records that the host has not been given; they are read again."""
        self._ready.clear()
        batch, self.batch = self.batch, None
        if batch is not None:
            self._engine.cancel(batch)

    @property
    @override
    def pending(self) -> bool:
        return self.batch is not None

    @override
    def next(self) -> bytes | None:
        """The next frame; None while heeler's part of the chain is running, which wakes the task when it is done.
        Raises its errors.
        """
        while self._ready and not self._is_next(*self._ready[0][:2]):
            self._ready.popleft()
        if not self._ready:
            self._collect()
        if not self._ready:
            return None
        place, start, end, part = self._ready.popleft()
        reset = self._expected.get(place) != start
        frame = cut_records(*place, start, end, part, reset=reset)
        rows = 0 if part is None else len(part)
        self._record_given(place, end, rows, 0 if part is None else part.nbytes)
        return frame

    def _collect(self) -> None:
        if self.batch is None and not self._submit():
            return
        batch = self.batch
        if batch is not None and not ended(batch, MAX_WAIT_S):
            return
        try:
            results: list[SinkResult] = batch.result() if batch is not None else []
        except CancelledError:
            self.batch = None
            raise ConnectError(f"the batch of {self._task} was cancelled") from None
        except Exception:
            self.batch = None
            raise
        self.batch = None
        self._take(results)

    def _submit(self) -> bool:
        """Submits a batch of the next records. Returns False if there are none."""
        partitions = max(1, len(self.at()))
        max_records = max(1, min(FRAME_RECORDS, int(BATCH_BYTES / max(self._record_bytes, 1.0) / partitions)))
        splits = [SinkSplit(self._job, *place, start, end, held=self._positions.held(place, start))
                  for place, start, end in self._positions.ranges(max_records) if place not in self._held]
        if not splits:
            return False
        self._starts = {(split.topic, split.partition): split.start for split in splits}
        self.batch = self._engine.submit(self._task, splits)
        self.batch.add_done_callback(lambda _: self._wake())
        return True

    def _take(self, results: Sequence[SinkResult]) -> None:
        results = [result for result in within_reach(results, self._positions.out_of_reach, self._task)
                   if self._is_next(place := (result.topic, result.partition), self._starts[place])]
        for result in results:
            result.refused.report_to(self._metrics, skipped=self._tolerant)
        for result in results:
            if result.failure is not None:
                value_of(result.failure)
        for result in results:
            place = result.topic, result.partition
            if result.out_of_range is not None:
                self._positions.out_of_range(*place, *result.out_of_range)
                continue
            pieces = list(_pieces(place, self._starts[place], result))
            self._ready += pieces
            self._count(result, sum(0 if part is None else len(part) for *_, part in pieces))

    def _count(self, result: SinkResult, left: int) -> None:
        """Counts the records that the chain has dropped; the `left` ones are counted when the host has finished
        them.
        """
        if result.records:
            self._record_bytes = result.size / result.records
        found = result.figures or SplitFigures()
        dropped = max(0, result.records - left)
        self._metrics.add_splits([SplitFigures(dropped, 0, 0, 0, found.seconds, found.plugins)])


def _pieces(place: TopicPartition, start: int, result: SinkResult) -> Iterator[_Piece]:
    """The records in pieces of about FRAME_BYTES at most; the last piece ends at the end of the read range. All results
    of one record are in the same piece, because each frame begins where the previous one ends.
    """
    batches = [batch for message in result.messages for batch in message or ()]
    parts = [part for batch in batches for part in whole_records(batch)]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        end = result.next_offset if last else part.column("offset")[len(part) - 1].as_py() + 1
        yield place, start, end, part
        start = end
    if not parts and start < result.next_offset:
        yield place, start, result.next_offset, None
