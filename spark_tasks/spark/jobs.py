"""Chooses the submissions that share the next Spark job. Pure.

A Spark job has a fixed cost of about 15 ms of latency and of CPU time, so two cores can run about 50 per second. With
enough free slots, each submission gets its own job. If more submissions wait than there are free slots, small ones
share jobs. Large ones never do, because the others would wait for them; the size is the expected run time of the
splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BIG_SECONDS = 0.1  # a submission with a longer expected run time gets its own job
MAX_SHARING = 64  # submissions in one job


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting submission. `seconds`: its expected run time. `alone`: it must not share a job, because an earlier job
    with its task was lost.
    """

    key: int
    seconds: float
    alone: bool = False

    @property
    def may_share(self) -> bool:
        """Whether it may share a job."""
        return not self.alone and self.seconds <= BIG_SECONDS


def expected_seconds(splits: Sequence[Any]) -> float:
    """Returns the expected run time of splits: the sum of their optional `expected_seconds`, by default 0."""
    return sum(float(getattr(split, "expected_seconds", 0.0)) for split in splits)


def next_job(waiting: Sequence[Waiting], free_slots: int) -> list[int]:
    """Returns the keys of the submissions for the next job, which always include the first one."""
    if not waiting or free_slots < 1:
        return []
    first = waiting[0]
    job = [first.key]
    if not first.may_share:
        return job
    small = [w for w in waiting if w.may_share]
    share = -(-len(small) // free_slots)  # distributes them over the free slots
    seconds = first.seconds
    for other in small[1:]:
        if len(job) >= min(share, MAX_SHARING):
            break
        if seconds + other.seconds > BIG_SECONDS:
            continue
        job.append(other.key)
        seconds += other.seconds
    return job


def spread(splits: int, slots: int, *, shared: bool) -> list[list[int]]:
    """Returns the indexes of splits by Spark partition: one each, but with `shared` at most `slots` partitions."""
    count = min(splits, slots) if shared else splits
    return [list(range(start, splits, count)) for start in range(count)]
