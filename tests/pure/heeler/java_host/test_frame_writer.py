"""The dead letters of a Java source's chain, which the worker appends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from heeler.java_host import frame_writer
from heeler.java_host.frame_writer import FrameWriter
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NONE_REFUSED
from spark_tasks.host_frames import Batch
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.metrics.task import SplitFigures, TaskMetrics
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.java_source_split import JavaSourceResult
from tests.rigs.raw_records import raw_batch


def test_a_letter_that_only_the_broker_finds_too_large_is_counted_and_fails_nothing(monkeypatch):
    """The split has counted it as written, as it does not write it."""
    letters = raw_batch([b"a", b"b"])
    appended = []

    class Appender:
        def __init__(self, *_, **__): ...

        def append(self, topic, _partitions, raw, *, on_refusal):
            appended.append((topic, raw))
            on_refusal(1, RecordTooLargeError(1, 9, None, topic))

    monkeypatch.setattr(frame_writer, "Appender", Appender)
    taken = JavaSourceResult((), (("dead", letters),), NONE_REFUSED, SplitFigures())
    writer = FrameWriter(None, {}, lambda: Lane(None), lambda _: None, SimpleNamespace(taken=lambda _: taken),
                         ErrorHandling(tolerant=True, queue="dead"))
    none = np.array([], np.int32)
    writer.write(Batch(1, (), none, none, letters.slice(0, 0), (), False, False, None, cut=SimpleNamespace()))
    assert appended == [("dead", letters)]
    metrics = TaskMetrics()
    metrics.refused({}, 0, 2, 0)
    writer.refused.report_to(metrics, skipped=True)
    assert (metrics.letters, metrics.lost_letters) == (1, 1)
