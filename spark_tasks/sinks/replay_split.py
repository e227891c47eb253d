"""The executor's part of a replay: reads a range of the dead letter queue, and sends the original records of its
letters through the connector's pipeline to the plugin's writer.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.data.columns import in_order, one_topic
from spark_tasks.dead_letters.letters import MARKER, DeadLetters, Rows, Run, runs
from spark_tasks.dead_letters.order import ReplayOrder
from spark_tasks.dead_letters.refusals import NONE_REFUSED, Original, Refusals, Refused
from spark_tasks.dead_letters.replayed_offsets import ReplayedOffsets
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.pipeline.failures import Failure
from spark_tasks.plugins.origin import Place
from spark_tasks.sinks.split import SinkJob, SinkResult
from spark_tasks.sinks.writes import WriterRunner, put_failure, raise_if_outage
from spark_tasks.spark.executor import Outcome, failed_outcome

_MAX_KINDS: Final = 100  # topics, stages and classes that are counted separately
_OTHERS: Final = "(others)"
_SHOWN: Final = 1000  # the maximum length of a text in the report, in characters
_COUNTED: Final = ("topic", "stage", "error_class")

Counts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result for a range of the queue. `next_offset`: the start of the next range. Of the `scanned` letters,
    `chosen` were replayed (or would be, in a dry run), `left` did not match the filter, `foreign` belong to another
    connector or do not name their origin, and `held` are in the sink already. `done`: all letters of the partition that
    have been replayed or need no replay. If `failure` is set, the split has failed and the numbers are not used.
    """

    next_offset: int
    done: ReplayedOffsets
    scanned: int = 0
    chosen: int = 0
    left: int = 0
    foreign: int = 0
    held: int = 0
    counts: Counts = field(default_factory=dict)
    samples: tuple[Mapping[str, Any], ...] = ()
    messages: tuple[Any, ...] = ()
    refused: Refused = NONE_REFUSED
    failure: Outcome | None = None


def messages_of(results: Sequence[SinkResult | ReplayResult]) -> list[Any]:
    """The writer's commit messages of all results."""
    return [message for result in results for message in result.messages]


@dataclass(frozen=True, slots=True)
class ReplaySplit:
    """The letters `start` to `end` (exclusive) of a partition of the queue. `job`: a pickled SinkJob. `room`: the
    maximum number of letters to replay. `samples`: the number of letters in the report of a dry run.

    `resume`: the offset of the first letter that the sink does not have, for a sink that stores offsets itself; None
    for others. Such a sink gets the records with the offsets of their letters in the queue.
    """

    job: bytes
    queue: str
    partition: int
    start: int
    end: int
    order: ReplayOrder
    done: ReplayedOffsets
    room: int
    samples: int = 0
    resume: int | None = None

    def run(self) -> ReplayResult:
        """Reads the letters, chooses those to replay, and writes their records. Errors are returned in the result."""
        job: SinkJob = pickle.loads(self.job)
        refusals = Refusals(job.errors)
        tally = _Tally(self)
        try:
            for raw in read_range(
                shared_cluster(job.client), self.queue, self.partition, self.start, self.end,
                isolation="read_committed", max_record_bytes=job.max_record_bytes,
            ):
                letters, rows = tally.choose(raw, job.errors.connector)
                if len(rows) and not self.order.dry_run:
                    tally.messages += self._put(job, letters, rows, refusals)
                if tally.chosen >= self.room:
                    break
            refusals.send_apart()
        except Exception as error:  # noqa: BLE001 - converters, transforms and writers are plugin code
            return ReplayResult(self.start, self.done, messages=tuple(tally.messages), failure=failed_outcome(error))
        return tally.result(refusals.refused)

    def _put(self, job: SinkJob, letters: DeadLetters, rows: Rows, refusals: Refusals) -> list[Any]:
        messages: list[Any] = []
        ordered = self.resume is not None
        prefix = f"{self.queue}-{self.partition}-"

        def mark(offset: int) -> bytes | None:
            return job.pipeline.header_of(self.queue, MARKER, f"{prefix}{offset}")

        given: list[_Given] = []
        for run in runs(letters, rows, mark, ordered=ordered):
            refuse = partial(_refuse, run, refusals)
            batches = in_order(job.pipeline.to_connect_by_schema(run.topic, run.partition, run.raw, refuse))
            given += [_Given(run, self._as_letters(run, batch) if ordered else batch, by_letter=ordered)
                      for batch in batches if len(batch)]
        for call in _calls(given):
            messages += _written(job, call, (self.queue, self.partition), refusals)
        return messages

    def _as_letters(self, run: Run, batch: pa.RecordBatch) -> pa.RecordBatch:
        places = run.letters[np.searchsorted(run.raw.column("offset").to_numpy(), batch.column("offset").to_numpy())]
        changed = {"topic": one_topic(self.queue, len(batch)), "offset": pa.array(places),
                   "partition": pa.array(np.full(len(batch), self.partition, np.int32))}
        for name, column in changed.items():
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, pa.field(name, column.type), column)
        return batch


class _Tally:
    """Chooses the letters to replay and counts them."""

    def __init__(self, split: ReplaySplit) -> None:
        self._split = split
        self._position = split.start
        self.done = split.done
        self.chosen = self._scanned = self._left = self._foreign = self._held = 0
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}
        self._samples: list[Mapping[str, Any]] = []
        self.messages: list[Any] = []

    def choose(self, raw: pa.RecordBatch, connector: str) -> tuple[DeadLetters, Rows]:
        """Returns the letters of a batch of the queue, and the rows of those to replay, up to `room`. Raises
        ScatteredError, before anything is written, if the replayed letters could not be recorded.
        """
        split, letters = self._split, DeadLetters.of(raw)
        offsets = raw.column("offset").to_numpy()
        ours = letters.whole() & pc.equal(letters.connector, connector).fill_null(False).to_numpy(zero_copy_only=False)
        fresh = ours & ~split.done.covers(offsets)
        missing = fresh if split.resume is None else fresh & (offsets >= split.resume)
        wanted = missing & split.order.takes(letters)
        rows = np.flatnonzero(wanted)[: split.room - self.chosen]
        full = self.chosen + len(rows) >= split.room
        taken = int(rows[-1]) + 1 if full and len(rows) else len(raw)
        end = int(offsets[taken - 1]) + 1
        if not split.order.dry_run:
            self.done = self.done.after(self._position, end, offsets[:taken][(missing & ~wanted)[:taken]])
            self.done.metadata()
        self._position = end
        self._scanned += taken
        self.chosen += len(rows)
        self._left += int((missing & ~wanted)[:taken].sum())
        self._foreign += int((~ours)[:taken].sum())
        self._held += int((fresh & ~missing)[:taken].sum())
        self._count(letters, rows)
        return letters, rows

    def _count(self, letters: DeadLetters, rows: Rows) -> None:
        for name in _COUNTED:
            counts, texts = self._counts[name], getattr(letters, name).take(pa.array(rows))
            for pair in pc.value_counts(texts).to_pylist():
                count_kind(counts, str(pair["values"])[:_SHOWN], pair["counts"])
        for row in rows[: max(self._split.samples - len(self._samples), 0)].tolist():
            self._samples.append(_sample(letters, row, self._split))

    def result(self, refused: Refused) -> ReplayResult:
        """Returns the result for the whole range. Offsets after the last letter are control records or were compacted
        away.
        """
        split = self._split
        end = self._position if self.chosen >= split.room else split.end
        done = self.done if split.order.dry_run else self.done.after(self._position, end, np.empty(0, np.int64))
        return ReplayResult(
            end, done, self._scanned, self.chosen, self._left, self._foreign, self._held,
            {name: dict(counts) for name, counts in self._counts.items()}, tuple(self._samples),
            tuple(self.messages), refused,
        )


def count_kind(counts: Counter[str], kind: str, count: int) -> None:
    """Adds to the count of a kind; those that come after the first _MAX_KINDS are counted together."""
    counts[kind if kind in counts or len(counts) < _MAX_KINDS else _OTHERS] += count


def _sample(letters: DeadLetters, row: int, split: ReplaySplit) -> Mapping[str, Any]:
    sample: dict[str, Any] = {
        "queue_partition": split.partition, "queue_offset": letters.raw.column("offset")[row].as_py(),
        **{name: getattr(letters, name)[row].as_py() for name in ("topic", "partition", "offset")},
        "timestamp": letters.raw.column("timestamp")[row].as_py(), "stage": _text(letters.stage[row].as_py()),
        "exception": _text(letters.error_class[row].as_py()), "message": _text(letters.message[row].as_py()),
    }
    if split.order.values:
        sample |= {part: _text(letters.raw.column(part)[row].as_py()) for part in ("key", "value")}
    return sample


def _text(value: str | bytes | None) -> str | None:
    if isinstance(value, bytes):
        value = value[: 4 * _SHOWN].decode(errors="replace")
    return value if value is None else value[:_SHOWN]


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
    """Groups batches into calls of the writer so that no offset occurs twice in a call: writers report bad records by
    offset.
    """
    call, seen = list[_Given](), set[int]()
    for one in given:
        offsets = one.offsets()
        if not seen.isdisjoint(offsets):
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
        messages, reports = runner.write_accepted(batches, raised=error)
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
