"""For the tests of plugins: `check_exactly_once_sink`, which every exactly-once sink should pass.

A writer is killed at each step of `write` and `commit`, as by kill -9, in a process of its own. Then a new task goes on
as heeler does after a crash: it calls `resume_from` and reads from there, in batches of another size. In the end the
sink must have each record once.
"""

# ruff: noqa: S101 - a test's own words

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

TOPIC = "contract-topic"
Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""

_KILLED = 9


@dataclass(frozen=True)
class SinkUnderTest:
    """`writer()`: a writer as a new task makes it; it gets Rows unless it is a DataSourceArrowWriter.
    `batch(topic, partition, first, count)`: `count` records from offset `first` on, with CONNECT_COLUMNS.
    `contents()`: the place of every record that a reader of the sink sees. `clear()`: empty the sink.
    """

    writer: Callable[[], Any]
    batch: Callable[[str, int, int, int], pa.RecordBatch]
    contents: Callable[[], Sequence[Place]]
    clear: Callable[[], None]


def check_exactly_once_sink(sink: SinkUnderTest, *, partitions: int = 2, records: int = 30, kills: int = 40) -> int:
    """Run the whole check. Returns how often a writer was killed: at most `kills` times each in `write` and `commit`,
    spread over their steps. Raises AssertionError that names records that are missing or duplicated. Needs a system
    with fork.
    """
    run = _Run(sink, partitions, records, kills)
    run.undisturbed()
    run.routed()
    run.repeated()
    run.failed_in_the_middle()
    run.late_commit()
    return run.killed_while("write") + run.killed_while("commit")


class _Run:
    def __init__(self, sink: SinkUnderTest, partitions: int, records: int, kills: int) -> None:
        self._sink = sink
        self._kills = kills
        self._partitions = range(partitions)
        self._records = records

    # ------------------------------------------------------------ what a task does
    def _resume(self, writer: Any) -> dict[int, int]:
        return {p: writer.resume_from(TOPIC, p) or 0 for p in self._partitions}

    def _write(self, writer: Any, position: dict[int, int], size: int, topic: str = TOPIC) -> list[Any]:
        """One batch of at most `size` records a partition; each split writes with its own copy of the writer. `topic`:
        the records' topic after transforms.
        """
        pickled = cloudpickle.dumps(writer)
        messages = []
        for partition, first in position.items():
            count = min(size, self._records - first)
            if count > 0:
                pieces = [(first, count // 2), (first + count // 2, count - count // 2)]
                batches = [self._sink.batch(topic, partition, at, some) for at, some in pieces if some]
                with reading_from((TOPIC, partition)):
                    message = write_batches(cloudpickle.loads(pickled), batches)
                messages.append(pickle.loads(pickle.dumps(message)))
        return messages

    def _go_on(self, size: int) -> None:
        """A new task, which writes from where `resume_from` says to the end."""
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
        found = Counter(self._sink.contents())
        wanted = {(TOPIC, p, offset) for p in self._partitions for offset in range(self._records)}
        twice = sorted(place for place, count in found.items() if count > 1)
        missing, foreign = sorted(wanted - set(found)), sorted(set(found) - wanted)
        assert not twice, f"{what}: in the sink twice: {twice[:5]}"
        assert not missing, f"{what}: missing in the sink: {missing[:5]}"
        assert not foreign, f"{what}: in the sink, but never written: {foreign[:5]}"

    # ------------------------------------------------------------ the steps
    def undisturbed(self) -> None:
        """Batches one after the other; an empty sink knows no offset."""
        self._sink.clear()
        assert self._sink.writer().resume_from(TOPIC, 0) is None, "resume_from of an empty sink must return None"
        self._go_on(7)
        self._check("undisturbed")

    def routed(self) -> None:
        """A transform has given the records another topic; `resume_from` still gets their topic in Kafka."""
        self._sink.clear()
        writer = self._sink.writer()
        writer.commit(self._write(writer, dict.fromkeys(self._partitions, 0), 10, "routed"))
        resumed, moved = self._resume(self._sink.writer()), dict.fromkeys(self._partitions, 10)
        assert resumed == moved, (
            f"records of {TOPIC} that a transform gave the topic routed are committed up to {moved}, and resume_from("
            f"{TOPIC!r}, …) returns {resumed}: store heeler.kafka_partition() with them, not their topic"
        )

    def repeated(self) -> None:
        """The result of a commit was lost: a new task has to find out by itself."""
        self._sink.clear()
        writer = self._sink.writer()
        writer.commit(self._write(writer, dict.fromkeys(self._partitions, 0), 10))
        self._go_on(13)
        self._check("after a commit whose result was lost")

    def failed_in_the_middle(self) -> None:
        """One split fails: the others are aborted, and no reader sees their records."""
        self._sink.clear()
        writer = self._sink.writer()
        messages = self._write(writer, dict.fromkeys(self._partitions, 0), 10)
        writer.abort([*messages[:-1], None])
        assert not self._sink.contents(), "records of an aborted batch are visible"
        self._go_on(4)
        self._check("after an aborted batch")

    def late_commit(self) -> None:
        """A task that was suspended commits when its successor has written the same records, in other batches."""
        for size in (5, 10, 15, self._records):
            self._sink.clear()
            zombie = self._sink.writer()
            messages = self._write(zombie, dict.fromkeys(self._partitions, 0), 10)
            self._go_on(size)
            with suppress(Exception):  # the sink may refuse it
                zombie.commit(messages)
            self._check(f"after a late commit beside batches of {size}")

    def killed_while(self, method: str) -> int:
        """Kill a writer at each step (a line of Python) of `write` or `commit`; returns how often."""
        steps = self._steps(method, 10**9)
        assert steps is not None
        kills = range(1, steps + 1, -(-steps // self._kills))
        for step in kills:
            assert self._steps(method, step) is None, f"{method} ended before step {step}"
            self._go_on(step % 9 + 3)
            self._check(f"killed at step {step} of {method}")
        return len(kills)

    def _steps(self, method: str, die_at: int) -> int | None:
        """Write and commit a batch in a child process that dies at a step; the number of steps if it did not die."""
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
        # Collecting the parent's garbage may join threads (a Kafka client does) that do not exist in the child.
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
    """Counts executed lines of Python, and kills the process at one of them, as abruptly as kill -9."""

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
