"""What the worker knows of an executor process."""

from __future__ import annotations

import pytest

from spark_tasks.spark.residents.batches import Item, SplitBatch
from spark_tasks.spark.residents.process import Resident
from tests.rigs.executors import Threads


@pytest.mark.parametrize(
    ("looks", "cpu_s"),
    [
        ([], 10.0),
        ([(0.5, 100.0)], 10.0),
        ([(0.5, 100.0), (2.0, 101.0), (9.0, 101.5)], 0.5 + 1.5 + 1.0),
        ([(0.5, 100.0), (9.0, 101.5), (9.5, 0.0)], 0.5 + 1.5 + 0.5),
    ],
)
def test_what_a_split_has_used_while_nobody_looked_is_all_that_it_can_have(
    looks: list[tuple[float, float]], cpu_s: float
) -> None:
    """On one CPU; each look: when, and the CPU time of the process, which is none when it has ended."""
    resident = Resident(1, Threads())
    resident.take(Item(SplitBatch("a-0", 1), 0, b""))
    begun = resident.since
    for at, seconds in looks:
        resident.look(begun + at, seconds)
    use = resident.use(begun + 10.0)
    assert (use.cpu_s, use.held_s) == (pytest.approx(cpu_s), pytest.approx(10.0))
    resident.take(Item(SplitBatch("a-0", 1), 0, b""))
    assert resident.use(resident.since) == (0.0, 0.0)
