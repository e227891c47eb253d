"""What still runs when a split has ended: test_process_manager.py has the threads."""

from __future__ import annotations

import signal
import subprocess
import threading

from spark_tasks.spark.residents.leftovers import Leftovers
from spark_tasks.spark.residents.process_state import start_of
from tests.rigs.support import wait_until


def test_a_forgotten_alarm_is_stopped() -> None:
    leftovers = Leftovers()
    signal.setitimer(signal.ITIMER_VIRTUAL, 60.0)
    assert leftovers.end()
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0.0


def test_a_timer_in_a_thread_ends_the_process() -> None:
    leftovers = Leftovers()
    timer = threading.Timer(60.0, print)
    timer.start()
    assert not leftovers.end()
    timer.cancel()
    timer.join()
    assert leftovers.end()


def test_processes_are_killed_and_end_the_process() -> None:
    leftovers = Leftovers()
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        assert not leftovers.end()
        assert sleeper.wait(10) == -signal.SIGKILL
    assert leftovers.end()


def test_a_process_that_has_ended_and_that_nobody_has_waited_for_is_no_leftover() -> None:
    leftovers = Leftovers()
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as ended:
        assert ended.stdout is not None
        assert ended.stdout.read() == b""
        wait_until(lambda: start_of(ended.pid) is None)
        assert leftovers.end()
