"""Which processes may join as executors, over both kinds of socket."""

from __future__ import annotations

import pickle
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest

from spark_tasks.spark.residents import listener as module
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.connections import dial
from spark_tasks.spark.residents.listener import ExecutorListener, Line
from spark_tasks.spark.residents.wire import Ticket
from tests.rigs.executors import SERVE
from tests.rigs.splits import Answer, HoldInterpreter
from tests.rigs.support import wait_until

Came = SimpleQueue[tuple[int, Line]]


@pytest.fixture(params=["unix", "tls"])
def listener(request: pytest.FixtureRequest) -> Iterator[tuple[ExecutorListener, Came]]:
    arrived: Came = SimpleQueue()
    listener = ExecutorListener(lambda number, line: arrived.put((number, line)), remote=request.param == "tls")
    yield listener, arrived
    listener.close()
    assert not listener.folder.exists()


def join(ticket: Ticket) -> tuple[socket.socket, socket.socket]:
    return dial(ticket, leash=True), dial(ticket, leash=False)


def refused(ticket: Ticket, *, leash: bool) -> None:
    with pytest.raises((ConnectionError, ssl.SSLError)):
        dial(ticket, leash=leash)


def test_an_executor_can_use_its_ticket_only_once(listener: tuple[ExecutorListener, Came]) -> None:
    opened, arrived = listener
    ticket = opened.expect(7)
    leash, work = join(ticket)
    number, line = arrived.get(timeout=10)
    assert number == 7
    for payload in (b"split", bytes(3_000_000)):
        sender = Thread(target=wire.send, args=(line.work, payload))
        sender.start()
        assert wire.receive(work) == payload
        sender.join()
    wire.send(work, b"answer")
    assert wire.receive(line.work) == b"answer"
    line.kill()
    assert leash.recv(1) == b"x"
    refused(ticket, leash=True)
    refused(ticket, leash=False)
    for sock in (leash, work):
        sock.close()
    assert line.ended
    line.close()


def test_connections_without_the_token_or_out_of_order_are_refused(listener: tuple[ExecutorListener, Came]) -> None:
    opened, arrived = listener
    ticket = opened.expect(1)
    refused(replace(ticket, token=bytes(32)), leash=True)
    refused(replace(ticket, number=2), leash=True)
    refused(ticket, leash=False)  # the leash comes first
    leash = dial(ticket, leash=True)
    refused(ticket, leash=True)
    refused(replace(ticket, token=bytes(32)), leash=False)
    opened.forget(1)
    refused(ticket, leash=False)
    assert arrived.empty()
    leash.close()


def test_only_a_connection_of_a_stranger_is_worth_a_warning(
    listener: tuple[ExecutorListener, Came], caplog: pytest.LogCaptureFixture
) -> None:
    """On a busy machine, a process may connect when the worker no longer waits for it."""
    opened, _ = listener
    ticket = opened.expect(1)
    opened.forget(1)
    refused(ticket, leash=True)
    assert not caplog.records
    refused(replace(ticket, token=bytes(32)), leash=True)
    wait_until(lambda: "a wrong token" in caplog.text, 10)


def make_noise(ticket: Ticket, noise: bytes = b"GET / HTTP/1.1\r\n\r\n" * 20) -> socket.socket:
    if ticket.path:
        noisy = socket.socket(socket.AF_UNIX)
        noisy.connect(ticket.path)
    else:
        noisy = socket.create_connection((ticket.host if ticket.host != "0.0.0.0" else "127.0.0.1", ticket.port))
    noisy.sendall(noise)
    return noisy


def test_rejected_connections_do_not_fill_the_log(
    listener: tuple[ExecutorListener, Came], caplog: pytest.LogCaptureFixture
) -> None:
    ticket = listener[0].expect(1)
    for _ in range(30):
        with make_noise(ticket) as noisy:
            noisy.settimeout(10)
            with suppress(ConnectionResetError):  # what was sent is unread there
                while noisy.recv(4096):
                    pass
    lines = [record for record in caplog.records if "was refused" in record.message]
    assert len(lines) == 5
    assert not any(record.exc_info for record in caplog.records)


def test_invalid_connections_do_not_block_executors(listener: tuple[ExecutorListener, Came]) -> None:
    opened, arrived = listener
    ticket = opened.expect(1)
    noisy = make_noise(ticket)
    for sock in join(ticket):
        sock.close()
    arrived.get(timeout=10)[1].close()
    noisy.close()


def test_silent_connections_do_not_keep_executors_from_joining(listener: tuple[ExecutorListener, Came]) -> None:
    opened, arrived = listener
    ticket = opened.expect(1)
    silent = [make_noise(ticket, b"") for _ in range(module.MAX_HANDSHAKES + 10)]
    for sock in join(ticket):
        sock.close()
    arrived.get(timeout=5)[1].close()
    for sock in silent:
        sock.close()


def test_executors_that_join_at_the_same_time_do_not_cut_each_other_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, each needs seconds between its connection and what it says."""
    monkeypatch.setattr(module, "MAX_HANDSHAKES", 4)
    listener = ExecutorListener(lambda *_: None)
    tickets = [listener.expect(number) for number in range(20)]
    connected = [make_noise(ticket, b"") for ticket in tickets]
    for sock, ticket in reversed(list(zip(connected, tickets, strict=True))):  # the last one was accepted last
        wire.greet(sock, ticket, leash=True)
        sock.close()
    listener.close()


def test_executors_can_join_again_after_the_system_had_no_thread_left(
    listener: tuple[ExecutorListener, Came], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, arrived = listener
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    start, refusals = Thread.start, [1]

    def limited(thread: Thread) -> None:
        if thread.name == "executors-greeting" and refusals:
            refusals.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", limited)
    ticket = opened.expect(1)
    refused(ticket, leash=True)
    for sock in join(ticket):
        sock.close()
    arrived.get(timeout=10)[1].close()


AGAIN = f"""{SERVE}
import threading
threads = threading.active_count()
serve(pickle.load(sys.stdin.buffer))
sys.exit(threading.active_count() - threads)
"""


def executor(*tickets: Ticket, program: str = SERVE) -> subprocess.Popen[bytes]:
    """A process that serves."""
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"".join(map(pickle.dumps, tickets)))
    process.stdin.close()
    return process


@pytest.mark.integration  # a process of its own
def test_a_process_serves_until_it_is_ended_and_can_always_be_killed(
    listener: tuple[ExecutorListener, Came], tmp_path: Path
) -> None:
    """By a byte on its control connection, or by the end of that connection, regardless of what it is doing."""
    opened, arrived = listener
    processes = [executor(opened.expect(n)) for n in range(3)]
    lines = dict(arrived.get(timeout=60) for _ in processes)
    for line in lines.values():
        wire.send(line.work, pickle.dumps(Answer(5)))
        assert pickle.loads(wire.receive(line.work))[0].value == 5
    for n in (1, 2):
        wire.send(lines[n].work, pickle.dumps(HoldInterpreter(str(tmp_path / f"{n}"))))
        wait_until((tmp_path / f"{n}").exists)
    lines[0].ask_to_end()
    lines[1].kill()
    lines[2].leash.close()
    assert [process.wait(30) for process in processes] == [0, -signal.SIGKILL, -signal.SIGKILL]
    for line in lines.values():
        line.close_after(5)


@pytest.mark.integration  # a process of its own
def test_a_process_that_serves_again_has_no_more_threads(listener: tuple[ExecutorListener, Came]) -> None:
    opened, arrived = listener
    process = executor(opened.expect(1), opened.expect(2), program=AGAIN)
    for _ in range(2):
        _, line = arrived.get(timeout=60)
        line.ask_to_end()
        line.close_after(5)
    assert process.wait(30) == 0


def test_an_executor_connects_only_to_its_own_worker() -> None:
    """An address without the certificate or the token is not enough."""
    doors = [ExecutorListener(lambda *_: None, remote=True) for _ in range(2)]
    mine, other = (listener.expect(1) for listener in doors)
    with pytest.raises(ssl.SSLCertVerificationError):
        dial(replace(mine, port=other.port), leash=True)
    with pytest.raises(ConnectionError):
        dial(replace(other, token=mine.token), leash=True)
    for listener in doors:
        listener.close()


@pytest.mark.parametrize("remote", [False, True])
def test_a_ticket_says_how_large_a_result_may_be(remote: bool) -> None:
    listener = ExecutorListener(lambda *_: None, remote=remote, max_result_bytes=5)
    assert listener.expect(1).max_result_bytes == 5
    listener.close()


def test_the_socket_is_in_a_folder_of_the_user_alone_and_a_ticket_does_not_show_its_token() -> None:
    listener = ExecutorListener(lambda *_: None)
    ticket = listener.expect(1)
    assert stat.S_IMODE(listener.folder.stat().st_mode) == 0o700
    assert ticket.path.startswith(str(listener.folder))
    assert repr(ticket) == f"Ticket(1, {ticket.path})"
    listener.close()
