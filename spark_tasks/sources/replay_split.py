"""The executor's part of a source's replay: reads a range of the dead letter queue, and appends the records of its
letters as the source's own splits do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay.letter_range import LetterRange, ReplayCounts, Tally
from spark_tasks.dead_letters.source_letters import Produced, SourceLetters
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.split import RecordWriter, unpickled_job


@dataclass(frozen=True, slots=True)
class SourceReplayResult:
    """The result of a SourceReplaySplit. `sequences`, `added`: see SourceResult. `topics`: those of the appended
    records.
    """

    counts: ReplayCounts
    sequences: Mapping[TopicPartition, int]
    topics: tuple[str, ...]
    refused: Refused
    added: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceReplaySplit:
    """Replays the letters of a range. `job`: a pickled SourceJob."""

    job: bytes
    lane: Lane
    part: LetterRange

    def run(self) -> SourceReplayResult:
        """Reads the letters, chooses those to replay, and waits until their records are acknowledged."""
        job, part = unpickled_job(self.job), self.part
        writer, tally = RecordWriter(job, self.lane), Tally(part)
        try:
            for raw in read_range(
                shared_cluster(job.client), part.queue, part.partition, part.start, part.end, isolation="read_committed"
            ):
                letters = SourceLetters(raw, job.errors.connector, job.pipeline.takes)
                rows = tally.choose(letters.letters, letters.replayable)
                if not part.order.dry_run:
                    for records in letters.chosen(rows):
                        _write(writer, records)
                if tally.full:
                    break
            writer.flush()
        finally:
            writer.close()
        return SourceReplayResult(
            tally.result(), dict(writer.sequences), tuple(writer.topics), writer.refusals.refused, writer.added)


def _write(writer: RecordWriter, records: Produced | pa.RecordBatch) -> None:
    if isinstance(records, Produced):
        writer.write_produced(records.topic, records.partitions, records.raw)
    else:
        writer.write(records)
