"""The executor's part of a replay of a Java source's dead letters: reads a range of the queue, and runs heeler's part
of the chain for the records that had come so far. The worker has the Java plugin host convert the others, and appends
all.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.letters import Rows
from spark_tasks.dead_letters.refusals import Refusals, Refused
from spark_tasks.dead_letters.replay.letter_range import LetterRange, ReplayCounts, Tally
from spark_tasks.dead_letters.source_letters import JAVA_RECORD, Produced, SourceLetters
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.sources.java_source_split import JavaSourceJob, refusing

_FIELDS = {"from", "at", "topic", "partition", "timestamp", "key", "value", "headers"}


@dataclass(frozen=True, slots=True)
class HostRecords:
    """Records for the host: of each the offset of its letter in the queue, and its text (RecordText.java)."""

    texts: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class ConvertedRecords:
    """Records (RAW_SCHEMA) to append. `partitions`: None, or null, where the partitioner chooses."""

    topic: str
    partitions: pa.Array | None
    raw: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class NewLetters:
    """Letters (RAW_SCHEMA) of records that heeler's part of the chain has refused again."""

    raw: pa.RecordBatch


ReplayedPart = HostRecords | ConvertedRecords | NewLetters


@dataclass(frozen=True, slots=True)
class JavaReplayJob:
    """The data that all splits of a replay share. `chain`: heeler's part of the chain; None if it has none."""

    errors: ErrorHandling
    chain: JavaSourceJob | None


@dataclass(frozen=True, slots=True)
class JavaReplayResult:
    """The result of a split. `parts`: what has to be appended, in the order of the queue. `refused`: by heeler's part
    of the chain, without the letters.
    """

    counts: ReplayCounts
    parts: tuple[ReplayedPart, ...]
    refused: Refused


@dataclass(frozen=True, slots=True)
class JavaSourceReplaySplit:
    """Reads the letters of a range. `job`: a pickled JavaReplayJob."""

    job: bytes
    part: LetterRange

    def run(self) -> JavaReplayResult:
        """Returns the records of the letters to replay."""
        job, part = _unpickled(self.job), self.part
        tally, refusals = Tally(part), Refusals(job.errors)
        parts: list[ReplayedPart] = []
        for raw in read_range(
            shared_cluster(job.errors.client), part.queue, part.partition, part.start, part.end,
            isolation="read_committed",
        ):
            letters = _JavaSourceLetters(raw, job)
            rows = tally.choose(letters.of_heeler.letters, letters.replayable)
            if not part.order.dry_run:
                for found in letters.chosen(rows):
                    parts += _converted(found, job.chain, refusals)
            if tally.full:
                break
        return JavaReplayResult(tally.result(), tuple(parts), replace(refusals.refused, letters=0))


def _converted(
    found: HostRecords | Produced | pa.RecordBatch, chain: JavaSourceJob | None, refusals: Refusals
) -> Iterator[ReplayedPart]:
    if isinstance(found, HostRecords):
        yield found
    elif isinstance(found, Produced):
        yield ConvertedRecords(found.topic, found.partitions, found.raw)
    elif chain is not None:
        letters: list[pa.RecordBatch] = []
        for one in chain.pipeline.to_raw(found, refusing(chain, refusals, found)):
            yield ConvertedRecords(*one)
        refusals.send(lambda _topic, raw, _refused: letters.append(raw))
        yield from map(NewLetters, letters)


class _JavaSourceLetters:
    """A batch of the queue of a Java source (RAW_SCHEMA), which may contain other records."""

    def __init__(self, raw: pa.RecordBatch, job: JavaReplayJob) -> None:
        self.of_heeler = SourceLetters(
            raw, job.errors.connector, (lambda _: False) if job.chain is None else job.chain.pipeline.takes)
        letters = self.of_heeler.letters
        self._texts = [_text(header) for header in letters.header(JAVA_RECORD).to_pylist()]
        of_host = np.array([text is not None for text in self._texts], np.bool_)
        of_host &= letters.are_of(job.errors.connector) & letters.topic.is_valid().to_numpy(zero_copy_only=False)
        self.replayable = of_host | self.of_heeler.replayable

    def chosen(self, rows: Rows) -> Iterator[HostRecords | Produced | pa.RecordBatch]:
        """Yields the records of these rows in order."""
        offsets = self.of_heeler.letters.raw.column("offset").to_numpy()
        of_host = np.array([self._texts[row] is not None for row in rows], np.bool_)
        for some in np.split(rows, np.flatnonzero(np.diff(of_host)) + 1):
            texts = [(int(offsets[row]), text) for row in some.tolist() if (text := self._texts[row]) is not None]
            if texts:
                yield HostRecords(tuple(texts))
            else:
                yield from self.of_heeler.chosen(some)


def _text(header: bytes | None) -> str | None:
    """Returns the record in a JAVA_RECORD header; None if there is none, or it is not one of the host's."""
    try:
        found = None if header is None else json.loads(header)
        return header.decode() if header is not None and isinstance(found, dict) and found.keys() == _FIELDS else None
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=256)
def _unpickled(job: bytes) -> JavaReplayJob:
    unpickled: JavaReplayJob = pickle.loads(job)
    return unpickled
