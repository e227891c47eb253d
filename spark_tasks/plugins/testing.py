"""A test kit for plugins: `check_exactly_once_sink`, which every exactly-once sink should pass.

It kills a writer at each step of `write` and `commit`, as kill -9 does, in a child process. Then a new task continues
as after a crash: it calls `resume_from` and writes from that offset, in batches of another size. At the end the sink
must have each record exactly once.
"""

# ruff: noqa: S101 - assertions are the results of the check

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from spark_tasks.data.rows import write_batches
from spark_tasks.plugins.origin import reading_from
from spark_tasks.plugins.spark_task import as_spark_task

TOPIC = "contract-topic"
Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""

_KILLED = 9


@dataclass(frozen=True)
class SinkUnderTest:
    """The sink to check, as functions. `writer()` returns the writer of a new task; it gets Rows unless it is a
    DataSourceArrowWriter. `batch(topic, partition, first, count)` returns `count` records from offset `first`, with
    CONNECT_COLUMNS. `contents()` returns topic, partition and offset of each record that a reader of the sink sees.
    `clear()` empties the sink.
    """

    writer: Callable[[], Any]
    batch: Callable[[str, int, int, int], pa.RecordBatch]
    contents: Callable[[], Sequence[Place]]
    clear: Callable[[], None]


def check_exactly_once_sink(sink: SinkUnderTest, *, partitions: int = 2, records: int = 30, kills: int = 40) -> int:
    """Runs the whole check, with `records` records in each of `partitions` partitions. Returns how often a writer was
    killed: at most `kills` times each in `write` and `commit`, at regular intervals. Raises AssertionError, whose
    message names missing or duplicate records. Requires a system with fork.
    """
    run = _Run(sink, partitions, records, kills)
    run.without_failures()
    run.routed()
    run.repeated()
    run.failed_in_the_middle()
    run.late_commit()
    return run.killed_during("write") + run.killed_during("commit")


class _Run:
    def __init__(self, sink: SinkUnderTest, partitions: int, records: int, kills: int) -> None:
        self._sink = sink
        self._kills = kills
        self._partitions = range(partitions)
        self._records = records

    # ------------------------------------------------------------ actions of a task
    def _resume(self, writer: Any) -> dict[int, int]:
        return {p: writer.resume_from(TOPIC, p) or 0 for p in self._partitions}

    def _write(self, writer: Any, position: dict[int, int], size: int, topic: str = TOPIC) -> list[Any]:
        """Writes a batch of at most `size` records per partition. Each split uses a copy of the writer. `topic`: the
        records' topic after transforms. Returns the commit messages.
        """
        pickled = cloudpickle.dumps(writer)
        messages = []
        for partition, first in position.items():
            count = min(size, self._records - first)
            if count > 0:
                pieces = [(first, count // 2), (first + count // 2, count - count // 2)]
                batches = [self._sink.batch(topic, partition, at, some) for at, some in pieces if some]
                with reading_from((TOPIC, partition)), as_spark_task(partition):
                    message = write_batches(cloudpickle.loads(pickled), batches)
                messages.append(pickle.loads(pickle.dumps(message)))
        return messages

    def _resume_task(self, size: int) -> None:
        """Runs a new task, which writes from the offsets of `resume_from` to the end, in batches of `size` records."""
        writer = self._sink.writer()
        position = self._resume(writer)
        while any(first < self._records for first in position.values()):
            messages = self._write(writer, position, size)
            writer.commit(messages)
            moved = {p: min(first + size, self._records) for p, first in position.items()}
            resumed = self._resume(self._sink.writer())
            assert resumed == moved, f"after a commit up to {moved} resume_from returns {resumed}"
            position = moved

    def _check(self, what: str) -> None:
        counts = Counter(self._sink.contents())
        wanted = {(TOPIC, p, offset) for p in self._partitions for offset in range(self._records)}
        twice = sorted(place for place, count in counts.items() if count > 1)
        missing, foreign = sorted(wanted - set(counts)), sorted(set(counts) - wanted)
        assert not twice, f"{what}: in the sink twice: {twice[:5]}"
        assert not missing, f"{what}: missing in the sink: {missing[:5]}"
        assert not foreign, f"{what}: in the sink, but never written: {foreign[:5]}"

    # ------------------------------------------------------------ the steps
    def without_failures(self) -> None:
        """Writes batches one after the other. An empty sink must have no offset."""
        self._sink.clear()
        assert self._sink.writer().resume_from(TOPIC, 0) is None, "resume_from of an empty sink must return None"
        self._resume_task(7)
        self._check("undisturbed")

    def routed(self) -> None:
        """Writes records to which a transform has given another topic; `resume_from` gets their topic in Kafka."""
        self._sink.clear()
        writer = self._sink.writer()
        writer.commit(self._write(writer, dict.fromkeys(self._partitions, 0), 10, "routed"))
        resumed, moved = self._resume(self._sink.writer()), dict.fromkeys(self._partitions, 10)
        assert resumed == moved, (
            f"records of {TOPIC}, to which a transform gave the topic routed, are committed up to {moved}, but "
            f"resume_from({TOPIC!r}, …) returns {resumed}: store heeler.kafka_partition() with them, not their topic"
        )

    def repeated(self) -> None:
        """Loses the result of a commit. A new task has to find out itself what was committed."""
        self._sink.clear()
        writer = self._sink.writer()
        writer.commit(self._write(writer, dict.fromkeys(self._partitions, 0), 10))
        self._resume_task(13)
        self._check("after a commit whose result was lost")

    def failed_in_the_middle(self) -> None:
        """Aborts a batch of which one split has failed. Readers must not see its records."""
        self._sink.clear()
        writer = self._sink.writer()
        messages = self._write(writer, dict.fromkeys(self._partitions, 0), 10)
        writer.abort([*messages[:-1], None])
        assert not self._sink.contents(), "records of an aborted batch are visible"
        self._resume_task(4)
        self._check("after an aborted batch")

    def late_commit(self) -> None:
        """Commits late, as a suspended task does, after its successor has written the same records in other batches."""
        for size in (5, 10, 15, self._records):
            self._sink.clear()
            zombie = self._sink.writer()
            messages = self._write(zombie, dict.fromkeys(self._partitions, 0), 10)
            self._resume_task(size)
            with suppress(Exception):  # the sink may reject it
                zombie.commit(messages)
            self._check(f"after a late commit, with batches of {size} by the successor")

    def killed_during(self, method: str) -> int:
        """Kills a writer at steps (lines of Python) of `write` or `commit`. Returns the number of kills."""
        steps = self._steps(method, 10**9)
        assert steps is not None
        kills = range(1, steps + 1, -(-steps // self._kills))
        for step in kills:
            assert self._steps(method, step) is None, f"{method} ended before step {step}"
            self._resume_task(step % 9 + 3)
            self._check(f"killed at step {step} of {method}")
        return len(kills)

    def _steps(self, method: str, die_at: int) -> int | None:
        """Writes and commits a batch in a child process that dies at step `die_at`. Returns the number of steps, or
        None if it died.
        """
        self._sink.clear()
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)
            self._child(method, die_at, send)
        os.close(send)
        with os.fdopen(receive, "rb") as pipe:
            output = pipe.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, _KILLED), f"{method} ended with {code}: {output.decode(errors='replace')}"
        return int(output) if code == 0 else None

    def _child(self, method: str, die_at: int, send: int) -> None:
        counter = _Steps(die_at)
        # The collection of garbage from the parent may join threads, as a Kafka client does, that the child does not
        # have.
        gc.freeze()
        try:
            writer = self._sink.writer()
            position = dict.fromkeys(self._partitions, 0)
            if method == "write":
                counter.count(self._write, writer, position, 10)
            else:
                counter.count(writer.commit, self._write(writer, position, 10))
            os.write(send, str(counter.steps).encode())
        except BaseException as error:  # noqa: BLE001 - every error is reported to the parent
            os.write(send, repr(error).encode())
            os._exit(1)
        os._exit(0)


class _Steps:
    """Counts executed lines of Python, and ends the process at one of them without any cleanup, as kill -9 does."""

    def __init__(self, die_at: int) -> None:
        self.steps = 0
        self._die_at = die_at

    def count(self, function: Callable[..., Any], *arguments: Any) -> Any:
        sys.settrace(self._trace)
        try:
            return function(*arguments)
        finally:
            sys.settrace(None)

    def _trace(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.steps += 1
            if self.steps >= self._die_at:
                os._exit(_KILLED)
        return self._trace
