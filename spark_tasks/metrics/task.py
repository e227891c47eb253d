"""The metrics of one task. The task updates them; the metrics endpoint reads them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple

from spark_tasks.metrics.phases import stage_of
from spark_tasks.metrics.plugins import Figures, PluginMetrics
from spark_tasks.metrics.windows import Window

TopicPartition = tuple[str, int]


_NO_SECONDS: Final[Mapping[str, float]] = {}


class SplitFigures(NamedTuple):
    """The metrics in a split's result. `read`: the number of records before the transforms, `written`: after them. The
    bytes are those in Arrow or in Kafka. `seconds`: the time by phase. `plugins`: the metrics of plugins.
    """

    read: int = 0
    read_bytes: int = 0
    written: int = 0
    written_bytes: int = 0
    seconds: Mapping[str, float] = _NO_SECONDS
    plugins: Figures | None = None


class Flight:
    """Measures how long a batch in flight waits before executors run it."""

    __slots__ = ("_begun", "_ended")

    def __init__(self, batch: Future[Any]) -> None:
        self._begun = perf_counter()
        self._ended: float | None = None
        batch.add_done_callback(self._done)

    def _done(self, _: Future[Any]) -> None:
        self._ended = perf_counter()

    def waited(self, busy: float) -> float:
        """Returns how many seconds the batch has waited. `busy`: the run time of its longest split in seconds."""
        return max(0.0, (self._ended or perf_counter()) - self._begun - busy)


class TaskMetrics:
    """The metrics of a task since its start. Only the task's thread updates them; any thread may read single values.

    Points in time are seconds of `time.monotonic`, so that no rate, age or ratio depends on the machine's clock. None:
    the event has not happened.
    """

    def __init__(self, kind: Literal["source", "sink", ""] = "") -> None:
        self.kind = kind
        self.plugins = PluginMetrics()
        self.started = time.monotonic()
        self.records = {"read": 0, "write": 0}
        self.bytes = {"read": 0, "write": 0}
        self.record_rates = {"read": Window(), "write": Window()}
        self.last: dict[str, float | None] = {"read": None, "write": None, "commit": None, "error": None}
        self.last_error_ms = 0  # since 1970; 0 if there was none
        self.phases: dict[str, tuple[int, float]] = {}  # count and total seconds
        self.errors: dict[str, int] = {}  # by stage
        self.retries = 0
        self.failures = 0  # errors that were not retried
        self.skipped = 0  # bad records that errors.tolerance=all skipped
        self.logged = 0
        self.letters = 0
        self.lost_letters = 0
        self.batch_sizes = Window()
        self.batch_seconds = Window()  # of reading (a source) or writing (a sink) one batch
        self.active = 0  # records in flight, not committed
        self.active_counts = Window()
        self.commits = {"done": 0, "failed": 0, "skipped": 0}
        self.commit_seconds = Window()
        self.commit_rates = {"done": Window(), "failed": Window(), "skipped": Window()}
        self.transactions = Window()  # the number of records in each
        self._transaction = 0
        self.lags: Mapping[TopicPartition, int] = {}
        self._running_since: float | None = None
        self._ran = self._paused = 0.0
        self._paused_since: float | None = None

    # ------------------------------------------------------------ updates by the task
    def add_phase(self, phase: str, seconds: float) -> None:
        """Adds a phase of a batch."""
        count, before = self.phases.get(phase, (0, 0.0))
        self.phases[phase] = (count + 1, before + seconds)

    def submitted(self, records: int) -> None:
        """Records that a batch was submitted. `records`: 0 for a source, whose number is not known yet."""
        self.active = records

    def add_splits(self, splits: Iterable[SplitFigures | None]) -> None:
        """Adds the results of a batch's splits."""
        now = time.monotonic()
        totals: dict[str, float] = {}
        read = read_bytes = written = written_bytes = 0
        for split in splits:
            if split is None:
                continue
            for phase, seconds in split.seconds.items():
                totals[phase] = totals.get(phase, 0.0) + seconds
            if split.plugins is not None:
                self.plugins.merge(split.plugins)
            read, read_bytes = read + split.read, read_bytes + split.read_bytes
            written, written_bytes = written + split.written, written_bytes + split.written_bytes
        for phase, seconds in totals.items():
            self.add_phase(phase, seconds)
        for stage, records, size in (("read", read, read_bytes), ("write", written, written_bytes)):
            if records:
                self.records[stage] += records
                self.bytes[stage] += size
                self.record_rates[stage].add(records, now)
                self.last[stage] = now
        if read or written:
            self.batch_sizes.add(read, now)
            self.batch_seconds.add(totals.get("read" if self.kind == "source" else "write", 0.0), now)
            self.active = written if self.kind == "source" else read
            self.active_counts.add(self.active, now)
            self._transaction += written

    def committed(self, seconds: float) -> None:
        """Counts a commit of offsets. `seconds`: its duration."""
        self._commit("done")
        now = time.monotonic()
        self.last["commit"] = now
        self.commit_seconds.add(seconds, now)
        self.add_phase("commit", seconds)
        self.active = 0

    def transaction_ended(self) -> None:
        """Counts a transaction with all records since the previous one."""
        size, self._transaction = self._transaction, 0
        self.transactions.add(size, time.monotonic())

    def commit_failed(self) -> None:
        """Counts a commit of offsets that failed."""
        self._commit("failed")

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Counts a failed commit of offsets if the body raises an error."""
        try:
            yield
        except Exception:
            self.commit_failed()
            raise

    def commit_skipped(self) -> None:
        """Counts a commit of offsets that was skipped because the group had rebalanced."""
        self._commit("skipped")

    def _commit(self, how: str) -> None:
        self.commits[how] += 1
        self.commit_rates[how].add(1, time.monotonic())

    def failed(self, error: BaseException, stage: str, *, again: bool) -> None:
        """Counts an error. `stage`: its stage, unless the error is marked with one. `again`: whether it is retried."""
        where = stage_of(error) or stage
        self.errors[where] = self.errors.get(where, 0) + 1
        self._erred()
        self.logged += 1
        self.active = 0
        if again:
            self.retries += 1
        else:
            self.failures += 1

    def refused(self, skipped: Mapping[str, int], logged: int, letters: int, lost: int) -> None:
        """Counts bad records. `skipped`: the number of skipped ones by phase; `logged`: of log lines; `letters`: of
        dead letters that were written; `lost`: of those that could not be written.
        """
        for phase, count in skipped.items():
            self.errors[phase] = self.errors.get(phase, 0) + count
            self.skipped += count
            self._erred()
        self.logged += logged
        self.letters += letters
        self.lost_letters += lost

    def _erred(self) -> None:
        self.last["error"] = time.monotonic()
        self.last_error_ms = time.time_ns() // 1_000_000

    @contextmanager
    def counting_failures(self, stage: str) -> Iterator[None]:
        """A context manager that counts an error of its block as a failure of the task. `stage`: see `failed`."""
        try:
            yield
        except Exception as error:
            self.failed(error, stage, again=False)
            raise

    def running(self, *, paused: bool) -> None:
        """Records that the task is running, or paused, from now on."""
        self._settle()
        now = time.monotonic()
        self._running_since, self._paused_since = (None, now) if paused else (now, None)

    def stopped(self) -> None:
        """Records that the task is neither running nor paused from now on."""
        self._settle()
        self._running_since = self._paused_since = None

    def _settle(self) -> None:
        now = time.monotonic()
        self._ran += now - self._running_since if self._running_since is not None else 0.0
        self._paused += now - self._paused_since if self._paused_since is not None else 0.0

    # ------------------------------------------------------------ reads by the metrics endpoint
    def ratios(self, now: float) -> tuple[float, float]:
        """Returns the fractions of the time since the start in which the task was running and paused. `now`: of
        `time.monotonic`.
        """
        lifetime = max(now - self.started, 1e-9)
        running, paused = self._running_since, self._paused_since
        ran = self._ran + (now - running if running is not None else 0.0)
        rested = self._paused + (now - paused if paused is not None else 0.0)
        return min(ran / lifetime, 1.0), min(rested / lifetime, 1.0)
