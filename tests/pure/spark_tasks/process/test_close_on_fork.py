"""A forked process that outlives this one holds no port and no pipe of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from spark_tasks.process.process_state import start_time_of
from tests.rigs.support import wait_until

# Listens, has a connection with a file, holds a pipe to another process, forks a process that goes on, and ends. A
# thread writes to the pipe meanwhile, with the lock of its buffer, as the other process is suspended.
WORKER = """
import os, signal, socket, subprocess, sys, threading, time
from spark_tasks.process.close_on_fork import close_on_fork
listener = socket.create_server(("127.0.0.1", 0))
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
file = connection.makefile("rb")
reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for one in (listener, connection, reader.stdin):
    close_on_fork(one)
reader.send_signal(signal.SIGSTOP)
os.waitid(os.P_PID, reader.pid, os.WSTOPPED)
thread = threading.Thread(target=reader.stdin.write, args=(bytes(1 << 20),), daemon=True)
thread.start()
while open(f"/proc/self/task/{thread.native_id}/stat").read().rpartition(")")[2].split()[0] != "S":
    pass
if (child := os.fork()) == 0:
    os.close(1), os.close(2)
    time.sleep(600)
reader.send_signal(signal.SIGCONT)
print(listener.getsockname()[1], child, reader.pid, flush=True)
os._exit(0)
"""


def test_ports_connections_and_pipes_are_closed_once_the_worker_has_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", WORKER, str(server.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        port, child, reader = map(int, done.stdout.split())
        try:
            os.kill(child, 0)
            socket.create_server(("127.0.0.1", port)).close()
            wait_until(lambda: start_time_of(reader) is None)  # it has read to the end
            connection, _ = server.accept()
            with connection:
                connection.settimeout(20)
                assert connection.recv(1) == b""
        finally:
            os.kill(child, signal.SIGKILL)
