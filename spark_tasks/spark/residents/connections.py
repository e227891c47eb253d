"""The executor's side of the two connections to its worker: for work, and the leash."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.peer_credentials import peer_credentials
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.leash import Leash
from spark_tasks.spark.residents.watchdog import release_worker, watch_worker
from spark_tasks.spark.residents.wire import Ticket


def dial(ticket: Ticket, *, leash: bool) -> socket.socket:
    """A connection to the worker on which both sides have authenticated each other. Raises OSError."""
    if ticket.path:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(wire.GREETING_S)
        sock.connect(ticket.path)
    else:
        plain = socket.create_connection((ticket.host, ticket.port), wire.GREETING_S)
        wire.tune(plain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the worker's own certificate is the only one that is trusted
        context.load_verify_locations(cadata=ticket.certificate)
        sock = context.wrap_socket(plain)
    wire.greet(sock, ticket, leash=leash)
    sock.settimeout(None)
    return sock


@contextmanager
def joined(
    ticket: Ticket, leash_signal: signal.Signals = signal.SIGKILL
) -> Iterator[tuple[socket.socket, Leash]]:
    """The connections of a process that has joined its worker; until the end of the block, the worker can kill it, or
    send it another signal. Raises OSError.
    """
    with dial(ticket, leash=True) as connection, dial(ticket, leash=False) as work:
        for one in (connection, work):
            close_on_fork(one)  # a process forked by a plugin must not keep them open when this process is killed
        leash = Leash(connection, leash_signal)
        leash.tie()
        watch_worker(worker_at(connection))
        try:
            yield work, leash
            release_worker()
        finally:
            leash.untie()


def worker_at(connection: socket.socket) -> int:
    """The worker's process id. 0 if it is on another machine, and on other systems than Linux."""
    peer = peer_credentials(connection)
    return 0 if peer is None else peer.pid
