"""How parents of executor processes are asked to fork, and do it: the worker's own (local_parent.py), and the fork
server (fork_server.py).

A message is a frame (wire.py) with a pickled request: to fork a process that joins with a ticket, after importing the
modules that the worker's connectors need; or to guard another process. An empty frame tells the parent to end.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from typing import NamedTuple

from spark_tasks.process.reaper import Reaper
from spark_tasks.spark.daemon import import_all
from spark_tasks.spark.environment import needed
from spark_tasks.spark.residents.executor_loop import serve
from spark_tasks.spark.residents.wire import HEAD, Ticket

_logger = logging.getLogger(__name__)

_CHUNK = 1 << 16


class _Guarded(NamedTuple):
    """The message that another process has to end with the worker."""

    pid: int
    start: str


def fork_request(ticket: Ticket) -> bytes:
    """The message that asks for a process. It has the names of the modules that the worker's connectors need."""
    return _framed((ticket, needed()))


def guard_request(pid: int, start: str) -> bytes:
    """The message that another process has to end with the worker. `start`: as start_time_of returns it."""
    return _framed(_Guarded(pid, start))


def _framed(message: object) -> bytes:
    data = pickle.dumps(message)
    return HEAD.pack(len(data)) + data


def fork_for_each(tickets: BufferedReader, reaper: Reaper, leash: int = -1) -> None:
    """Forks a process for each ticket until it is told to end, or until the end of the input. While it imports what a
    process needs, which may hang, the end of the leash, if there is one, kills it. `leash`: its descriptor.
    """
    reaper.register(tickets.fileno(), select.POLLIN)
    for data in _frames(tickets, reaper):
        if not data:
            reaper.leave_guarded()
            break
        message = pickle.loads(data)
        if isinstance(message, _Guarded):
            reaper.guard(*message)
            continue
        ticket, names = message
        if missing := [name for name in filter(None, names.split(",")) if name not in sys.modules]:
            with reaper.deputized(leash):
                import_all(missing)  # here, and not in each process
        if reaper.fork() == 0:
            _serve(ticket)
    reaper.unregister(tickets.fileno())


def _frames(tickets: BufferedReader, reaper: Reaper) -> Iterator[bytes]:
    """The payloads of frames until the end of the input."""
    data = b""
    while True:
        while len(data) >= HEAD.size:
            end = HEAD.size + HEAD.unpack_from(data)[0]
            if len(data) < end:
                break
            frame, data = data[HEAD.size:end], data[end:]
            yield frame
        while not reaper.poll():
            pass
        more = tickets.read1(_CHUNK)  # never waits for more than there is
        if not more:
            return
        data += more


def _serve(ticket: Ticket) -> None:
    code = 1
    try:
        os.setpgid(0, 0)  # a plugin that signals its process group, as with os.kill(0, SIGTERM), must not end others
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        with suppress(OSError):  # the worker has ended or no longer needs this process
            serve(ticket)
        code = 0
    except Exception:
        _logger.exception("An executor process failed")
    finally:
        os._exit(code)
