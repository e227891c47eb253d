"""The heeler part of a Java source's chain: a split that transforms and converts the records from the host. The worker
appends the results with the task's producer.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache, partial

import pyarrow as pa

from spark_tasks.data.host_records import CutRecords
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import Original, Refusals, Refused
from spark_tasks.dead_letters.source_letters import record_header
from spark_tasks.errors import ToleranceExceededError
from spark_tasks.kafka.append import DEFAULT_REQUEST_BYTES
from spark_tasks.metrics.phases import measured
from spark_tasks.metrics.plugins import counting
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.pipeline.errors.failures import FailedStage, Failure, Refuse
from spark_tasks.pipeline.handover import JavaSourcePipeline
from spark_tasks.pipeline.source_pipeline import RawBatch
from spark_tasks.plugins.chain_cut import Cut
from spark_tasks.task import TaskContext


@dataclass(frozen=True, slots=True)
class JavaSourceJob:
    """The data that all splits of a task share."""

    pipeline: JavaSourcePipeline
    errors: ErrorHandling


@dataclass(frozen=True, slots=True)
class JavaSourceResult:
    """The result of a split. `records`: those to append, see JavaSourcePipeline.raw_batches. `letters`: dead letters,
    as pairs of topic and batch.
    """

    records: tuple[RawBatch, ...]
    letters: tuple[tuple[str, pa.RecordBatch], ...]
    refused: Refused
    figures: SplitFigures


@dataclass(frozen=True, slots=True)
class JavaSourceSplit:
    """Processes the records of one frame. `job`: a pickled JavaSourceJob."""

    job: bytes
    records: CutRecords

    def run(self) -> JavaSourceResult:
        """Transforms and converts the records. Raises ToleranceExceededError after it has written the dead letter."""
        job, raw = _unpickled(self.job), self.records.raw
        refusals = Refusals(job.errors)
        letters: list[tuple[str, pa.RecordBatch]] = []
        with measured() as watch, counting() as plugins:
            try:
                batches = tuple(job.pipeline.raw_batches(self.records, partial(refusing, job, refusals)))
            except ToleranceExceededError as error:
                refusals.end_source(error)
                raise
            refusals.send(lambda topic, letter, _: letters.append((topic, letter)))
            size = sum(one.nbytes for _, _, one in batches)
            figures = SplitFigures(len(raw), raw.nbytes, sum(len(one) for _, _, one in batches), size, watch.seconds,
                                   plugins.counted())
        return JavaSourceResult(batches, tuple(letters), refusals.refused, figures)


def refusing(job: JavaSourceJob, refusals: Refusals, batch: pa.RecordBatch) -> Refuse:
    """Returns what adds bad records of a batch to `refusals`."""
    limit = int(job.errors.appender.get("max_request_bytes", DEFAULT_REQUEST_BYTES)) // 2

    def refuse(failure: Failure) -> None:
        topic, _, raw = job.pipeline.original(batch, failure.row)
        # A header that cannot be converted is still as the host has sent it: a replay would write it like that.
        keeps = job.errors.replayable and failure.stage is not FailedStage.HEADER_CONVERTER
        origin = record_header(batch, failure.row, limit - raw.nbytes) if keeps else ()
        refusals.add(failure, Original(topic, raw, origin=origin))

    return refuse


def java_source_job(context: TaskContext, errors: ErrorHandling, cut: Cut) -> JavaSourceJob:
    """Returns the JavaSourceJob of a task. Raises ConfigError, PluginNotFoundError."""
    pipeline = JavaSourcePipeline(context.worker.converters, cut.for_far(context.connector), cut.converted)
    _ = pipeline.stages  # so that an invalid converter or transform fails now and not in the first batch
    return JavaSourceJob(pipeline, errors)


@lru_cache(maxsize=256)
def _unpickled(job: bytes) -> JavaSourceJob:
    unpickled: JavaSourceJob = pickle.loads(job)
    return unpickled
