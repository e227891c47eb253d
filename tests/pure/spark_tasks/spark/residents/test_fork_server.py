"""The worker's side of the fork server while Spark's JVM does not answer, and the end of the server."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from spark_tasks.spark.residents import fork_server
from spark_tasks.spark.residents.fork_server import ForkServer
from tests.rigs.support import wait_until
from tests.rigs.workers import existing, wait_gone

# A worker that has told its fork server to end while one of the server's processes hangs.
WORKER = """
import pickle, subprocess, sys, time
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.fork_server import framed
from spark_tasks.spark.residents.listener import ExecutorListener
from tests.rigs.splits import LeaveProcesses
from tests.rigs.support import wait_until

lines = {}
listener = ExecutorListener(lines.__setitem__)
server = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdin=subprocess.PIPE)
server.stdin.write(pickle.dumps(listener.expect(1)))
server.stdin.close()
wait_until(lambda: 1 in lines, 60)
lines[1].work.sendall(framed(listener.expect(2)))
wait_until(lambda: 2 in lines, 60)
wire.send(lines[2].work, pickle.dumps(LeaveProcesses(sys.argv[1], "hang")))
lines[1].go()
lines[1].close_after(60)
print(server.pid, flush=True)
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

    def ask(ticket: Any) -> None:
        asked.append(ticket)
        awake.wait(60)

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
