"""The worker's side of the fork server while Spark's JVM does not answer, and the end of the server."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from spark_tasks.spark.residents import fork_server
from spark_tasks.spark.residents.fork_server import ForkServer
from spark_tasks.spark.residents.listener import Line
from spark_tasks.spark.residents.wire import HEAD, Ticket
from tests.rigs.support import wait_until
from tests.rigs.workers import existing, wait_gone

MANY = 100  # messages that do not fit into a socket's buffer
# A worker that has told its fork server to end while one of the server's processes hangs.
WORKER = """
import pickle, subprocess, sys, time
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.fork_requests import fork_request
from spark_tasks.spark.residents.listener import ExecutorListener
from tests.rigs.splits import LeaveProcesses
from tests.rigs.support import wait_until

lines = {}
listener = ExecutorListener(lines.__setitem__)
server = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdin=subprocess.PIPE)
server.stdin.write(pickle.dumps(listener.expect(1)))
server.stdin.close()
wait_until(lambda: 1 in lines, 60)
lines[1].work.sendall(fork_request(listener.expect(2)))
wait_until(lambda: 2 in lines, 60)
wire.send(lines[2].work, pickle.dumps(LeaveProcesses(sys.argv[1], "hang")))
lines[1].ask_to_end()
lines[1].close_after(60)
print(server.pid, flush=True)
time.sleep(600)
"""
# A worker whose fork server hangs in an import while one of its processes hangs. At the end of its input, it ends the
# server.
IMPORTING = """
import pickle, subprocess, sys, time
from pathlib import Path
from spark_tasks.spark.environment import OPTIONAL
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.fork_server import ForkServer
from spark_tasks.spark.residents.listener import ExecutorListener
from tests.rigs.splits import LeaveProcesses
from tests.rigs.support import wait_until

def start(ticket):
    server = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
    server.stdin.write(pickle.dumps(ticket))
    server.stdin.close()
    print(server.pid, flush=True)
    return lambda: None

lines, file = {}, Path(sys.argv[2])
listener = ExecutorListener(lambda number, line: server.joined(number, line) or lines.update({number: line}))
server = ForkServer(start, lambda: True, listener, iter((1,)).__next__, 4)
server.keep()
wait_until(lambda: server.max_processes, 60)
server.launch(listener.expect(2))
wait_until(lambda: 2 in lines, 60)
wire.send(lines[2].work, pickle.dumps(LeaveProcesses(str(file), "hang")))
wait_until(lambda: file.exists() and file.read_text().endswith("\\n"), 60)
OPTIONAL["sys"] = ("hanging",)
server.launch(listener.expect(3))
sys.stdin.read()
server.close()
time.sleep(600)
"""
SERVER = """
import pickle, sys
from spark_tasks.spark.residents.fork_server import ForkServerJob
ticket = pickle.load(sys.stdin.buffer)
ForkServerJob(ticket).run(ticket)
"""


class Tickets:
    """A listener that issues tickets: their numbers."""

    def __init__(self) -> None:
        self.valid: set[int] = set()

    def expect(self, number: int) -> Any:
        self.valid.add(number)
        return number

    def forget(self, number: int) -> None:
        self.valid.discard(number)


def test_one_request_at_a_time_waits_for_a_suspended_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("START_S", "RETRY_S"):
        monkeypatch.setattr(fork_server, name, 0.0)
    awake, asked, tickets = threading.Event(), [], Tickets()

    def ask(ticket: Any) -> Callable[[], None]:
        asked.append(ticket)
        awake.wait(60)
        return lambda: None

    numbers = iter(range(1, 100))
    server = ForkServer(ask, lambda: True, tickets, lambda: next(numbers), 4)
    try:
        for _ in range(5):
            server.keep()
            wait_until(lambda: asked)
        assert asked == [1]
        assert tickets.valid == {1}, "the server that Spark starts once it is back may join"
    finally:
        awake.set()
    wait_until(lambda: server.keep() or len(asked) > 1)  # it ended without a server: the next one is requested
    assert 1 not in tickets.valid
    server.close()
    assert tickets.valid == set()


def test_a_server_whose_job_ends_before_it_has_joined_is_replaced_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's daemon was killed meanwhile. It used to be awaited for a minute."""
    monkeypatch.setattr(fork_server, "RETRY_S", 0.0)
    asked, tickets, numbers = [], Tickets(), iter(range(1, 100))

    def ask(ticket: Any) -> Callable[[], str | None]:
        asked.append(ticket)
        return lambda: "its Spark job ended early" if ticket == 1 else None

    server = ForkServer(ask, lambda: True, tickets, lambda: next(numbers), 4)
    wait_until(lambda: server.keep() or asked == [1, 2])
    assert tickets.valid == {2}
    server.close()


def test_a_suspended_server_delays_nobody_and_is_told_everything_once_it_goes_on() -> None:
    server = ForkServer(lambda _: lambda: None, lambda: True, Tickets(), iter((1,)).__next__, 4)
    near, far = socket.socketpair()
    with near, far, far.makefile("rb") as read:
        server.keep()
        assert server.joined(1, Line(near, near.dup(), os.getpid()))
        for number in range(MANY):
            server.launch(Ticket(number, bytes(5000)))
            server.guard([Line(near, near, os.getpid())])
        read_all = threading.Event()
        keeper = threading.Thread(target=keep_until, args=(server, read_all), daemon=True)
        keeper.start()
        found = [pickle.loads(read.read(*HEAD.unpack(read.read(HEAD.size)))) for _ in range(2 * MANY)]
        read_all.set()
        keeper.join()
        server.close()
        assert [message[0].number for message in found[::2]] == [*range(MANY)]
        assert {message[0] for message in found[1::2]} == {os.getpid()}


def keep_until(server: ForkServer, end: threading.Event) -> None:
    while not end.wait(0.01):
        server.keep()


@pytest.mark.integration  # processes of its own
@pytest.mark.parametrize("how", ["killed", "closed"])
def test_a_server_that_hangs_in_an_import_ends_with_the_worker_or_when_it_is_told_to(tmp_path: Path, how: str) -> None:
    """With the worker, its processes end, too."""
    importing, pids = tmp_path / "importing", tmp_path / "pids"
    (tmp_path / "hanging.py").write_text(f"open({str(importing)!r}, 'w').close()\nimport time\ntime.sleep(600)\n")
    path = os.pathsep.join((str(tmp_path), *sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", IMPORTING, SERVER, str(pids)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as worker:
        found = list[psutil.Process]()
        try:
            assert worker.stdout is not None
            assert worker.stdin is not None
            server = existing(worker.stdout.readline().decode())
            found += server
            wait_until(importing.exists, 120)
            processes = existing(pids.read_text())
            found += processes
            if how == "killed":
                worker.kill()
                wait_gone(processes)
            else:
                worker.stdin.close()
            wait_gone(server)
        finally:
            for process in (worker, *found):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


@pytest.mark.integration  # processes of its own
def test_a_server_that_waits_for_a_process_ends_with_the_worker(tmp_path: Path) -> None:
    """The process has closed all descriptors and holds the GIL, so it notices nothing."""
    file, found = tmp_path / "pids", list[psutil.Process]()
    with subprocess.Popen([sys.executable, "-c", WORKER, str(file), SERVER], stdout=subprocess.PIPE) as worker:
        try:
            assert worker.stdout is not None
            server = psutil.Process(int(worker.stdout.readline()))
            found.append(server)
            wait_until(lambda: file.exists() and file.read_text().endswith("\n"), 60)
            found += existing(file.read_text())
            assert server.is_running()
            worker.kill()
            wait_gone(found)
        finally:
            for process in (worker, *found):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
