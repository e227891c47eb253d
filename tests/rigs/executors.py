"""Executor processes for tests: a pool with real sockets, and threads in the place of processes."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spark_tasks.spark.executor import pickled_outcomes, run_split
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.batches import SplitBatch, prepared
from spark_tasks.spark.residents.connections import dial
from spark_tasks.spark.residents.hang_reports import HangReports, Hangs
from spark_tasks.spark.residents.listener import ExecutorListener, Line
from spark_tasks.spark.residents.monitor import Monitor
from spark_tasks.spark.residents.pool import Pool
from spark_tasks.spark.residents.process_upkeep import ProcessUpkeep
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.wire import Ticket
from tests.rigs.support import wait_until

RUNNING, MAX_PROCESSES = 2, 4
gates: dict[str, threading.Event] = {}
begun: list[str] = []


@dataclass(frozen=True)
class Gate:
    """Waits until it is opened."""

    name: str

    def run(self) -> str:
        begun.append(self.name)
        gates[self.name].wait(20)
        return self.name


def pass_gate(name: str) -> None:
    begun.append(name)
    gates[name].wait(20)


class _Trapped:
    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[object, ...]:
        return pass_gate, (self._name,)


@dataclass(frozen=True)
class GateInResult:
    """Its result waits when it is unpickled."""

    name: str

    def run(self) -> _Trapped:
        return _Trapped(self.name)


here = threading.local()  # of a thread that is a process


@dataclass(frozen=True)
class SetSomethingUp:
    """Sets something up in its process, at once or, as a thread of a plugin could, after the split."""

    after: bool = False

    def run(self) -> None:
        here.later = "something"
        here.changes = "" if self.after else here.later


IN_PLACE = "in the place of a process"  # the name of a thread


class Threads:
    """A Launcher whose processes are threads; one that is killed is no longer heard."""

    max_processes = 100

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.closed = False
        self.asked = 0
        self.works: list[socket.socket] = []
        self.asks = 0  # how many splits were declined, or are about to be when `declines` is set
        self.declines = threading.Event()
        self.declines.set()
        self.restored: list[bool] = []  # whether a process restores itself before a split

    def launch(self, ticket: Ticket) -> None:
        self.asked += 1
        if self.broken:
            raise OSError(self.broken)
        threading.Thread(target=self._serve, args=(ticket,), name=IN_PLACE, daemon=True).start()

    def _serve(self, ticket: Ticket) -> None:
        with suppress(OSError), dial(ticket, leash=True) as leash, dial(ticket, leash=False) as work:
            self.works.append(work)
            threading.Thread(target=self._obey, args=(leash, work), name=IN_PLACE, daemon=True).start()
            here.changes = here.later = ""
            while split := wire.receive(work):
                if split.startswith(wire.OTHER) and here.later:
                    here.changes = here.later
                    self.asks += 1
                    self.declines.wait(20)
                    wire.send(work, wire.before_answer(here.changes))
                    continue
                self.restored.append(split.startswith(wire.OTHER))
                outcome = pickled_outcomes([run_split(split.removeprefix(wire.OTHER))])
                wire.send(work, outcome, before=wire.before_answer(here.changes))
            work.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _obey(leash: socket.socket, work: socket.socket) -> None:
        with suppress(OSError):
            leash.recv(1)
            work.shutdown(socket.SHUT_RDWR)

    def failure(self, number: int) -> str | None:  # noqa: ARG002
        return None

    def close(self) -> None:
        self.closed = True


class Slow(Threads):
    """Its processes come when they are let in, and later ones at once until it is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False
        self.tickets: list[Ticket] = []

    def launch(self, ticket: Ticket) -> None:
        if self.is_open:
            super().launch(ticket)
        else:
            self.tickets.append(ticket)

    def let_in(self) -> None:
        self.is_open = True
        while self.tickets:
            super().launch(self.tickets.pop())

    def shut(self) -> None:
        self.is_open = False


class Suspended(Slow):
    """It does not say why its processes have not joined, until it is resumed."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed = threading.Event()

    def failure(self, number: int) -> str | None:
        self.resumed.wait(20)
        return super().failure(number)


class Kept(Threads):
    """Its processes keep their connections until the test ends, so that no other socket gets their numbers."""

    def _serve(self, ticket: Ticket) -> None:
        with suppress(OSError):
            leash, work = dial(ticket, leash=True), dial(ticket, leash=False)
            self.works += [leash, work]
            while split := wire.receive(work):
                wire.send(work, pickled_outcomes([run_split(split.removeprefix(wire.OTHER))]))
            work.shutdown(socket.SHUT_RDWR)


SERVE = """
import pickle, sys
from spark_tasks.spark.residents.executor_loop import serve
serve(pickle.load(sys.stdin.buffer))
"""


class Processes(Threads):
    """Real processes, which take a second to start."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[subprocess.Popen[bytes]] = []

    def launch(self, ticket: Ticket) -> None:
        process = subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE)
        assert process.stdin is not None
        with process.stdin as tickets:
            pickle.dump(ticket, tickets)
        self.started.append(process)

    def ended(self) -> bool:
        return all(process.poll() is not None for process in self.started)



class Rig:
    def __init__(self, max_processes: int = MAX_PROCESSES) -> None:
        self.died = 0
        self.lock = threading.Condition()
        self.listener = ExecutorListener(self._joined)
        self.pool = Pool(ExecutorSettings(max_processes, RUNNING), self.listener, self.lock, self._died)
        self.processes = self.pool.processes

    def _joined(self, number: int, line: Line) -> None:
        self.pool.manager.joined(number, line)

    def _died(self) -> None:
        self.died += 1

    def reports(self, slow_s: float = 0.0, hangs: Hangs = lambda _task, _text: None) -> HangReports:
        return HangReports(self.pool, slow_s, self.lock, self.listener.folder, hangs)

    def monitor(self, settings: ExecutorSettings, hangs: Hangs = lambda _task, _text: None) -> Monitor:
        upkeep = ProcessUpkeep(self.processes, settings.spare, settings.idle_s)
        return Monitor(self.pool, upkeep, self.reports(settings.slow_s, hangs), self.lock, lambda: None)

    def submit(self, task: str, *splits: Any) -> Future[list[Any]]:
        batch = SplitBatch(task, len(splits), outcomes=[None] * len(splits))
        self.pool.submit(batch, prepared(splits))
        return batch.future

    def gate(self, task: str, name: str) -> Future[list[Any]]:
        """A split that has begun, and goes on when gates[name] is set."""
        gates[name] = threading.Event()
        future = self.submit(task, Gate(name))
        wait_until(lambda: name in begun, what=f"{name} to begin")
        return future

    def settled(self, batch: Future[list[Any]]) -> bool:
        with self.lock:
            self.pool.dispatch()  # as the monitor does
        return batch.done()

    def idle(self, count: int) -> None:
        wait_until(lambda: len(self.processes.idle) >= count, what=f"{count} idle ones")

    def keep_only(self, connector: str) -> None:
        """Ends the idle processes of other connectors."""
        wait_until(lambda: any(one.connector == connector for one in self.processes.idle))
        with self.lock:
            for resident in [one for one in self.processes.idle if one.connector != connector]:
                self.processes.end_idle(resident)
