"""What still runs when a split has ended: test_process_manager.py has the threads."""

from __future__ import annotations

import signal
import threading

from spark_tasks.spark.residents.leftovers import Leftovers


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
