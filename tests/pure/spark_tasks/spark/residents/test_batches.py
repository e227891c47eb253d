"""Batches of splits, whose results may contain a plugin's objects."""

from __future__ import annotations

import pytest

from spark_tasks.errors import PluginExitError
from spark_tasks.spark.executor import Outcome
from spark_tasks.spark.residents.batches import SplitBatch


def test_a_batch_ends_whatever_its_results_raise() -> None:
    """Otherwise the thread of a process would end, and with it the process's next split would be lost."""
    batch = SplitBatch("a-0", 0, outcomes=[Outcome(value=1), Outcome(error=KeyboardInterrupt())])
    batch.end()
    with pytest.raises(PluginExitError, match="the plugin raised KeyboardInterrupt"):
        batch.future.result(0)
