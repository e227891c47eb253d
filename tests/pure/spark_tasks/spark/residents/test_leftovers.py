"""What still runs when a split has ended.

A test without executor processes has a process of its own, as what other tests have left in a process counts: threads
of clients, and processes that still end on a busy machine. One process forks them all, as the imports take a second.
"""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import ParamSpec

import pytest

from spark_tasks.process.process_state import start_time_of
from spark_tasks.spark.residents import leftovers as module
from spark_tasks.spark.residents.leftovers import MANY, Leftovers
from tests.rigs.executors import Processes, Rig
from tests.rigs.splits import Answer, ForgetAlarm, ImportModule, ImportUsual, LeaveBehind
from tests.rigs.support import wait_until

P = ParamSpec("P")


FORKS = f"""
import os, sys
import {__name__}

for code in sys.stdin:
    if not (child := os.fork()):
        os.dup2(2, 1)  # what a test prints is no exit code
        exec(code)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@cache
def forking() -> subprocess.Popen[str]:
    """A process that executes each line of its input in a fork, and prints its exit code. It has no thread but one."""
    return subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    if forking.cache_info().currsize:
        assert forking().communicate(timeout=30) == ("", None)
        forking.cache_clear()


def alone(test: Callable[P, None]) -> Callable[P, None]:
    """Runs a test in a new process, with the tests that need some. Its arguments have to be literals."""

    @wraps(test)
    def run(*arguments: P.args, **more: P.kwargs) -> None:
        process = forking()
        assert process.stdin is not None
        assert process.stdout is not None
        code = f"from {__name__} import {test.__name__} as test; test.__wrapped__(*{arguments!r}, **{more!r})"
        print(code, file=process.stdin, flush=True)
        assert process.stdout.readline() == "0\n"

    return pytest.mark.integration(run)


@alone
def test_a_forgotten_alarm_is_stopped() -> None:
    leftovers = Leftovers()
    signal.setitimer(signal.ITIMER_VIRTUAL, 60.0)
    assert leftovers.end()
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0.0


@alone
def test_a_timer_in_a_thread_ends_the_process() -> None:
    leftovers = Leftovers()
    timer = threading.Timer(60.0, print)
    timer.start()
    assert not leftovers.end()
    timer.cancel()
    timer.join()
    assert leftovers.end()


@pytest.mark.parametrize(("count", "kept"), [(40, True), (MANY + 1, False)])
@alone
def test_many_threads_end_the_process_even_if_they_sleep(count: int, kept: bool) -> None:
    leftovers, stop = Leftovers(), threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(2):
            assert leftovers.end() == kept
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert leftovers.end()


def wait_for(lock: _thread.LockType) -> None:
    with lock:
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@alone
def test_threads_of_c_code_count_too_and_those_of_kafka_clients_do_not() -> None:
    module.MANY = 3
    leftovers, stop = Leftovers(), threading.Event()
    kept = [threading.Thread(target=stop.wait, name=f"kafka-io-{n}") for n in range(5)]
    try:
        for thread in kept:
            thread.start()
        assert leftovers.end()
        lock = _thread.allocate_lock()
        with lock:
            for _ in range(4):  # `threading` does not know them, as those of libraries
                _thread.start_new_thread(wait_for, (lock,))
            assert not leftovers.end()
    finally:
        stop.set()
        for thread in kept:
            thread.join()


@alone
def test_processes_are_killed_and_end_the_process() -> None:
    leftovers = Leftovers()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        assert not leftovers.end()
        assert sleeper.wait(10) == -signal.SIGKILL
    assert leftovers.end()


@alone
def test_a_process_that_has_ended_and_that_nobody_has_waited_for_is_no_leftover() -> None:
    leftovers = Leftovers()
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as ended:
        assert ended.stdout is not None
        assert ended.stdout.read() == b""
        wait_until(lambda: start_time_of(ended.pid) is None)
        assert leftovers.end()


@pytest.mark.integration  # processes of their own
def test_an_alarm_that_a_plugin_has_forgotten_does_not_hit_other_connectors(
    real: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real.pool.manager, "grow", lambda _wanted: None)  # it stays the only one
    (pid,) = real.submit("a-0", ForgetAlarm()).result(30)
    assert real.submit("b-0", ImportModule(), Answer(1, 1.5)).result(30)[0][-1] == pid


@pytest.mark.integration  # processes of their own
def test_usual_plugins_share_processes(
    real: Rig, processes: Processes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds, most, grow = 3, 2, real.pool.manager.grow
    monkeypatch.setattr(real.pool.manager, "grow", lambda wanted: grow(min(wanted, most - len(processes.started))))
    for _ in range(rounds):
        batches = [real.submit(f"c{number}-0", ImportUsual()) for number in range(50)]
        pids = {batch.result(60)[0] for batch in batches}
        assert pids <= {process.pid for process in processes.started}
    assert len(processes.started) == most
    assert "executor process" not in caplog.text, "none is replaced, or kept for a connector"


@pytest.mark.integration  # processes of their own
@pytest.mark.parametrize("kind", ["loop", "timer", "threads"])
def test_a_process_in_which_a_plugin_still_runs_is_replaced_for_other_connectors(
    kind: str, real: Rig, processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    (pid,) = real.submit("a-0", LeaveBehind(kind)).result(30)
    real.keep_only("a")
    assert real.submit("b-0", ImportModule()).result(30)[0][-1] != pid
    assert "left behind by connector a" in caplog.text
    wait_until(lambda: [p.poll() for p in processes.started if p.pid == pid] == [-signal.SIGKILL])
    assert real.died == 0, "it was expected to end"
