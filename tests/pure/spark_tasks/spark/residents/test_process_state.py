"""The state and CPU use of a process, by its pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_tasks.spark.residents.process_state import cpu_use, has_ended, is_suspended
from tests.rigs.support import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say")


def test_a_killed_process_has_ended_before_it_is_reaped() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not has_ended(process.pid, 0.01)
        process.kill()
        assert has_ended(process.pid, 20), "nobody has waited for it yet"
        assert process.wait() != 0
    assert has_ended(process.pid, 20)


def test_a_process_runs_as_long_as_one_of_its_threads() -> None:
    """Its first thread has ended here, so the system reports a zombie."""
    ends_alone = ("import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); "
                  "print(flush=True); ctypes.CDLL(None).pthread_exit(None)")
    with subprocess.Popen([sys.executable, "-c", ends_alone], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: " Z " in Path(f"/proc/{process.pid}/stat").read_text(), what="its first thread to end")
        assert not has_ended(process.pid, 0.05)
        process.kill()
        assert has_ended(process.pid, 20)


def test_a_suspended_process_is_distinguished() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_suspended(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_suspended(process.pid))
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: not is_suspended(process.pid))
        process.kill()
    assert not is_suspended(process.pid), "it has ended"


def test_the_cpu_use_of_a_process_is_measured() -> None:
    own = cpu_use(os.getpid())
    assert own is not None
    assert own.seconds > 0
