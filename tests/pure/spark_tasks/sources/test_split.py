"""What splits of a source report."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.sources import split
from spark_tasks.sources.delivery import Lane
from spark_tasks.sources.split import SourceJob, SourceSplit
from tests.rigs.raw_records import worker


@pytest.mark.parametrize(("transactional_id", "reported"), [("id", {("t", 0)}), (None, set())])
def test_a_split_reports_which_partitions_are_in_its_transaction(
    monkeypatch: pytest.MonkeyPatch, transactional_id: str | None, reported: set[tuple[str, int]]
) -> None:
    """Its sequence numbers do not tell: brokers may have refused all records of a partition."""
    monkeypatch.setattr(split, "shared_cluster", lambda _: SimpleNamespace(io=SimpleNamespace(alive=True)))
    job = SourceJob({}, {}, SourcePipeline(worker(), {}), cloudpickle.dumps(None), StructType(), None)
    lane = Lane(ProducerIdentity(7, 0, transactional_id), {("t", 0): 5}, frozenset({("t", 0)}))
    assert SourceSplit(pickle.dumps(job), lane).run().added == reported
