"""A forked process that outlives this one holds no port and no pipe of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from spark_tasks.spark.residents.process_state import start_of
from tests.rigs.support import wait_until

# Listens, holds a pipe to another process, forks a process that goes on, and ends.
WORKER = """
import os, socket, subprocess, sys, time
from spark_tasks.process.unforked import keep_from_children
listener = socket.create_server(("127.0.0.1", 0))
reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
keep_from_children(listener)
keep_from_children(reader.stdin)
if (child := os.fork()) == 0:
    os.close(1), os.close(2)
    time.sleep(600)
print(listener.getsockname()[1], child, reader.pid, flush=True)
os._exit(0)
"""


def test_a_port_is_free_and_a_pipe_is_closed_once_the_worker_has_ended() -> None:
    done = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=True, timeout=60)
    port, child, reader = map(int, done.stdout.split())
    try:
        os.kill(child, 0)
        socket.create_server(("127.0.0.1", port)).close()
        wait_until(lambda: start_of(reader) is None)  # it has read to the end
    finally:
        os.kill(child, signal.SIGKILL)
