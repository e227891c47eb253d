"""Objects that are pickled by the call of their constructor."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import pytest

from spark_tasks.compact_pickle import CompactPickle
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.metrics.task import SplitFigures
from spark_tasks.sinks.split import SinkResult, SinkSplit


@dataclass(frozen=True, slots=True)
class Pair(CompactPickle):
    first: int
    second: object = None


@pytest.mark.parametrize("value", [
    Pair(1), Pair(2, Pair(3, [4])), Refused(3, ("line",), {"convert": 3}), SplitFigures(1, 2, 3, 4, {"read": 0.5}),
    SinkSplit(b"job", "t", 1, 2, 3, 0.5, b"held"),
    replace(SinkResult("t", 1, 5), figures=SplitFigures(), blocked=0.5),
])  # fmt: skip
def test_a_copy_is_equal(value: CompactPickle) -> None:
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert type(copy) is type(value)

