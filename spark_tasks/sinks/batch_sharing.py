"""A sink task's side of SharedBatches: when the task is lent, and how SharedBatches uses it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.membership import GroupConsumer
from spark_tasks.kafka.watcher import EndWatcher
from spark_tasks.sinks.hang_watch import CUT_OFF_S
from spark_tasks.sinks.positions import Positions
from spark_tasks.sinks.shared_batches import Loan, SharedBatches
from spark_tasks.sinks.split import SinkResult, SinkSplit
from spark_tasks.task import TaskContext

QUICK_S: Final = 0.2  # for a write of a task that shares its batches with others
BLOCKED_S: Final = 0.02  # for a split, in which the others wait
ALONE_S: Final = 10.0  # how long a task with a slow or failed batch shares none
MOST_ALONE_S: Final = 600.0  # if its writes hang again and again
MAX_PARTITIONS: Final = 100  # of a task, in one shared split

Generation = tuple[int, str]
Outcome = Sequence[SinkResult] | Exception


@dataclass(slots=True, eq=False)
class BatchSharing:
    """Lends a task if its writes are quick. `watched_as`: the task's key for the watcher. `key`: tasks with equal keys
    share splits. `split` creates the split of a range with its record batches. `commit` ends a batch that was written
    in this generation of the group; `commit_due` commits offsets if that is due, and returns whether some are left.
    None of them blocks or runs a plugin's code.
    """

    context: TaskContext
    watched_as: Hashable
    shared: SharedBatches
    key: Hashable
    watcher: EndWatcher
    positions: Positions
    member: Callable[[], GroupConsumer]
    max_records: Callable[[], int]
    split: Callable[[TopicPartition, int, int, bytes], SinkSplit]
    commit: Callable[[Sequence[SinkResult], Generation], object]
    commit_due: Callable[[], bool]
    generation: Generation | None = None  # of the group when the task was lent
    _loan: Loan | None = None
    _alone_until: float = float("inf")  # until the task's writes are known to be quick
    _hung_until: float = float("-inf")  # the end of the last time in which it was alone because a write hung
    _alone_s: float = ALONE_S  # how long that was
    _ends: dict[TopicPartition, int] = field(default_factory=dict)  # of the ranges of the shared batch in flight

    @property
    def active(self) -> bool:
        """Whether the task is lent."""
        return self._loan is not None

    @property
    def batch(self) -> Future[list[Any]] | None:
        """The shared batch in flight."""
        return None if self._loan is None else self._loan.batch

    def begin(self) -> bool:
        """Lends the task if its next batch can be shared. Returns whether it is lent now."""
        self.generation = self.member().generation()
        if self.generation is None or self._ranges() is None:
            return False
        loan = self._loan = self.shared.lend(self, self.key)
        self.watcher.watch(
            self.watched_as, self.positions.current, self.positions.isolation, self.shared.notify, loan, self.key)
        self.shared.notify([loan])
        return True

    def goes_on(self) -> bool:
        """Returns whether there is no reason to take the task back."""
        return self._loan is not None and not self._loan.ended and self.member().stays()

    def end(self, timeout_s: float, *, withdraw: bool = False) -> tuple[Outcome | None] | None:
        """Takes the task back. Returns what the task has to handle, if there is anything; or None if the batch in
        flight takes longer than the timeout. `withdraw`: that batch, if it has not begun.
        """
        loan = self._loan
        if loan is None:
            return (None,)
        if withdraw:
            self.shared.withdraw(loan)
        if not self.shared.take_back(loan, timeout_s):
            return None
        self.watcher.disarm(self.watched_as)
        self._loan = None
        if loan.outcome is not None:
            self._alone_until = max(time.monotonic() + ALONE_S, self._hung_until)
        return (loan.outcome,)

    def cancel(self) -> None:
        """Cancels the batch in flight. Any thread."""
        if (loan := self._loan) is not None:
            self.shared.cancel(loan)

    def note(self, results: Sequence[SinkResult]) -> None:
        """Notes how long the writes of a batch took: only tasks with quick ones are lent."""
        writes = [result.figures.seconds.get("write", 0.0) for result in results if result.figures is not None]
        longest = max(writes, default=0.0)
        if longest > CUT_OFF_S:
            self._be_alone()
        elif longest > QUICK_S or any(result.blocked > BLOCKED_S for result in results):
            self._alone_until = max(time.monotonic() + ALONE_S, self._hung_until)
        elif self._alone_until == float("inf"):
            self._alone_until = 0.0

    def _be_alone(self) -> None:
        """A write has hung. In a shared split, it would have delayed the others until that was cut off: if it hangs
        again soon, the task shares none for twice as long.
        """
        now = time.monotonic()
        if now >= self._hung_until:
            soon = now - self._hung_until < self._alone_s
            self._alone_s = min(2 * self._alone_s, MOST_ALONE_S) if soon else ALONE_S
        self._alone_until = self._hung_until = now + self._alone_s

    def _ranges(self) -> list[tuple[TopicPartition, int, int, bytes]] | None:
        if time.monotonic() < self._alone_until:
            return None
        ranges = self.positions.fetched_ranges(self.max_records())
        return None if ranges is None or len(ranges) > MAX_PARTITIONS else ranges

    # Called by the thread of SharedBatches while it has the task

    @property
    def id(self) -> str:
        """The task's id."""
        return self.context.id

    def wake(self) -> None:
        """Makes the task's thread take the task back."""
        self.context.wake()

    def plan_shared(self) -> Sequence[SinkSplit] | None:
        """Returns the splits of a shared batch, or None if the next batch has to be the task's own."""
        ranges = self._ranges()
        if ranges is None or self.generation != self.member().generation():
            return None
        self._ends = {tp: end for tp, _, end, _ in ranges}
        self.context.metrics.submitted(sum(end - start for _, start, end, _ in ranges))
        return [self.split(*one) for one in ranges]

    def collect_shared(self, results: Sequence[SinkResult]) -> bool:
        """Commits a shared batch if nothing else has to be done. A split that has ended early (at a corrupt record, for
        example) leaves records that no later response reports.
        """
        simple = all(
            r.failure is None and r.out_of_range is None and not r.refused.count
            and r.next_offset >= self._ends[r.topic, r.partition] for r in results
        )
        if not simple or self.generation is None:
            return False
        self.commit(results, self.generation)
        self.note(results)
        return True

    def commit_shared(self) -> bool:
        """Commits offsets if that is due. Returns whether some are left to commit."""
        return self.commit_due()
