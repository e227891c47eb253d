"""The worker's view of an executor process, and the interface of what starts such processes."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from spark_tasks.process.process_state import CpuUse
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.batches import Item
from spark_tasks.spark.residents.fairness import Use
from spark_tasks.spark.residents.listener import Line
from spark_tasks.spark.residents.wire import Ticket

BUSY = 0.25  # the share of a CPU above which a process is not considered to wait
LONG_S = 3.0  # a split that has been running for longer leaves its share of the CPU to the system


class Launcher(Protocol):
    """Starts executor processes."""

    @property
    def max_processes(self) -> int:
        """The largest number of processes."""

    def launch(self, ticket: Ticket) -> None:
        """Starts a process that joins with the ticket. May raise any error."""

    def failure(self, number: int) -> str | None:
        """Why the process with this number will never join; None if it still may. May hang while Spark's JVM does."""

    def close(self) -> None:
        """Starts no more processes; running ones continue. Does not wait."""


class Expects(Protocol):
    """The part of the ExecutorListener that issues tickets."""

    def expect(self, number: int) -> Ticket:
        """A ticket for the process with this number."""

    def forget(self, number: int) -> None:
        """Withdraws the ticket of the process with this number, and removes what it has left when it has ended."""


@dataclass(slots=True, eq=False)
class Resident:
    """An executor process. `line` None: it has not joined yet."""

    number: int
    launcher: Launcher
    line: Line | None = None
    item: Item | None = None
    connector: str = ""  # of the last split that it has begun; its objects and connections are in this process
    bound_at: float = 0.0  # since when it is kept for this connector, which has set something up in it; 0.0: it is not
    bound_first: float = 0.0  # since when it was first kept for this connector: to bind it again does not restart this
    released: frozenset[str] = frozenset()  # connectors for which it is not kept when its split has ended
    since: float = field(default_factory=time.monotonic)  # when it was requested, became idle or got its split
    exempt: bool = False  # its split does not count as running: it uses no CPU, or has been running for long
    new: bool = True  # it has not been idle yet
    owner: str = ""  # the task that it belongs to, whose splits are not in `item`
    removed: bool = False  # killed or asked to end, and removed from all lists
    killed: str = ""  # what the worker has done to it, and why: follows after "the executor process"
    cpu: tuple[float, float] = (0.0, 0.0)  # when its CPU time was last read, and the CPU seconds
    used_s: float = 0.0  # the CPU seconds of its split since the CPU time was first read
    unseen_s: float = 0.0  # how long its split had been running by then
    suspended_at: float = 0.0  # when it was found to be suspended
    slow_at: float = 0.0  # when its split was last reported as slow
    # For its thread: a split, and how many bytes of it have been sent; None: no more will follow
    inbox: queue.SimpleQueue[tuple[Item, int] | None] = field(default_factory=queue.SimpleQueue)
    thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """What it is called in the log, when it runs no split."""
        return f"The process of {self.owner}" if self.owner else "An idle executor process"

    def take(self, item: Item) -> None:
        """Gets a split."""
        self.item, self.since, self.exempt, self.released = item, time.monotonic(), False, frozenset()
        self.cpu, self.used_s, self.unseen_s, self.slow_at = (0.0, 0.0), 0.0, 0.0, 0.0

    def look(self, now: float, cpu_s: float) -> tuple[float, float]:
        """Its CPU time, or 0.0 if it has ended, at a time (time.monotonic). Returns how much of it is new, in how many
        seconds; zeros if nobody has looked since it got its split.
        """
        at, before = self.cpu
        self.cpu = now, cpu_s
        if not at:
            self.unseen_s = now - self.since
            return 0.0, 0.0
        new = max(0.0, cpu_s - before)
        self.used_s += new
        return new, now - at

    def measure(self, now: float, used: CpuUse | None) -> None:
        """Decides whether its split counts as running: not if it uses no CPU or has been running for long, since
        endless loops of one plugin must not keep all others from running; the system lets them share the CPUs. `used`:
        None if that is not known.
        """
        if used is None:
            self.exempt = True
            return
        new_s, since_s = self.look(now, used.seconds)
        if since_s:  # a process that is ready to run only waits for a CPU
            waits = not used.runnable and new_s < BUSY * since_s
            self.exempt = waits or now - self.since > LONG_S

    def use(self, now: float) -> Use:
        """What its split has used, if there is no outcome that says it: all that one CPU has in the time for which
        nobody knows.
        """
        looked, _ = self.cpu
        return Use(self.used_s + self.unseen_s + now - (looked or self.since), now - self.since)

    def bind(self, connector: str, changes: str) -> bool:
        """Its last split was this connector's, which has set up these things in it, or nothing. Returns whether it was
        not bound before.
        """
        before = self.bound_at
        if connector != self.connector:
            self.connector, self.bound_first = connector, 0.0
        if changes:
            self.bound_first = self.bound_first or time.monotonic()
        self.bound_at = self.bound_first if changes else 0.0
        return not before and bool(changes)

    def frame_of(self, payload: bytes, connector: str) -> bytes:
        """The payload of the frame with a split of this connector. Before another one's, the process looks at what the
        former connector has left there.
        """
        return wire.OTHER + payload if self.connector not in {"", connector} else payload
