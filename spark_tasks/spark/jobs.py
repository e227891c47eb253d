"""Which waiting submissions share the next Spark job: pure, the engine asks it whenever a slot is free.

A Spark job costs about 15 ms of latency and as much CPU whatever it does, so some 50 fit into a second on two cores.
While there are enough free slots each submission gets its own job; when more wait than there are slots, small ones
share. A big one (its splits say how long they may take) never shares: its neighbours would wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BIG_SECONDS = 0.1  # a submission that may take longer than this has a job of its own
MOST_SHARING = 64  # submissions in one job


@dataclass(frozen=True, slots=True)
class Waiting:
    """One submission as the planner sees it; `alone` where it must not share (it took a job down before)."""

    key: int
    seconds: float
    alone: bool = False

    @property
    def may_share(self) -> bool:
        """Whether it may run in one job with others."""
        return not self.alone and self.seconds <= BIG_SECONDS


def expected_seconds(splits: Sequence[Any]) -> float:
    """How long the splits may take: the sum of their optional `expected_seconds`, else they count as small."""
    return sum(float(getattr(split, "expected_seconds", 0.0)) for split in splits)


def next_job(waiting: Sequence[Waiting], free_slots: int) -> list[int]:
    """Keys of the submissions for the next job; the first waiting one is always among them."""
    if not waiting or free_slots < 1:
        return []
    first = waiting[0]
    job = [first.key]
    if not first.may_share:
        return job
    small = [w for w in waiting if w.may_share]
    share = -(-len(small) // free_slots)  # spread over the free slots
    seconds = first.seconds
    for other in small[1:]:
        if len(job) >= min(share, MOST_SHARING):
            break
        if seconds + other.seconds > BIG_SECONDS:
            continue
        job.append(other.key)
        seconds += other.seconds
    return job


def spread(splits: int, slots: int, *, shared: bool) -> list[list[int]]:
    """Split numbers by Spark partition: one each, but at most a slot's worth of partitions where tasks share."""
    count = min(splits, slots) if shared else splits
    return [list(range(start, splits, count)) for start in range(count)]
