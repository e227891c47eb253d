"""Helpers for batches of records."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_tasks.data.columns import size_of


def test_the_size_of_a_batch_is_exact_unless_it_is_small() -> None:
    small = pa.record_batch({"value": pa.array([bytes(100)] * 10)})
    assert size_of(small) == pytest.approx(small.nbytes, rel=0.1)
    large = pa.record_batch({"value": pa.array([bytes(1000)] * 1000)})
    assert size_of(large.slice(10, 100)) == large.slice(10, 100).nbytes
