"""The executor's part of a replay: reads a range of the dead letter queue, and sends the original records of its
letters through the connector's pipeline to the plugin's writer.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import in_order, one_topic
from spark_tasks.dead_letters.letters import MARKER, DeadLetters, Rows, Run, runs
from spark_tasks.dead_letters.refusals import NONE_REFUSED, Original, Refusals, Refused
from spark_tasks.dead_letters.replay.letter_range import LetterRange, ReplayCounts, Tally
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.pipeline.errors.failures import Failure
from spark_tasks.plugins.origin import Place
from spark_tasks.sinks.rejection_streak import RejectionStreak
from spark_tasks.sinks.split import SinkJob, SinkResult
from spark_tasks.sinks.writes import WriterRunner, put_failure, raise_if_outage
from spark_tasks.spark.executor import Outcome, failed_outcome


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a ReplaySplit. If `failure` is set, the split has failed and `counts` is not used. `messages`: the
    writer's commit messages.
    """

    counts: ReplayCounts
    messages: tuple[Any, ...] = ()
    refused: Refused = NONE_REFUSED
    failure: Outcome | None = None


def messages_of(results: Sequence[SinkResult | ReplayResult]) -> list[Any]:
    """The writer's commit messages of all results."""
    return [message for result in results for message in result.messages]


@dataclass(frozen=True, slots=True)
class ReplaySplit:
    """Replays the letters of a range. `job`: a pickled SinkJob. A sink that stores offsets itself gets the records with
    the offsets of their letters in the queue.
    """

    job: bytes
    part: LetterRange

    def run(self) -> ReplayResult:
        """Reads the letters, chooses those to replay, and writes their records. Errors are returned in the result."""
        job: SinkJob = pickle.loads(self.job)
        refusals, part = Refusals(job.errors), self.part
        tally, messages = Tally(part), list[Any]()
        try:
            for raw in read_range(
                shared_cluster(job.client), part.queue, part.partition, part.start, part.end,
                isolation="read_committed", max_record_bytes=job.max_record_bytes,
            ):
                letters = DeadLetters.of(raw)
                rows = tally.choose(letters, letters.whole() & letters.are_of(job.errors.connector))
                if len(rows) and not part.order.dry_run:
                    messages.extend(self._put(job, letters, rows, refusals))  # also those before an error
                if refusals.full:
                    refusals.send_apart()
                if tally.full:
                    break
            refusals.send_apart()
        except Exception as error:  # noqa: BLE001 - converters, transforms and writers are plugin code
            return ReplayResult(ReplayCounts(part.start, part.done), tuple(messages), failure=failed_outcome(error))
        return ReplayResult(tally.result(), tuple(messages), refusals.refused)

    def _put(self, job: SinkJob, letters: DeadLetters, rows: Rows, refusals: Refusals) -> Iterator[Any]:
        part = self.part
        ordered = part.resume is not None
        prefix = f"{part.queue}-{part.partition}-"

        def mark(offset: int) -> bytes | None:
            return job.pipeline.header_of(part.queue, MARKER, f"{prefix}{offset}")

        given: list[_Given] = []
        for run in runs(letters, rows, mark, ordered=ordered):
            refuse = partial(_refuse, run, refusals)
            batches = in_order(job.pipeline.to_connect_by_schema(run.topic, run.partition, run.raw, refuse))
            given += [_Given(run, self._as_letters(run, batch) if ordered else batch, by_letter=ordered)
                      for batch in batches if len(batch)]
        for call in _calls(given):
            place = (part.queue, part.partition) if ordered else call[0].run.place
            yield from _written(job, call, place, refusals)

    def _as_letters(self, run: Run, batch: pa.RecordBatch) -> pa.RecordBatch:
        places = run.letters[np.searchsorted(run.raw.column("offset").to_numpy(), batch.column("offset").to_numpy())]
        changed = {"topic": one_topic(self.part.queue, len(batch)), "offset": pa.array(places),
                   "partition": pa.array(np.full(len(batch), self.part.partition, np.int32))}
        for name, column in changed.items():
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, pa.field(name, column.type), column)
        return batch


@dataclass(frozen=True, slots=True)
class _Given:
    """A batch for the writer, and the run from which it was made. `by_letter`: its offsets are those of the letters."""

    run: Run
    batch: pa.RecordBatch
    by_letter: bool

    def offsets(self) -> list[int]:
        offsets: list[int] = self.batch.column("offset").to_pylist()
        return offsets

    def row(self, offset: int) -> int:
        """Returns the row in the run of the record that has this offset in the batch."""
        known = self.run.letters if self.by_letter else self.run.raw.column("offset").to_numpy()
        return int(np.searchsorted(known, offset))


def _calls(given: Sequence[_Given]) -> Iterator[list[_Given]]:
    """Groups batches into calls of the writer. As in any batch, a call has the records of one partition: the queue's if
    they are `by_letter`, otherwise their own. No offset occurs twice in it: writers report bad records by offset.
    """
    call, seen = list[_Given](), set[int]()
    for one in given:
        offsets = one.offsets()
        elsewhere = bool(call) and not one.by_letter and one.run.place != call[0].run.place
        if elsewhere or not seen.isdisjoint(offsets):
            yield call
            call, seen = [], set()
        call.append(one)
        seen.update(offsets)
    if call:
        yield call


def _written(job: SinkJob, call: Sequence[_Given], place: Place, refusals: Refusals) -> Sequence[Any]:
    batches = [given.batch for given in call]
    runner = WriterRunner(job.writer, job.accepts, place, tolerant=True, refuse=lambda *_: None)
    messages: Sequence[Any]
    try:
        message, reports = runner.write(batches)
        messages = [message]
    except Exception as error:  # noqa: BLE001 - plugin code
        raise_if_outage(error)
        # What is refused stays in the queue, and often all of it is refused again.
        messages, reports = runner.write_accepted(batches, raised=error, streak=RejectionStreak(trusting=True))
    by_offset = {offset: given for given in call for offset in given.offsets()}
    for offset, reported in reports:
        given = by_offset[offset]
        row = given.row(offset)
        position = f"{given.run.topic}-{given.run.partition}, offset {_offset(given.run, row)}"
        _refuse(given.run, refusals, replace(put_failure(reported, position), row=row))
    return messages


def _offset(run: Run, row: int) -> int:
    return int(run.raw.column("offset")[row].as_py())


def _refuse(run: Run, refusals: Refusals, failure: Failure) -> None:
    one = run.raw.slice(failure.row, 1)
    refusals.add(failure, Original(run.topic, one, run.partition, _offset(run, failure.row)))
